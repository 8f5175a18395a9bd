"""The settings of Confluent's connectors (connectors.md §9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
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
    non_empty,
)
from penstock.connectors.mqtt.client.options import Names, Options
from penstock.connectors.mqtt.read.plan import Route, Shape, SourcePlan
from penstock.connectors.mqtt.settings import shared
from penstock.connectors.mqtt.write.plan import SinkPlan
from penstock.connectors.mqtt.write.targets import pattern_problem

_CONNECTION: Final = "Connection"

SERVERS: Final = Key(
    "mqtt.server.uri",
    LIST,
    default=REQUIRED,
    importance=HIGH,
    check=checking("tcp://HOST:PORT or ssl://HOST:PORT", shared.servers_problem),
    doc="The brokers, tcp://HOST:PORT or ssl://HOST:PORT. The first one that responds is used.",
    group=_CONNECTION,
    order=1,
)
USERNAME: Final = Key(
    "mqtt.username",
    STRING,
    default="",
    importance=HIGH,
    doc="The user name. Empty: none.",
    group=_CONNECTION,
    order=2,
)
PASSWORD_KEY: Final = Key(
    "mqtt.password",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The user's password.",
    group=_CONNECTION,
    order=3,
)
TRUST_STORE: Final = Key(
    "mqtt.ssl.trust.store.path",
    STRING,
    default="",
    importance=HIGH,
    doc="The file with the trusted certificates, PKCS12 or PEM. Empty: those of the system.",
    group=_CONNECTION,
    order=4,
)
TRUST_PASSWORD: Final = Key(
    "mqtt.ssl.trust.store.password",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The password of that file.",
    group=_CONNECTION,
    order=5,
)
KEY_STORE: Final = Key(
    "mqtt.ssl.key.store.path",
    STRING,
    default="",
    importance=HIGH,
    doc="The file with the client certificate and its key, PKCS12 or PEM.",
    group=_CONNECTION,
    order=6,
)
KEY_STORE_PASSWORD: Final = Key(
    "mqtt.ssl.key.store.password",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The password of that file.",
    group=_CONNECTION,
    order=7,
)
KEY_PASSWORD: Final = Key(
    "mqtt.ssl.key.password",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The password of the key, if it has one.",
    group=_CONNECTION,
    order=8,
)
CLEAN: Final = Key(
    "mqtt.clean.session.enabled",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether the broker forgets a disconnected task. With `false`, and mqtt.qos 1 or 2, a "
    "source loses nothing when it restarts.",
    group=_CONNECTION,
    order=9,
)
CONNECT_TIMEOUT: Final = Key(
    "mqtt.connect.timeout.seconds",
    INT,
    default=30,
    importance=LOW,
    check=at_least(1),
    doc="How long to wait for a response of the broker.",
    group=_CONNECTION,
    order=10,
)
KEEPALIVE: Final = Key(
    "mqtt.keepalive.interval.seconds",
    INT,
    default=60,
    importance=LOW,
    check=between(1, 65_535),
    doc="After how long without a packet the connection is checked.",
    group=_CONNECTION,
    order=11,
)
CLIENT_ID: Final = Key(
    "penstock.mqtt.client.id",
    STRING,
    default=None,
    importance=LOW,
    check=non_empty(),
    doc="The prefix of the tasks' client ids; their numbers follow. By default `connect-` and the "
    "connector's name. No other client of the broker may use these ids.",
    group=shared.GROUP,
    order=2,
)
_CONNECTION_KEYS: Final = (
    SERVERS,
    USERNAME,
    PASSWORD_KEY,
    TRUST_STORE,
    TRUST_PASSWORD,
    KEY_STORE,
    KEY_STORE_PASSWORD,
    KEY_PASSWORD,
    CLEAN,
    CONNECT_TIMEOUT,
    KEEPALIVE,
    CLIENT_ID,
    *shared.CONNECTION_KEYS,
)
_LICENCE: Final = tuple(
    Key(name, kind, default=default, importance=LOW, doc=doc, group="Confluent Platform")
    for name, kind, default, doc in (
        ("confluent.license", PASSWORD, None, "Ignored."),
        ("confluent.topic", STRING, "_confluent-command", "Ignored."),
        ("confluent.topic.bootstrap.servers", LIST, (), "Ignored."),
        ("confluent.topic.replication.factor", INT, 3, "Ignored."),
    )
)

TOPICS: Final = Key(
    "mqtt.topics",
    LIST,
    default=REQUIRED,
    importance=HIGH,
    check=checking("topic filters", shared.filters_problem),
    doc="The topic filters to subscribe to: with wildcards, or shared subscriptions "
    "($share/GROUP/FILTER). Filters are divided among tasks. All tasks subscribe to the shared "
    "ones, whose messages the broker distributes.",
    group="MQTT",
    order=1,
)
QOS: Final = Key(
    "mqtt.qos",
    INT,
    default=0,
    importance=LOW,
    check=between(0, 2),
    doc="The QoS of the subscriptions: 0, 1 or 2.",
    group="MQTT",
    order=2,
)
KAFKA_TOPIC: Final = Key(
    "kafka.topic",
    STRING,
    default="mqtt",
    importance=HIGH,
    check=non_empty(),
    doc="The Kafka topic. `$`: the MQTT topic, with `_` in place of `/`.",
    group="Kafka",
    order=1,
)
SINK_QOS: Final = Key(
    "mqtt.qos",
    INT,
    default=1,
    importance=LOW,
    check=between(0, 2),
    doc="The QoS of the messages: 0, 1 or 2.",
    group="MQTT",
    order=1,
)
RETAINED: Final = Key(
    "mqtt.retained.messages.enabled",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether the broker retains the messages.",
    group="MQTT",
    order=2,
)
RETRY_MS: Final = Key(
    "max.retry.time.ms",
    INT,
    default=30_000,
    importance=MEDIUM,
    check=at_least(0),
    doc="How long a write waits for a reconnect before the engine retries it.",
    group="MQTT",
    order=3,
)
TARGET: Final = Key(
    "penstock.mqtt.topic",
    STRING,
    default="${topic}",
    importance=MEDIUM,
    check=checking("a pattern of an MQTT topic", pattern_problem),
    doc="The MQTT topic of a record; may contain ${topic}, ${partition}, ${key}, ${header.NAME} "
    "and ${value.FIELD.FIELD}.",
    group=shared.GROUP,
    order=10,
)

_CREDENTIALS: Final = shared.credentials_rule(USERNAME.name, PASSWORD_KEY.name)
CONFLUENT_SOURCE: Final = ConfigDef(
    *_CONNECTION_KEYS, TOPICS, QOS, KAFKA_TOPIC, *_LICENCE, rules=(_CREDENTIALS,)
)
CONFLUENT_SINK: Final = ConfigDef(
    *_CONNECTION_KEYS, SINK_QOS, RETAINED, RETRY_MS, TARGET, *_LICENCE, rules=(_CREDENTIALS,)
)

NAMES: Final = Names(
    servers=SERVERS.name,
    username=USERNAME.name,
    password=PASSWORD_KEY.name,
    trust=TRUST_STORE.name,
    client_id=CLIENT_ID.name,
    filters=TOPICS.name,
)
_TLS_NAMES: Final = {
    "ssl.truststore.location": TRUST_STORE.name,
    "ssl.truststore.password": TRUST_PASSWORD.name,
    "ssl.keystore.location": KEY_STORE.name,
    "ssl.keystore.password": KEY_STORE_PASSWORD.name,
    "ssl.key.password": KEY_PASSWORD.name,
}


def options_of(config: Config) -> Options:
    """Connection parameters. Raises ConfigInvalid for unreadable stores."""
    return shared.options_of(
        config,
        servers=shared.servers_of(config[SERVERS]),
        names=NAMES,
        clean=config[CLEAN],
        client_id=config[CLIENT_ID] or "",
        username=config[USERNAME],
        password=config[PASSWORD_KEY],
        tls=_tls(config),
        tls_names=_TLS_NAMES,
        connect_s=config[CONNECT_TIMEOUT],
        keepalive_s=config[KEEPALIVE],
    )


def _tls(config: Config) -> Mapping[str, str]:
    settings: dict[str, str] = {}
    for store, path, password in (
        ("truststore", config[TRUST_STORE], config[TRUST_PASSWORD]),
        ("keystore", config[KEY_STORE], config[KEY_STORE_PASSWORD]),
    ):
        if not path:
            continue
        settings[f"ssl.{store}.location"] = path
        settings[f"ssl.{store}.type"] = kind = shared.store_type(path)
        if password is not None and password.value and kind != "PEM":
            settings[f"ssl.{store}.password"] = password.value
    key = config[KEY_PASSWORD]
    if key is not None and key.value and "ssl.keystore.location" in settings:
        settings["ssl.key.password"] = key.value
    return settings


def source_plan(config: Config) -> SourcePlan:
    """The plan of a source task."""
    return SourcePlan(
        routes=tuple(Route(topic_filter, config[KAFKA_TOPIC]) for topic_filter in config[TOPICS]),
        qos=config[QOS],
        shape=Shape.CONFLUENT,
        headers=config[shared.HEADERS],
    )


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task."""
    return SinkPlan(
        targets={},
        target=config[TARGET],
        qos=config[SINK_QOS],
        retain=config[RETAINED],
        headers=config[shared.HEADERS],
        retry_s=config[RETRY_MS] / 1000,
        window=config[shared.RECEIVE_MAXIMUM],
    )
