"""The settings of Lenses' connectors (connectors.md §9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    checking,
    invalid,
)
from penstock.connectors.mqtt.client.options import Names, Options
from penstock.connectors.mqtt.client.topics import filter_problem, is_shared
from penstock.connectors.mqtt.read.plan import Payload, Route, Shape, SourcePlan
from penstock.connectors.mqtt.settings import shared
from penstock.connectors.mqtt.settings.kcql import Statement, parse
from penstock.connectors.mqtt.write.plan import SinkPlan
from penstock.connectors.mqtt.write.targets import pattern_problem

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


# fmt: off
_CONNECTION: Final = Group("Connection", importance=HIGH)
HOSTS: Final = _CONNECTION.text("connect.mqtt.hosts", REQUIRED,
    "The brokers, tcp://HOST:PORT or ssl://HOST:PORT, separated by commas. The first one that "
    "responds is used.", check=checking("tcp://HOST:PORT or ssl://HOST:PORT", _servers_problem))
USERNAME: Final = _CONNECTION.text("connect.mqtt.username", None, "The user name.")
PASSWORD_KEY: Final = _CONNECTION.secret("connect.mqtt.password", None, "The user's password.")
QOS: Final = _CONNECTION.number("connect.mqtt.service.quality", REQUIRED,
    "The QoS of messages: 0, 1 or 2.", at_least=0, at_most=2, importance=MEDIUM)
TIMEOUT: Final = _CONNECTION.number("connect.mqtt.timeout", 3_000,
    "How long to wait for a response of the broker, in milliseconds.", at_least=1, importance=LOW)
CLEAN: Final = _CONNECTION.flag("connect.mqtt.clean", True,
    "Whether the broker forgets a disconnected task. With `false`, and "
    "connect.mqtt.service.quality 1 or 2, a source loses nothing when it restarts.", importance=LOW)
KEEPALIVE: Final = _CONNECTION.number("connect.mqtt.keep.alive", 5_000,
    "After how many milliseconds without a packet the connection is checked.", at_least=1,
    importance=LOW)
CLIENT_ID: Final = _CONNECTION.text("connect.mqtt.client.id", None,
    "The client id of task 0; the other tasks append their number. By default `connect-`, the "
    "connector's name and the number. No other client of the broker may use these ids.",
    importance=LOW)
_SSL: Final = Group("SSL")
CA: Final = _SSL.text("connect.mqtt.ssl.ca.cert", None,
    "The PEM file with the trusted certificates. Without it: those of the system.")
CERT: Final = _SSL.text("connect.mqtt.ssl.cert", None, "The PEM file with the client certificate.")
CERT_KEY: Final = _SSL.text("connect.mqtt.ssl.key", None,
    "The PEM file with the key of that certificate.")
_KCQL_DOC: Final = (
    "The routes in KCQL, separated by semicolons: INSERT INTO target SELECT * FROM source"
)
_KCQL: Final = Group("KCQL", importance=HIGH)
SOURCE_KCQL: Final = _KCQL.text("connect.mqtt.kcql", REQUIRED,
    f"{_KCQL_DOC} [WITHCONVERTER=`class`] [WITHKEY(field, ...)] [KEYDELIMITER='.'] "
    "[WITHREGEX=`regex`]. The source is a topic filter, the target a Kafka topic, or `$`: the MQTT "
    "topic with `_` in place of `/`.", check=checking("KCQL", _source_problem))
SINK_KCQL: Final = _KCQL.text("connect.mqtt.kcql", REQUIRED,
    f"{_KCQL_DOC} [PROPERTIES('{_FROM_FIELD}'='true')]. The source is a Kafka topic, the "
    "target an MQTT topic, `_key` (the key of the record), `_topic` (its topic), or, with that "
    "property, the path of a field of its value.", check=checking("KCQL", _sink_problem), order=1)
_METRICS: Final = Group("Metrics")
PROGRESS: Final = _METRICS.ignored("connect.progress.enabled", False,
    "the worker's metrics count records", importance=MEDIUM)
_CONVERTER: Final = Group("Converter")
THROW: Final = _CONVERTER.flag("connect.mqtt.converter.throw.on.error", False,
    "Whether a message that cannot be converted fails the task. `false`: skip it, with a warning.",
    importance=HIGH)
AVRO: Final = _CONVERTER.ignored("connect.converter.avro.schemas", "",
    "Avro converters are not supported", importance=HIGH, order=3)
_CONNECTION_KEYS: Final = (
    *(HOSTS, USERNAME, PASSWORD_KEY, QOS, TIMEOUT, CLEAN, KEEPALIVE, CLIENT_ID),
    *(*_SSL, *_METRICS, *_CONVERTER, *shared.CONNECTION_KEYS),
)

_MANAGER: Final = Group("Manager")
POLLING: Final = _MANAGER.ignored("connect.mqtt.polling.timeout", 1_000,
    "messages are handed over as they arrive")
REPLICATE: Final = _MANAGER.flag("connect.mqtt.share.replicate", False,
    "Whether all tasks subscribe to shared subscriptions, whose messages the broker then "
    "distributes. `false`: one task subscribes to each.", importance=LOW)
_DEBUG: Final = Group("Debug")
LOG_MESSAGE: Final = _DEBUG.ignored("connect.mqtt.log.message", False,
    "payloads are not logged", importance=MEDIUM)
DUPLICATES: Final = _CONNECTION.flag("connect.mqtt.process.duplicates", False,
    "Ignored. A message that the broker resends is skipped only if it is already in Kafka: a "
    "message flagged as a duplicate may be the only copy that arrived.", importance=LOW, order=12)
ERROR_POLICY: Final = _CONNECTION.choice(
    "connect.mqtt.error.policy", "THROW", ("THROW", "NOOP", "RETRY"),
    "How to handle records that the broker refuses. THROW, RETRY: as `errors.*` specify. NOOP: "
    "skip them, with a warning.", order=9)
RETRY_INTERVAL: Final = _CONNECTION.number("connect.mqtt.retry.interval", 60_000,
    "How long a write waits for a reconnect before the engine retries it, in milliseconds.",
    at_least=0, importance=MEDIUM)
RETRIES: Final = _CONNECTION.ignored("connect.mqtt.max.retries", 20,
    "writes are retried until the broker responds", importance=MEDIUM)
RETAINED: Final = _CONNECTION.flag("connect.mqtt.retained.messages", False,
    "Whether the broker retains the messages.", importance=MEDIUM)
# fmt: on


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
    *_MANAGER,
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
