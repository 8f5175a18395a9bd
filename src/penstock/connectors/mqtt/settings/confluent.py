"""The settings of Confluent's connectors (connectors.md §9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    checking,
    non_empty,
)
from penstock.connectors.mqtt.client.options import Names, Options
from penstock.connectors.mqtt.read.plan import Route, Shape, SourcePlan
from penstock.connectors.mqtt.settings import shared
from penstock.connectors.mqtt.write.plan import SinkPlan
from penstock.connectors.mqtt.write.targets import pattern_problem

# fmt: off
_CONNECTION: Final = Group("Connection", importance=HIGH)
SERVERS: Final = _CONNECTION.listing("mqtt.server.uri", REQUIRED,
    "The brokers, tcp://HOST:PORT or ssl://HOST:PORT. The first one that responds is used.",
    check=checking("tcp://HOST:PORT or ssl://HOST:PORT", shared.servers_problem))
USERNAME: Final = _CONNECTION.text("mqtt.username", "", "The user name. Empty: none.")
PASSWORD_KEY: Final = _CONNECTION.secret("mqtt.password", None, "The user's password.")
TRUST_STORE: Final = _CONNECTION.text("mqtt.ssl.trust.store.path", "",
    "The file with the trusted certificates, PKCS12 or PEM. Empty: those of the system.")
TRUST_PASSWORD: Final = _CONNECTION.secret("mqtt.ssl.trust.store.password", None,
    "The password of that file.")
KEY_STORE: Final = _CONNECTION.text("mqtt.ssl.key.store.path", "",
    "The file with the client certificate and its key, PKCS12 or PEM.")
KEY_STORE_PASSWORD: Final = _CONNECTION.secret("mqtt.ssl.key.store.password", None,
    "The password of that file.")
KEY_PASSWORD: Final = _CONNECTION.secret("mqtt.ssl.key.password", None,
    "The password of the key, if it has one.")
CLEAN: Final = _CONNECTION.flag("mqtt.clean.session.enabled", True,
    "Whether the broker forgets a disconnected task. With `false`, and mqtt.qos 1 or 2, a source "
    "loses nothing when it restarts.", importance=LOW)
CONNECT_TIMEOUT: Final = _CONNECTION.number("mqtt.connect.timeout.seconds", 30,
    "How long to wait for a response of the broker.", at_least=1, importance=LOW)
KEEPALIVE: Final = _CONNECTION.number("mqtt.keepalive.interval.seconds", 60,
    "After how long without a packet the connection is checked.", at_least=1, at_most=65_535,
    importance=LOW)
_PENSTOCK: Final = Group("penstock", first=2)
CLIENT_ID: Final = _PENSTOCK.text("penstock.mqtt.client.id", None,
    "The prefix of the tasks' client ids; their numbers follow. By default `connect-` and the "
    "connector's name. No other client of the broker may use these ids.", check=non_empty(),
    importance=LOW)
_CONNECTION_KEYS: Final = (*_CONNECTION, CLIENT_ID, *shared.CONNECTION_KEYS)
_LICENCE: Final = Group("Confluent Platform", numbered=False)
_LICENCE.ignored("confluent.license", None, kind=PASSWORD)
_LICENCE.ignored("confluent.topic", "_confluent-command")
_LICENCE.ignored("confluent.topic.bootstrap.servers", ())
_LICENCE.ignored("confluent.topic.replication.factor", 3)

_MQTT: Final = Group("MQTT", importance=LOW)
TOPICS: Final = _MQTT.listing("mqtt.topics", REQUIRED,
    "The topic filters to subscribe to: with wildcards, or shared subscriptions "
    "($share/GROUP/FILTER). Filters are divided among tasks. All tasks subscribe to the shared "
    "ones, whose messages the broker distributes.",
    check=checking("topic filters", shared.filters_problem), importance=HIGH)
QOS: Final = _MQTT.number("mqtt.qos", 0,
    "The QoS of the subscriptions: 0, 1 or 2.", at_least=0, at_most=2)
_KAFKA: Final = Group("Kafka")
KAFKA_TOPIC: Final = _KAFKA.text("kafka.topic", "mqtt",
    "The Kafka topic. `$`: the MQTT topic, with `_` in place of `/`.", check=non_empty(),
    importance=HIGH)
SINK_QOS: Final = _MQTT.number("mqtt.qos", 1,
    "The QoS of the messages: 0, 1 or 2.", at_least=0, at_most=2, order=1)
RETAINED: Final = _MQTT.flag("mqtt.retained.messages.enabled", False,
    "Whether the broker retains the messages.")
RETRY_MS: Final = _MQTT.number("max.retry.time.ms", 30_000,
    "How long a write waits for a reconnect before the engine retries it.", at_least=0,
    importance=MEDIUM)
TARGET: Final = _PENSTOCK.text("penstock.mqtt.topic", "${topic}",
    "The MQTT topic of a record; may contain ${topic}, ${partition}, ${key}, ${header.NAME} and "
    "${value.FIELD.FIELD}.", check=checking("a pattern of an MQTT topic", pattern_problem),
    order=10)
# fmt: on

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
