"""The settings of Lenses' sink (connectors.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIDDEN,
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    Importance,
    Secret,
    all_of,
    checking,
    flag,
    invalid,
    non_empty,
    text,
)
from penstock.connectors.kcql import KcqlInvalid
from penstock.connectors.redis.client.access import Access, Mode
from penstock.connectors.redis.client.uris import UriInvalid, parse_uri
from penstock.connectors.redis.settings.connection import uri_of
from penstock.connectors.redis.settings.shared import (
    PIPELINE_KEYS,
    ServersCheck,
    limits_of,
)
from penstock.connectors.redis.settings.tls import Tls
from penstock.connectors.redis.write.kcql import parse_kcql
from penstock.connectors.redis.write.lenses import LensesMaker
from penstock.connectors.redis.write.plan import SinkPlan


def _kcql_problem(text: str | None) -> str | None:
    try:
        if text is not None:
            parse_kcql(text)
    except KcqlInvalid as error:
        return str(error)
    return None


def _host_problem(text: str | None) -> str | None:
    try:
        if text:
            parse_uri(text)
    except UriInvalid as error:
        return str(error)
    return None


# fmt: off
_CONNECTION: Final = Group("Connection", importance=HIGH, first=2)
HOST: Final = _CONNECTION.text("connect.redis.host", REQUIRED,
    "The server's host. Also accepts a URI: redis://, rediss://, redis-sentinel://.",
    check=all_of(non_empty(), ServersCheck("a host or a URI", _host_problem)))
PORT: Final = _CONNECTION.number("connect.redis.port", REQUIRED,
    "The server's port.", at_least=1, at_most=65_535)
PASSWORD_KEY: Final = _CONNECTION.secret("connect.redis.password", None,
    "The password.", importance=LOW)
TLS: Final = _CONNECTION.flag("connect.redis.ssl.enabled", False,
    "Whether to connect with TLS, configured by the `ssl.*` settings.", importance=LOW)
KCQL: Final = _CONNECTION.text("connect.redis.kcql", REQUIRED,
    "How records are written: [INSERT INTO key] SELECT fields FROM topic [PK fields] [STOREAS "
    "SortedSet(score=field) | PubSub(channel=field) | "
    "GeoAdd(longitudeField=field,latitudeField=field) | Stream] [TTL=seconds].",
    check=checking("KCQL statements", _kcql_problem), order=1)
ERROR_POLICY: Final = _CONNECTION.choice(
    "connect.redis.error.policy", "THROW", ("NOOP", "THROW", "RETRY"),
    "How to handle records that Redis refuses. NOOP: log and skip them. THROW, RETRY: as "
    "`errors.*` specify. An unreachable or busy server is always waited for.", ignore_case=True,
    order=5)
RETRY_MS: Final = _CONNECTION.number("connect.redis.retry.interval", 60_000,
    "The ms between Kafka Connect's attempts with RETRY. Ignored: pauses begin short and grow.",
    at_least=0, importance=MEDIUM)
RETRIES: Final = _CONNECTION.number("connect.redis.max.retries", 20,
    "Kafka Connect's maximum number of retries with RETRY. Ignored: writes are retried "
    "indefinitely.", at_least=0, importance=MEDIUM)
PROGRESS: Final = Group("Metrics", numbered=False).ignored("connect.progress.enabled", False,
    "see the metrics instead")
DELIMITER: Final = text("connect.redis.pk.delimiter", ".",
    "Separator between the PK fields in a key.", importance=LOW)
CLUSTER: Final = flag("penstock.cluster", False,
    "Whether the host is a node of a Redis Cluster.", importance=LOW)
USERNAME: Final = text("penstock.username", "",
    "The user. Without it: the server's default user.", importance=LOW)
# fmt: on
_TLS: Final[tuple[tuple[str, Importance, str], ...]] = (
    ("ssl.protocol", MEDIUM, "The TLS context, as Java calls it."),
    ("ssl.enabled.protocols", MEDIUM, "The enabled versions: TLSv1.2, TLSv1.3."),
    ("ssl.cipher.suites", LOW, "The enabled cipher suites, by Java's names."),
    ("ssl.keystore.type", MEDIUM, "The format of the key store: PEM or PKCS12."),
    ("ssl.keystore.location", HIGH, "The client's key and certificate."),
    ("ssl.truststore.type", MEDIUM, "The format of the trust store: PEM or PKCS12."),
    ("ssl.truststore.location", HIGH, "The trusted certificates. Without it: the system's."),
    (
        "ssl.endpoint.identification.algorithm",
        LOW,
        "https: verify the server's host name; empty: do not.",
    ),
)
_TLS_SECRETS: Final[tuple[tuple[str, str], ...]] = (
    ("ssl.keystore.password", "The password of the key store."),
    ("ssl.key.password", "The password of the key."),
    ("ssl.truststore.password", "The password of the trust store."),
)
_TLS_KEYS: Final = Group("TLS", numbered=False)
for _name, _importance, _doc in _TLS:
    _TLS_KEYS.text(_name, None, _doc, importance=_importance)
for _name, _doc in _TLS_SECRETS:
    _TLS_KEYS.secret(_name, None, _doc, importance=HIGH)


def _cluster_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    host = str(parsed.get(HOST.name))
    uri = uri_of(parsed.get(HOST.name))
    if uri is None or parsed.get(CLUSTER.name):
        return
    if len(uri.addresses) > 1 and uri.mode is not Mode.SENTINEL:
        text = f"Several hosts need {CLUSTER.name}=true"
        yield HOST.name, invalid(HOST.name, HIDDEN if "@" in host else host, text)


LENSES_SINK: Final = ConfigDef(
    *_CONNECTION,
    PROGRESS,
    *(DELIMITER, CLUSTER, USERNAME),
    *PIPELINE_KEYS,
    *_TLS_KEYS,
    rules=(_cluster_rule,),
)


def access_of(config: Config) -> Access:
    """Connection parameters of the servers."""
    text = config[HOST].strip()
    if "://" not in text and text.count(":") == 0:
        text = f"{text}:{config[PORT]}"
    uri = parse_uri(text)
    password = config[PASSWORD_KEY]
    settings = {name: value for name, value in config.props.items() if name.startswith("ssl.")}
    tls = Tls(settings, {}, {}, verifies=uri.verifies, checks_name=uri.checks_name)
    return Access(
        Mode.CLUSTER if config[CLUSTER] else uri.mode,
        uri.addresses,
        database=0 if config[CLUSTER] else uri.database or 0,
        username=config[USERNAME] or uri.username,
        password=Secret((password.value if password is not None else "") or uri.password),
        master=uri.master,
        tls=tls if config[TLS] or uri.tls else None,
        client_name=uri.client_name,
        blame=HOST.name,
        blame_user=PASSWORD_KEY.name,
    )


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a task."""
    maker = LensesMaker(parse_kcql(config[KCQL]), config[DELIMITER])
    drops = config[ERROR_POLICY].upper() == "NOOP"
    return SinkPlan(maker, limits_of(config), drops_refused=drops)
