"""Settings common to Lenses' connectors (connectors.md §7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    Group,
    Key,
    Secret,
    checking,
)
from penstock.connectors.cassandra.client.access import Access, Names
from penstock.connectors.cassandra.settings.tls import tls_context
from penstock.connectors.cassandra.settings.topics import LEVELS
from penstock.connectors.cassandra.text.kcql import Statement, parse_kcql
from penstock.connectors.kcql import KcqlInvalid

PREFIX: Final = "connect.cassandra."
IMPORT: Final = "Import"
POLICIES: Final = ("NOOP", "THROW", "RETRY")
WAITED: Final = (
    "Ignored: requests are retried indefinitely while the cluster is unreachable or busy."
)


def _kcql_problem(value: str | None) -> str | None:
    try:
        parse_kcql(value or "")
    except KcqlInvalid as error:
        return str(error)
    return None


# fmt: off
MAPPINGS: Final = Group("Mappings", numbered=False)
KCQL: Final = MAPPINGS.text("connect.cassandra.kcql", REQUIRED,
    "The mapping in KCQL: `INSERT INTO target SELECT fields FROM source`; separate several "
    "statements by semicolons.", check=checking("KCQL", _kcql_problem), importance=HIGH)
CONNECTION: Final = Group("Connection", importance=LOW, numbered=False)
POINTS: Final = CONNECTION.text("connect.cassandra.contact.points", "localhost",
    "Nodes of the cluster to connect to first, separated by commas.", importance=HIGH)
PORT: Final = CONNECTION.number(f"{PREFIX}port", 9042,
    "The port of the nodes.", at_least=1, importance=HIGH)
ERRORS: Final = Group("Error", numbered=False)
ERROR_POLICY: Final = ERRORS.choice("connect.cassandra.error.policy", "THROW", POLICIES,
    "How to handle rejected records. `NOOP`: skip and log them; `THROW` and `RETRY`: as "
    "`errors.*` specify.", ignore_case=True, offers=POLICIES, importance=HIGH)
RETRIES: Final = ERRORS.number("connect.cassandra.max.retries", 20, WAITED, at_least=0)
RETRY_INTERVAL: Final = ERRORS.number("connect.cassandra.retry.interval", 60_000,
    WAITED, at_least=0)
_METRICS: Final = Group("Metrics", numbered=False)
PROGRESS: Final = _METRICS.ignored("connect.progress.enabled", False,
    "the worker's metrics count records", importance=MEDIUM)

KEY_SPACE: Final = CONNECTION.text("connect.cassandra.key.space", REQUIRED,
    "The keyspace of the tables.", importance=HIGH)
USER: Final = CONNECTION.text("connect.cassandra.username", "", "The user name.", importance=HIGH)
PASSWORD_KEY: Final = CONNECTION.secret("connect.cassandra.password", "", "The user's password.")
TLS: Final = CONNECTION.flag("connect.cassandra.ssl.enabled", False, "Whether to connect with TLS.")
TRUST_STORE: Final = CONNECTION.text("connect.cassandra.trust.store.path", "",
    "The trusted certificates: PKCS #12 or PEM; empty: the system's.")
TRUST_STORE_PASSWORD: Final = CONNECTION.secret("connect.cassandra.trust.store.password", "",
    "Its password.")
KEY_STORE: Final = CONNECTION.text("connect.cassandra.key.store.path", "",
    "The client's key and certificate: PKCS #12 or PEM.")
KEY_STORE_PASSWORD: Final = CONNECTION.secret("connect.cassandra.key.store.password", "",
    "Its password.")
_BY_CONTENT: Final = "Ignored: the format is detected from the file; JKS is not supported."
TRUST_STORE_TYPE: Final = CONNECTION.text("connect.cassandra.trust.store.type", "JKS",
    _BY_CONTENT, importance=MEDIUM)
KEY_STORE_TYPE: Final = CONNECTION.text("connect.cassandra.key.store.type", "JKS",
    _BY_CONTENT, importance=MEDIUM)
CLIENT_AUTH: Final = CONNECTION.ignored("connect.cassandra.ssl.client.cert.auth", False,
    "a configured key store is always used")
LEVEL: Final = CONNECTION.choice("connect.cassandra.consistency.level", "", ("", *LEVELS),
    "The consistency level; empty: LOCAL_ONE.", ignore_case=True, offers=LEVELS, importance=MEDIUM)
FETCH: Final = CONNECTION.number("connect.cassandra.fetch.size", 5_000,
    "The number of rows per page when reading.", at_least=1, importance=MEDIUM)
_BALANCING: Final = ("TOKEN_AWARE", "ROUND_ROBIN", "DC_AWARE_ROUND_ROBIN", "LATENCY_AWARE")
BALANCING: Final = CONNECTION.choice(
    "connect.cassandra.load.balancing.policy", "TOKEN_AWARE", _BALANCING,
    "How to choose the nodes for requests. LATENCY_AWARE is the same as TOKEN_AWARE.",
    ignore_case=True, offers=_BALANCING, importance=MEDIUM)
CONNECT_TIMEOUT: Final = CONNECTION.number("connect.cassandra.connect.timeout.ms", 5_000,
    "How long to wait for a connection, in ms.", at_least=1, importance=MEDIUM)
READ_TIMEOUT: Final = CONNECTION.number("connect.cassandra.read.timeout.ms", 12_000,
    "How long to wait for a response, in ms.", at_least=1, importance=MEDIUM)
# fmt: on

BASE: Final[tuple[Key[Any], ...]] = (
    *(POINTS, PORT, KEY_SPACE, USER, PASSWORD_KEY, TLS, TRUST_STORE, TRUST_STORE_PASSWORD),
    *(TRUST_STORE_TYPE, KEY_STORE_TYPE, CLIENT_AUTH, KEY_STORE, KEY_STORE_PASSWORD, LEVEL),
    *(*ERRORS, FETCH, BALANCING, CONNECT_TIMEOUT, READ_TIMEOUT),
)
"""The settings of the source and of the older sink."""

NAMES: Final = Names(POINTS.name, USER.name, tls=TLS.name)
_TLS_NAMES: Final = {
    "ssl.keystore.location": KEY_STORE.name,
    "ssl.keystore.password": KEY_STORE_PASSWORD.name,
    "ssl.truststore.location": TRUST_STORE.name,
    "ssl.truststore.password": TRUST_STORE_PASSWORD.name,
}


def key_space_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Requires a keyspace."""
    if parsed.get(KEY_SPACE.name) == "":
        yield KEY_SPACE.name, f"{KEY_SPACE.name} must be provided."


def points_of(config: Config) -> tuple[str, ...]:
    """The contact points."""
    return tuple(point.strip() for point in config[POINTS].split(",") if point.strip())


def access(config: Config) -> Access:
    """Connection parameters of the cluster, from the settings in `BASE`. Raises ConfigInvalid."""
    tls = None
    if config[TLS]:
        tls = tls_context(config.props, _TLS_NAMES)
        tls.check_hostname = False  # as with the JVM's driver
    has_user = bool(config[USER] and config[PASSWORD_KEY].value)
    return Access(
        points=points_of(config),
        port=config[PORT],
        names=NAMES,
        user=config[USER].strip() if has_user else "",
        password=Secret(config[PASSWORD_KEY].value.strip()),
        tls=tls,
        request_s=config[READ_TIMEOUT] / 1000,
        connect_s=config[CONNECT_TIMEOUT] / 1000,
        fetch=config[FETCH],
        policy=config[BALANCING].upper(),
    )


def statements(config: Config) -> tuple[Statement, ...]:
    """The statements of `connect.cassandra.kcql`."""
    return parse_kcql(config[KCQL])
