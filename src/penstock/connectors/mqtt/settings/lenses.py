"""The settings of Lenses' connectors (connectors.md §9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    Key,
    at_least,
    between,
    checking,
    invalid,
    one_of,
)
from penstock.connectors.mqtt.client.options import Names, Options
from penstock.connectors.mqtt.client.topics import filter_problem, is_shared
from penstock.connectors.mqtt.read.plan import Payload, Route, Shape, SourcePlan
from penstock.connectors.mqtt.settings import shared
from penstock.connectors.mqtt.settings.kcql import Statement, parse
from penstock.connectors.mqtt.write.plan import SinkPlan
from penstock.connectors.mqtt.write.targets import pattern_problem

_CONNECTION: Final = "Connection"
_FROM_FIELD: Final = "mqtt.target.from.field"
_CONVERTERS: Final = {
    "BytesConverter": Payload.BYTES,
    "JsonSimpleConverter": Payload.JSON,
}


def _servers_problem(hosts: str | None) -> str | None:
    return shared.servers_problem((hosts or "").split(","))


def _source_problem(text: str | None) -> str | None:
    try:
        for statement in parse(text or ""):
            _route(statement)
    except ValueError as error:
        return str(error)
    return None


def _sink_problem(text: str | None) -> str | None:
    try:
        _targets(parse(text or ""))
    except ValueError as error:
        return str(error)
    return None


HOSTS: Final = Key(
    "connect.mqtt.hosts",
    STRING,
    default=REQUIRED,
    importance=HIGH,
    check=checking("tcp://HOST:PORT or ssl://HOST:PORT", _servers_problem),
    doc="The brokers, tcp://HOST:PORT or ssl://HOST:PORT, separated by commas. The first one that "
    "responds is used.",
    group=_CONNECTION,
    order=1,
)
USERNAME: Final = Key(
    "connect.mqtt.username",
    STRING,
    default=None,
    importance=HIGH,
    doc="The user name.",
    group=_CONNECTION,
    order=2,
)
PASSWORD_KEY: Final = Key(
    "connect.mqtt.password",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The user's password.",
    group=_CONNECTION,
    order=3,
)
QOS: Final = Key(
    "connect.mqtt.service.quality",
    INT,
    default=REQUIRED,
    importance=MEDIUM,
    check=between(0, 2),
    doc="The QoS of messages: 0, 1 or 2.",
    group=_CONNECTION,
    order=4,
)
TIMEOUT: Final = Key(
    "connect.mqtt.timeout",
    INT,
    default=3_000,
    importance=LOW,
    check=at_least(1),
    doc="How long to wait for a response of the broker, in milliseconds.",
    group=_CONNECTION,
    order=5,
)
CLEAN: Final = Key(
    "connect.mqtt.clean",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether the broker forgets a disconnected task. With `false`, and "
    "connect.mqtt.service.quality 1 or 2, a source loses nothing when it restarts.",
    group=_CONNECTION,
    order=6,
)
KEEPALIVE: Final = Key(
    "connect.mqtt.keep.alive",
    INT,
    default=5_000,
    importance=LOW,
    check=at_least(1),
    doc="After how many milliseconds without a packet the connection is checked.",
    group=_CONNECTION,
    order=7,
)
CLIENT_ID: Final = Key(
    "connect.mqtt.client.id",
    STRING,
    default=None,
    importance=LOW,
    doc="The client id of task 0; the other tasks append their number. By default `connect-`, the "
    "connector's name and the number. No other client of the broker may use these ids.",
    group=_CONNECTION,
    order=8,
)
CA: Final = Key(
    "connect.mqtt.ssl.ca.cert",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="The PEM file with the trusted certificates. Without it: those of the system.",
    group="SSL",
    order=1,
)
CERT: Final = Key(
    "connect.mqtt.ssl.cert",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="The PEM file with the client certificate.",
    group="SSL",
    order=2,
)
CERT_KEY: Final = Key(
    "connect.mqtt.ssl.key",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="The PEM file with the key of that certificate.",
    group="SSL",
    order=3,
)
_KCQL_DOC: Final = (
    "The routes in KCQL, separated by semicolons: INSERT INTO target SELECT * FROM source"
)
SOURCE_KCQL: Final = Key(
    "connect.mqtt.kcql",
    STRING,
    default=REQUIRED,
    importance=HIGH,
    check=checking("KCQL", _source_problem),
    doc=f"{_KCQL_DOC} [WITHCONVERTER=`class`] [WITHKEY(field, ...)] [KEYDELIMITER='.'] "
    "[WITHREGEX=`regex`]. The source is a topic filter, the target a Kafka topic, or `$`: the MQTT "
    "topic with `_` in place of `/`.",
    group="KCQL",
    order=1,
)
SINK_KCQL: Final = Key(
    "connect.mqtt.kcql",
    STRING,
    default=REQUIRED,
    importance=HIGH,
    check=checking("KCQL", _sink_problem),
    doc=f"{_KCQL_DOC} [PROPERTIES('{_FROM_FIELD}'='true')]. The source is a Kafka topic, the "
    "target an MQTT topic, `_key` (the key of the record), `_topic` (its topic), or, with that "
    "property, the path of a field of its value.",
    group="KCQL",
    order=1,
)
PROGRESS: Final = Key(
    "connect.progress.enabled",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Ignored: the worker's metrics count records.",
    group="Metrics",
    order=1,
)
THROW: Final = Key(
    "connect.mqtt.converter.throw.on.error",
    BOOLEAN,
    default=False,
    importance=HIGH,
    doc="Whether a message that cannot be converted fails the task. `false`: skip it, with a "
    "warning.",
    group="Converter",
    order=1,
)
AVRO: Final = Key(
    "connect.converter.avro.schemas",
    STRING,
    default="",
    importance=HIGH,
    doc="Ignored: Avro converters are not supported.",
    group="Converter",
    order=3,
)
_CONNECTION_KEYS: Final = (
    HOSTS,
    USERNAME,
    PASSWORD_KEY,
    QOS,
    TIMEOUT,
    CLEAN,
    KEEPALIVE,
    CLIENT_ID,
    CA,
    CERT,
    CERT_KEY,
    PROGRESS,
    THROW,
    AVRO,
    *shared.CONNECTION_KEYS,
)

POLLING: Final = Key(
    "connect.mqtt.polling.timeout",
    INT,
    default=1_000,
    importance=LOW,
    doc="Ignored: messages are handed over as they arrive.",
    group="Manager",
    order=1,
)
REPLICATE: Final = Key(
    "connect.mqtt.share.replicate",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether all tasks subscribe to shared subscriptions, whose messages the broker then "
    "distributes. `false`: one task subscribes to each.",
    group="Manager",
    order=2,
)
LOG_MESSAGE: Final = Key(
    "connect.mqtt.log.message",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Ignored: payloads are not logged.",
    group="Debug",
    order=1,
)
DUPLICATES: Final = Key(
    "connect.mqtt.process.duplicates",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Ignored. A message that the broker resends is skipped only if it is already in Kafka: a "
    "message flagged as a duplicate may be the only copy that arrived.",
    group=_CONNECTION,
    order=12,
)
ERROR_POLICY: Final = Key(
    "connect.mqtt.error.policy",
    STRING,
    default="THROW",
    importance=HIGH,
    check=one_of("THROW", "NOOP", "RETRY"),
    doc="How to handle records that the broker refuses. THROW, RETRY: as `errors.*` specify. NOOP: "
    "skip them, with a warning.",
    group=_CONNECTION,
    order=9,
)
RETRY_INTERVAL: Final = Key(
    "connect.mqtt.retry.interval",
    INT,
    default=60_000,
    importance=MEDIUM,
    check=at_least(0),
    doc="How long a write waits for a reconnect before the engine retries it, in milliseconds.",
    group=_CONNECTION,
    order=10,
)
RETRIES: Final = Key(
    "connect.mqtt.max.retries",
    INT,
    default=20,
    importance=MEDIUM,
    doc="Ignored: writes are retried until the broker responds.",
    group=_CONNECTION,
    order=11,
)
RETAINED: Final = Key(
    "connect.mqtt.retained.messages",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether the broker retains the messages.",
    group=_CONNECTION,
    order=12,
)


def _certificates_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Requires certificate and key together."""
    cert, key = parsed.get(CERT.name), parsed.get(CERT_KEY.name)
    if bool(cert) != bool(key):
        present, missing = (CERT, CERT_KEY) if cert else (CERT_KEY, CERT)
        yield (
            missing.name,
            invalid(missing.name, None, f"{present.name} is set and needs it"),
        )


_RULES: Final = (
    shared.credentials_rule(USERNAME.name, PASSWORD_KEY.name),
    _certificates_rule,
)
LENSES_SOURCE: Final = ConfigDef(
    *_CONNECTION_KEYS,
    SOURCE_KCQL,
    POLLING,
    REPLICATE,
    LOG_MESSAGE,
    DUPLICATES,
    rules=_RULES,
)
LENSES_SINK: Final = ConfigDef(
    *_CONNECTION_KEYS,
    SINK_KCQL,
    ERROR_POLICY,
    RETRY_INTERVAL,
    RETRIES,
    RETAINED,
    rules=_RULES,
)

NAMES: Final = Names(
    servers=HOSTS.name,
    username=USERNAME.name,
    password=PASSWORD_KEY.name,
    trust=CA.name,
    client_id=CLIENT_ID.name,
    filters=SOURCE_KCQL.name,
)
_TLS_NAMES: Final = {
    "ssl.truststore.location": CA.name,
    "ssl.keystore.certificate.chain": CERT.name,
    "ssl.keystore.key": CERT_KEY.name,
}


def options_of(config: Config) -> Options:
    """Connection parameters. Raises ConfigInvalid for unreadable files."""
    return shared.options_of(
        config,
        servers=shared.servers_of(config[HOSTS].split(",")),
        names=NAMES,
        clean=config[CLEAN],
        client_id=config[CLIENT_ID] or "",
        username=config[USERNAME],
        password=config[PASSWORD_KEY],
        tls=_tls(config),
        tls_names=_TLS_NAMES,
        connect_s=config[TIMEOUT] / 1000,
        keepalive_s=min(65_535, max(1, -(-config[KEEPALIVE] // 1000))),
    )


def _tls(config: Config) -> Mapping[str, str]:
    settings: dict[str, str] = {}
    if config[CA]:
        settings |= {"ssl.truststore.location": config[CA] or "", "ssl.truststore.type": "PEM"}
    for key, name in ((CERT, "ssl.keystore.certificate.chain"), (CERT_KEY, "ssl.keystore.key")):
        path = config[key]
        if not path:
            continue
        try:
            settings[name] = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            text = f"the file cannot be read: {getattr(error, 'strerror', error)}"
            raise ConfigInvalid([invalid(key.name, path, text)]) from error
    return settings


def statements(config: Config) -> list[Statement]:
    """The statements of a valid source configuration."""
    return parse(config[SOURCE_KCQL])


def _route(statement: Statement) -> Route:
    if problem := filter_problem(statement.source):
        raise ValueError(f"'{statement.source}' cannot be subscribed to: {problem}")
    converter = (statement.converter or "BytesConverter").rpartition(".")[2]
    if converter not in _CONVERTERS:
        raise ValueError(
            f"the converter {statement.converter} is not supported; use "
            f"{' or '.join(_CONVERTERS)}. Without WITHCONVERTER the value is the payload in bytes, "
            "for transforms or consumers to convert"
        )
    if statement.regex is not None:
        try:
            re.compile(statement.regex)
        except re.error as error:
            raise ValueError(f"the regex {statement.regex} is invalid: {error}") from None
    return Route(
        statement.source,
        statement.target,
        _CONVERTERS[converter],
        statement.keys,
        statement.delimiter,
        statement.regex,
    )


def source_plan(config: Config) -> SourcePlan:
    """The plan of a source task."""
    return SourcePlan(
        routes=tuple(_route(statement) for statement in statements(config)),
        qos=config[QOS],
        shape=Shape.LENSES,
        headers=config[shared.HEADERS],
        skips_malformed=not config[THROW],
    )


def shared_flags(config: Config) -> list[bool]:
    """For each statement, whether all tasks get it."""
    return [is_shared(statement.source) and config[REPLICATE] for statement in statements(config)]


def _targets(parsed: Iterable[Statement]) -> dict[str, str]:
    targets: dict[str, str] = {}
    for statement in parsed:
        if statement.source in targets:
            raise ValueError(f"the topic {statement.source} has two statements")
        target = statement.target
        if statement.target_field:
            target = f"${{value.{statement.target_field}}}"
        elif statement.properties.get(_FROM_FIELD, "").lower() == "true":
            target = f"${{value.{target}}}"
        elif target in ("_key", "_topic"):
            target = f"${{{target[1:]}}}"
        if problem := pattern_problem(target):
            raise ValueError(f"invalid target '{statement.target}': {problem}")
        targets[statement.source] = target
    return targets


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task."""
    return SinkPlan(
        targets=_targets(parse(config[SINK_KCQL])),
        target=None,
        qos=config[QOS],
        retain=config[RETAINED],
        headers=config[shared.HEADERS],
        retry_s=config[RETRY_INTERVAL] / 1000,
        window=config[shared.RECEIVE_MAXIMUM],
        ignores_errors=config[ERROR_POLICY] == "NOOP",
    )
