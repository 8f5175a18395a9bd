"""The settings of Jeremy Custenborder's sink (connectors.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    Config,
    ConfigDef,
    Group,
    Secret,
    invalid,
)
from penstock.connectors.redis.client.access import Access, Mode
from penstock.connectors.redis.client.uris import UriInvalid, parse_uri
from penstock.connectors.redis.settings.shared import (
    CHARSET_CHECK,
    PIPELINE_KEYS,
    ServersCheck,
    charset_of,
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


# fmt: off
_SETTINGS: Final = Group()
HOSTS: Final = _SETTINGS.listing("redis.hosts", ("localhost:6379",),
    "The servers, host:port; several for a cluster. Also accepts a URI: redis://, rediss://, "
    "redis-sentinel://.", check=ServersCheck("a list of host:port", _hosts_problem),
    importance=HIGH)
CLIENT_MODE: Final = _SETTINGS.choice("redis.client.mode", "Standalone", ("Standalone", "Cluster"),
    "Whether to connect to a single server or to a Redis Cluster.")
TLS: Final = _SETTINGS.flag("redis.ssl.enabled", False, "Whether to connect with TLS.")
PASSWORD_KEY: Final = _SETTINGS.secret("redis.password", "", "The password.")
USERNAME: Final = _SETTINGS.text("penstock.username", "",
    "The user. Without it: the server's default user.", importance=LOW)
DATABASE: Final = _SETTINGS.number("redis.database", 1,
    "The database number. Ignored for a cluster, which has only 0.", at_least=0, at_most=_MAX_INT)
KEEP_ALIVE: Final = _SETTINGS.flag("redis.socket.keep.alive.enabled", False,
    "Whether to enable TCP keep-alive.", importance=LOW)
CONNECT_MS: Final = _SETTINGS.number("redis.socket.connect.timeout.ms", 10_000,
    "How many ms to wait for a connection; 0: indefinitely.", at_least=0, at_most=_MAX_INT,
    importance=LOW)
KEY_STORE: Final = _SETTINGS.text("redis.ssl.keystore.path", "",
    "File with the client's key and certificates: PKCS #12 or PEM.")
KEY_STORE_PASSWORD: Final = _SETTINGS.secret("redis.ssl.keystore.password", "",
    "The password of that file.")
TRUST_STORE: Final = _SETTINGS.text("redis.ssl.truststore.path", "",
    "File with the trusted certificates: PKCS #12 or PEM. Without it: the system's.")
TRUST_STORE_PASSWORD: Final = _SETTINGS.secret("redis.ssl.truststore.password", "",
    "The password of that file.")
ATTEMPTS: Final = _SETTINGS.number("redis.connection.attempts", 3,
    "How many times to try to connect before the batch is retried later.", at_least=1,
    at_most=_MAX_INT)
DELAY_MS: Final = _SETTINGS.number("redis.connection.retry.delay.ms", 2_000,
    "How many ms to wait between these attempts.", at_least=100, at_most=_MAX_INT)
OPERATION_MS: Final = _SETTINGS.long("redis.operation.timeout.ms", 10_000,
    "How many ms to wait for a response before the batch is retried.", at_least=100,
    at_most=_MAX_MS)
CHARSET: Final = _SETTINGS.text("redis.charset", "UTF-8",
    "The charset of keys and values that are strings.", check=CHARSET_CHECK, importance=LOW)
RECONNECT: Final = _SETTINGS.ignored("redis.auto.reconnect.enabled", True,
    "reconnecting is always enabled")
QUEUE: Final = _SETTINGS.ignored("redis.request.queue.size", _MAX_INT,
    "the size of Lettuce's queue")
NO_DELAY: Final = _SETTINGS.ignored("redis.socket.tcp.no.delay.enabled", True,
    "TCP_NODELAY is always set")
PROVIDER: Final = _SETTINGS.ignored("redis.ssl.provider", "JDK", "Java's TLS implementation")
# fmt: on


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
    *(HOSTS, CLIENT_MODE, TLS, PASSWORD_KEY, DATABASE, RECONNECT, QUEUE, NO_DELAY, KEEP_ALIVE),
    *(CONNECT_MS, PROVIDER, KEY_STORE, KEY_STORE_PASSWORD, TRUST_STORE, TRUST_STORE_PASSWORD),
    *(ATTEMPTS, DELAY_MS, OPERATION_MS, CHARSET, USERNAME, *PIPELINE_KEYS),
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
