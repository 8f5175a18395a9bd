"""Settings common to Lenses' connectors (connectors.md §7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    Check,
    Choices,
    Config,
    Importance,
    Key,
    Secret,
    at_least,
    checking,
    one_of,
)
from penstock.connectors.cassandra.client.access import Access, Names
from penstock.connectors.cassandra.settings.tls import tls_context
from penstock.connectors.cassandra.settings.topics import LEVELS
from penstock.connectors.cassandra.text.kcql import Statement, parse_kcql
from penstock.connectors.kcql import KcqlInvalid

PREFIX: Final = "connect.cassandra."
CONNECTION: Final = "Connection"
ERRORS: Final = "Error"
MAPPINGS: Final = "Mappings"
IMPORT: Final = "Import"
POLICIES: Final = ("NOOP", "THROW", "RETRY")
WAITED: Final = (
    "Ignored: requests are retried indefinitely while the cluster is unreachable or busy."
)


def text(
    name: str,
    doc: str,
    group: str,
    default: Any = "",
    *,
    importance: Importance = MEDIUM,
    check: Check | None = None,
    choices: tuple[str, ...] = (),
) -> Key[str]:
    """A string setting."""
    return Key(
        PREFIX + name,
        STRING,
        default=default,
        importance=importance,
        doc=doc,
        group=group,
        check=check,
        recommender=Choices(choices) if choices else None,
    )


def count(
    name: str, default: int, doc: str, group: str, least: int = 1, kind: Any = INT
) -> Key[int]:
    """A numeric setting."""
    return Key(
        PREFIX + name,
        kind,
        default=default,
        importance=MEDIUM,
        doc=doc,
        group=group,
        check=at_least(least),
    )


def flag(
    name: str, doc: str, group: str, *, default: bool = False, importance: Importance = MEDIUM
) -> Key[bool]:
    """A boolean setting."""
    return Key(PREFIX + name, BOOLEAN, default=default, importance=importance, doc=doc, group=group)


def secret(name: str, doc: str, group: str) -> Key[Secret]:
    """A password setting."""
    return Key(PREFIX + name, PASSWORD, default=Secret(""), importance=LOW, doc=doc, group=group)


def _kcql_problem(value: str | None) -> str | None:
    try:
        parse_kcql(value or "")
    except KcqlInvalid as error:
        return str(error)
    return None


KCQL: Final = text(
    "kcql",
    "The mapping in KCQL: `INSERT INTO target SELECT fields FROM source`; separate several "
    "statements by semicolons.",
    MAPPINGS,
    REQUIRED,
    importance=HIGH,
    check=checking("KCQL", _kcql_problem),
)
POINTS: Final = text(
    "contact.points", "Nodes of the cluster to connect to first, separated by commas.",
    CONNECTION, "localhost", importance=HIGH,
)  # fmt: skip
PORT: Final = Key(
    f"{PREFIX}port", INT, default=9042, importance=HIGH, check=at_least(1),
    doc="The port of the nodes.", group=CONNECTION,
)  # fmt: skip
ERROR_POLICY: Final = text(
    "error.policy",
    "How to handle rejected records. `NOOP`: skip and log them; `THROW` and `RETRY`: as `errors.*` "
    "specify.",
    ERRORS,
    "THROW",
    importance=HIGH,
    check=one_of(*POLICIES, ignore_case=True),
    choices=POLICIES,
)
RETRIES: Final = count("max.retries", 20, WAITED, ERRORS, 0)
RETRY_INTERVAL: Final = count("retry.interval", 60_000, WAITED, ERRORS, 0)
PROGRESS: Final = Key(
    "connect.progress.enabled",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Ignored: the worker's metrics count records.",
    group="Metrics",
)

KEY_SPACE: Final = text(
    "key.space", "The keyspace of the tables.", CONNECTION, REQUIRED, importance=HIGH
)
USER: Final = text("username", "The user name.", CONNECTION, importance=HIGH)
PASSWORD_KEY: Final = secret("password", "The user's password.", CONNECTION)
TLS: Final = flag("ssl.enabled", "Whether to connect with TLS.", CONNECTION, importance=LOW)
TRUST_STORE: Final = text(
    "trust.store.path",
    "The trusted certificates: PKCS #12 or PEM; empty: the system's.",
    CONNECTION,
    importance=LOW,
)
TRUST_STORE_PASSWORD: Final = secret("trust.store.password", "Its password.", CONNECTION)
KEY_STORE: Final = text(
    "key.store.path",
    "The client's key and certificate: PKCS #12 or PEM.",
    CONNECTION,
    importance=LOW,
)
KEY_STORE_PASSWORD: Final = secret("key.store.password", "Its password.", CONNECTION)
_BY_CONTENT: Final = "Ignored: the format is detected from the file; JKS is not supported."
LEVEL: Final = text(
    "consistency.level",
    "The consistency level; empty: LOCAL_ONE.",
    CONNECTION,
    check=one_of("", *LEVELS, ignore_case=True),
    choices=LEVELS,
)
FETCH: Final = count("fetch.size", 5_000, "The number of rows per page when reading.", CONNECTION)
_BALANCING: Final = ("TOKEN_AWARE", "ROUND_ROBIN", "DC_AWARE_ROUND_ROBIN", "LATENCY_AWARE")
BALANCING: Final = text(
    "load.balancing.policy",
    "How to choose the nodes for requests. LATENCY_AWARE is the same as TOKEN_AWARE.",
    CONNECTION,
    "TOKEN_AWARE",
    check=one_of(*_BALANCING, ignore_case=True),
    choices=_BALANCING,
)
CONNECT_TIMEOUT: Final = count(
    "connect.timeout.ms", 5_000, "How long to wait for a connection, in ms.", CONNECTION
)
READ_TIMEOUT: Final = count(
    "read.timeout.ms", 12_000, "How long to wait for a response, in ms.", CONNECTION
)

BASE: Final[tuple[Key[Any], ...]] = (
    POINTS,
    PORT,
    KEY_SPACE,
    USER,
    PASSWORD_KEY,
    TLS,
    TRUST_STORE,
    TRUST_STORE_PASSWORD,
    text("trust.store.type", _BY_CONTENT, CONNECTION, "JKS"),
    text("key.store.type", _BY_CONTENT, CONNECTION, "JKS"),
    flag(
        "ssl.client.cert.auth",
        "Ignored: a configured key store is always used.",
        CONNECTION,
        importance=LOW,
    ),
    KEY_STORE,
    KEY_STORE_PASSWORD,
    LEVEL,
    ERROR_POLICY,
    RETRIES,
    RETRY_INTERVAL,
    FETCH,
    BALANCING,
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
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
