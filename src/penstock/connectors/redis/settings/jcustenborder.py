"""The settings of Jeremy Custenborder's sink (connectors.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Config,
    ConfigDef,
    Key,
    Secret,
    between,
    invalid,
    one_of,
)
from penstock.connectors.redis.client.access import Access, Mode
from penstock.connectors.redis.client.uris import UriInvalid, parse_uri
from penstock.connectors.redis.settings.shared import (
    CHARSET_CHECK,
    PIPELINE_KEYS,
    ServersCheck,
    charset_of,
    ignored,
    limits_of,
)
from penstock.connectors.redis.settings.tls import Tls
from penstock.connectors.redis.write.keyed import KeyedMaker
from penstock.connectors.redis.write.plan import KeyedPlan, Kind, SinkPlan

OFFSETS: Final = "__kafka.offset"
_MAX_INT: Final = 2**31 - 1
_MAX_MS: Final = 7 * 86_400_000


def _hosts_problem(hosts: tuple[str, ...] | None) -> str | None:
    if not hosts:
        return "The host is missing"
    try:
        parse_uri(",".join(hosts))
    except UriInvalid as error:
        return str(error)
    return None


HOSTS: Final = Key(
    "redis.hosts",
    LIST,
    default=("localhost:6379",),
    importance=HIGH,
    check=ServersCheck("a list of host:port", _hosts_problem),
    doc="The servers, host:port; several for a cluster. Also accepts a URI: redis://, rediss://, "
    "redis-sentinel://.",
)
CLIENT_MODE: Final = Key(
    "redis.client.mode",
    STRING,
    default="Standalone",
    importance=MEDIUM,
    check=one_of("Standalone", "Cluster"),
    doc="Whether to connect to a single server or to a Redis Cluster.",
)
TLS: Final = Key(
    "redis.ssl.enabled",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether to connect with TLS.",
)
PASSWORD_KEY: Final = Key(
    "redis.password",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="The password.",
)
USERNAME: Final = Key(
    "penstock.username",
    STRING,
    default="",
    importance=LOW,
    doc="The user. Without it: the server's default user.",
)
DATABASE: Final = Key(
    "redis.database",
    INT,
    default=1,
    importance=MEDIUM,
    check=between(0, _MAX_INT),
    doc="The database number. Ignored for a cluster, which has only 0.",
)
KEEP_ALIVE: Final = Key(
    "redis.socket.keep.alive.enabled",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to enable TCP keep-alive.",
)
CONNECT_MS: Final = Key(
    "redis.socket.connect.timeout.ms",
    INT,
    default=10_000,
    importance=LOW,
    check=between(0, _MAX_INT),
    doc="How many ms to wait for a connection; 0: indefinitely.",
)
KEY_STORE: Final = Key(
    "redis.ssl.keystore.path",
    STRING,
    default="",
    importance=MEDIUM,
    doc="File with the client's key and certificates: PKCS #12 or PEM.",
)
KEY_STORE_PASSWORD: Final = Key(
    "redis.ssl.keystore.password",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="The password of that file.",
)
TRUST_STORE: Final = Key(
    "redis.ssl.truststore.path",
    STRING,
    default="",
    importance=MEDIUM,
    doc="File with the trusted certificates: PKCS #12 or PEM. Without it: the system's.",
)
TRUST_STORE_PASSWORD: Final = Key(
    "redis.ssl.truststore.password",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="The password of that file.",
)
ATTEMPTS: Final = Key(
    "redis.connection.attempts",
    INT,
    default=3,
    importance=MEDIUM,
    check=between(1, _MAX_INT),
    doc="How many times to try to connect before the batch is retried later.",
)
DELAY_MS: Final = Key(
    "redis.connection.retry.delay.ms",
    INT,
    default=2_000,
    importance=MEDIUM,
    check=between(100, _MAX_INT),
    doc="How many ms to wait between these attempts.",
)
OPERATION_MS: Final = Key(
    "redis.operation.timeout.ms",
    LONG,
    default=10_000,
    importance=MEDIUM,
    check=between(100, _MAX_MS),
    doc="How many ms to wait for a response before the batch is retried.",
)
CHARSET: Final = Key(
    "redis.charset",
    STRING,
    default="UTF-8",
    importance=LOW,
    check=CHARSET_CHECK,
    doc="The charset of keys and values that are strings.",
)


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    hosts = parsed.get(HOSTS.name)
    if not isinstance(hosts, tuple) or _hosts_problem(hosts) is not None:
        return
    uri = parse_uri(",".join(hosts))
    clustered = parsed.get(CLIENT_MODE.name) == "Cluster"
    if len(uri.addresses) > 1 and not clustered and uri.mode is not Mode.SENTINEL:
        yield (
            HOSTS.name,
            invalid(
                HOSTS.name,
                f"[{', '.join(map(str, uri.addresses))}]",
                "Several hosts need redis.client.mode=Cluster",
            ),
        )
    if clustered and uri.mode is Mode.SENTINEL:
        yield CLIENT_MODE.name, invalid(CLIENT_MODE.name, "Cluster", "A cluster has no sentinels")


JCUSTENBORDER_SINK: Final = ConfigDef(
    HOSTS,
    CLIENT_MODE,
    TLS,
    PASSWORD_KEY,
    DATABASE,
    ignored("redis.auto.reconnect.enabled", "boolean", True, "Reconnecting is always enabled."),
    ignored("redis.request.queue.size", "int", _MAX_INT, "Size of Lettuce's request queue."),
    ignored("redis.socket.tcp.no.delay.enabled", "boolean", True, "TCP_NODELAY is always set."),
    KEEP_ALIVE,
    CONNECT_MS,
    ignored("redis.ssl.provider", "string", "JDK", "Java's TLS implementation."),
    KEY_STORE,
    KEY_STORE_PASSWORD,
    TRUST_STORE,
    TRUST_STORE_PASSWORD,
    ATTEMPTS,
    DELAY_MS,
    OPERATION_MS,
    CHARSET,
    USERNAME,
    *PIPELINE_KEYS,
    rules=(_rule,),
)


def access_of(config: Config) -> Access:
    """Connection parameters of the servers."""
    uri = parse_uri(",".join(config[HOSTS]))
    clustered = config[CLIENT_MODE] == "Cluster"
    tls = Tls(
        {
            "ssl.keystore.location": config[KEY_STORE],
            "ssl.keystore.password": config[KEY_STORE_PASSWORD].value,
            "ssl.truststore.location": config[TRUST_STORE],
            "ssl.truststore.password": config[TRUST_STORE_PASSWORD].value,
            **_type("ssl.keystore.type", config[KEY_STORE]),
            **_type("ssl.truststore.type", config[TRUST_STORE]),
        },
        {},
        {
            "ssl.keystore.location": KEY_STORE.name,
            "ssl.keystore.password": KEY_STORE_PASSWORD.name,
            "ssl.truststore.location": TRUST_STORE.name,
            "ssl.truststore.password": TRUST_STORE_PASSWORD.name,
        },
        verifies=uri.verifies,
        checks_name=uri.checks_name,
    )
    database = config[DATABASE] if uri.database is None else uri.database
    return Access(
        Mode.CLUSTER if clustered else uri.mode,
        uri.addresses,
        database=0 if clustered else database,
        username=config[USERNAME] or uri.username,
        password=Secret(config[PASSWORD_KEY].value or uri.password),
        master=uri.master,
        tls=tls if config[TLS] or uri.tls else None,
        timeout_s=config[OPERATION_MS] / 1000,
        connect_timeout_s=config[CONNECT_MS] / 1000,
        keep_alive=config[KEEP_ALIVE],
        client_name=uri.client_name,
        attempts=config[ATTEMPTS],
        delay_s=config[DELAY_MS] / 1000,
        blame=HOSTS.name,
        blame_user=PASSWORD_KEY.name,
    )


def _type(setting: str, path: str) -> dict[str, str]:
    """The type of a store by its file name; the connector has no setting for it."""
    return {setting: "PEM"} if path.lower().endswith((".pem", ".crt", ".key")) else {}


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a task."""
    plan = KeyedPlan(Kind.STRING, charset_of(config[CHARSET]), plain=True)
    return SinkPlan(KeyedMaker(plan), limits_of(config), offsets=OFFSETS)
