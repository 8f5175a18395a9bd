"""The settings of Lenses' sink (connectors.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIDDEN,
    HIGH,
    INT,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    Importance,
    Key,
    Secret,
    all_of,
    at_least,
    between,
    checking,
    invalid,
    non_empty,
    one_of,
)
from penstock.connectors.kcql import KcqlInvalid
from penstock.connectors.redis.client.access import Access, Mode
from penstock.connectors.redis.client.uris import UriInvalid, parse_uri
from penstock.connectors.redis.settings.connection import uri_of
from penstock.connectors.redis.settings.shared import (
    PIPELINE_KEYS,
    ServersCheck,
    ignored,
    limits_of,
)
from penstock.connectors.redis.settings.tls import Tls
from penstock.connectors.redis.write.kcql import parse_kcql
from penstock.connectors.redis.write.lenses import LensesMaker
from penstock.connectors.redis.write.plan import SinkPlan

_CONNECTION: Final = "Connection"
_METRICS: Final = "Metrics"


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


HOST: Final = Key(
    "connect.redis.host",
    STRING,
    default=REQUIRED,
    importance=HIGH,
    check=all_of(non_empty(), ServersCheck("a host or a URI", _host_problem)),
    doc="The server's host. Also accepts a URI: redis://, rediss://, redis-sentinel://.",
    group=_CONNECTION,
    order=2,
)
PORT: Final = Key(
    "connect.redis.port",
    INT,
    default=REQUIRED,
    importance=HIGH,
    check=between(1, 65_535),
    doc="The server's port.",
    group=_CONNECTION,
    order=3,
)
PASSWORD_KEY: Final = Key(
    "connect.redis.password",
    PASSWORD,
    default=None,
    importance=LOW,
    doc="The password.",
    group=_CONNECTION,
    order=4,
)
TLS: Final = Key(
    "connect.redis.ssl.enabled",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to connect with TLS, configured by the `ssl.*` settings.",
    group=_CONNECTION,
    order=5,
)
KCQL: Final = Key(
    "connect.redis.kcql",
    STRING,
    default=REQUIRED,
    importance=HIGH,
    check=checking("KCQL statements", _kcql_problem),
    doc="How records are written: [INSERT INTO key] SELECT fields FROM topic [PK fields] [STOREAS "
    "SortedSet(score=field) | PubSub(channel=field) | "
    "GeoAdd(longitudeField=field,latitudeField=field) | Stream] [TTL=seconds].",
    group=_CONNECTION,
    order=1,
)
ERROR_POLICY: Final = Key(
    "connect.redis.error.policy",
    STRING,
    default="THROW",
    importance=HIGH,
    check=one_of("NOOP", "THROW", "RETRY", ignore_case=True),
    doc="How to handle records that Redis refuses. NOOP: log and skip them. THROW, RETRY: as "
    "`errors.*` specify. An unreachable or busy server is always waited for.",
    group=_CONNECTION,
    order=5,
)
RETRY_MS: Final = Key(
    "connect.redis.retry.interval",
    INT,
    default=60_000,
    importance=MEDIUM,
    check=at_least(0),
    doc="The ms between Kafka Connect's attempts with RETRY. Ignored: pauses begin short and grow.",
    group=_CONNECTION,
    order=6,
)
RETRIES: Final = Key(
    "connect.redis.max.retries",
    INT,
    default=20,
    importance=MEDIUM,
    check=at_least(0),
    doc="Kafka Connect's maximum number of retries with RETRY. Ignored: writes are retried "
    "indefinitely.",
    group=_CONNECTION,
    order=7,
)
DELIMITER: Final = Key(
    "connect.redis.pk.delimiter",
    STRING,
    default=".",
    importance=LOW,
    doc="Separator between the PK fields in a key.",
)
CLUSTER: Final = Key(
    "penstock.cluster",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether the host is a node of a Redis Cluster.",
)
USERNAME: Final = Key(
    "penstock.username",
    STRING,
    default="",
    importance=LOW,
    doc="The user. Without it: the server's default user.",
)
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
_TLS_KEYS: Final = (
    *(
        Key(name, STRING, default=None, importance=importance, doc=doc, group="TLS")
        for name, importance, doc in _TLS
    ),
    *(
        Key(name, PASSWORD, default=None, importance=HIGH, doc=doc, group="TLS")
        for name, doc in _TLS_SECRETS
    ),
)


def _cluster_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    host = str(parsed.get(HOST.name))
    uri = uri_of(parsed.get(HOST.name))
    if uri is None or parsed.get(CLUSTER.name):
        return
    if len(uri.addresses) > 1 and uri.mode is not Mode.SENTINEL:
        text = f"Several hosts need {CLUSTER.name}=true"
        yield HOST.name, invalid(HOST.name, HIDDEN if "@" in host else host, text)


LENSES_SINK: Final = ConfigDef(
    HOST,
    PORT,
    PASSWORD_KEY,
    TLS,
    KCQL,
    ERROR_POLICY,
    RETRY_MS,
    RETRIES,
    ignored(
        "connect.progress.enabled",
        "boolean",
        False,
        "Whether to log how many records were processed; see the metrics instead.",
        group=_METRICS,
    ),
    DELIMITER,
    CLUSTER,
    USERNAME,
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
