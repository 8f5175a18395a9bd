"""Settings of the sink, under the names of DataStax's connector (connectors.md §7.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LOW,
    PASSWORD,
    STRING,
    Choices,
    Config,
    ConfigDef,
    Importance,
    Key,
    Secret,
    at_least,
    checking,
    one_of,
)
from penstock.connectors.cassandra.client.access import Access, Names
from penstock.connectors.cassandra.settings.tls import tls_context
from penstock.connectors.cassandra.settings.topics import topic_plans
from penstock.connectors.cassandra.write.plan import Ignore, SinkPlan

DRIVER: Final = "datastax-java-driver."
_CONNECTION: Final = "Connection"
_WRITING: Final = "Writing"
_AUTH: Final = "Authentication"
_TLS: Final = "TLS"
_IGNORED: Final = "Ignored: there is no JMX."


def _text(
    name: str,
    doc: str,
    group: str,
    default: str = "",
    *,
    check: Any = None,
    choices: tuple[str, ...] = (),
    importance: Importance = HIGH,
) -> Key[str]:
    return Key(
        name,
        STRING,
        default=default,
        importance=importance,
        doc=doc,
        group=group,
        check=check,
        recommender=Choices(choices) if choices else None,
    )


def _count(name: str, default: int, doc: str, group: str) -> Key[int]:
    return Key(name, INT, default=default, importance=HIGH, check=at_least(1), doc=doc, group=group)


def _secret(name: str, doc: str, group: str) -> Key[Secret]:
    return Key(name, PASSWORD, default=Secret(""), importance=HIGH, doc=doc, group=group)


_IGNORE: Final = {
    "none": Ignore.NONE,
    "all": Ignore.ALL,
    "driver": Ignore.DRIVER,
    "false": Ignore.NONE,
    "true": Ignore.DRIVER,
}


def _ignore_problem(value: str | None) -> str | None:
    if (value or "").lower() in _IGNORE:
        return None
    return f"expecting either All, None or Driver, got: {value}"


POINTS: Final = Key(
    "contactPoints",
    LIST,
    default=(),
    importance=HIGH,
    doc="Nodes of the cluster to connect to first; empty: 127.0.0.1. With them, "
    "`loadBalancing.localDc` must be set.",
    group=_CONNECTION,
)
PORT: Final = _count("port", 9042, "The port of the nodes.", _CONNECTION)
DC: Final = _text(
    "loadBalancing.localDc",
    "The data center of the nodes to use, as shown by `nodetool status`.",
    _CONNECTION,
)
BUNDLE: Final = _text(
    "cloud.secureConnectBundle",
    "The secure connect bundle of an Astra database: a file on every machine that runs tasks, or "
    "its content as `base64:…`. Replaces contact points and TLS settings.",
    _CONNECTION,
)
COMPRESSION: Final = _text(
    "compression",
    "The compression of requests; LZ4 and SNAPPY need their Python packages.",
    _CONNECTION,
    "None",
    check=one_of("None", "LZ4", "SNAPPY", ignore_case=True),
    choices=("None", "LZ4", "SNAPPY"),
)
POOL: Final = _count(
    "connectionPoolLocalSize",
    4,
    "Ignored: a task has one connection to each node, which can carry 32,768 concurrent requests.",
    _CONNECTION,
)
TIMEOUT: Final = _count(
    "queryExecutionTimeout", 30, "How long to wait for a response, in seconds.", _CONNECTION
)
IN_FLIGHT: Final = _count(
    "maxConcurrentRequests",
    500,
    "Maximum number of concurrent requests of a task. Reduced while the cluster is too busy.",
    _WRITING,
)
BATCH: Final = _count(
    "maxNumberOfRecordsInBatch",
    32,
    "Maximum number of records per request: records of the same partition of a table are sent "
    "together, as an unlogged batch.",
    _WRITING,
)
IGNORE: Final = _text(
    "ignoreErrors",
    "Which rejected records to skip and log: `None`, as `errors.*` specify; `All`; `Driver`: those "
    "that the cluster rejects. Writes are always retried while the cluster is unreachable or busy.",
    _WRITING,
    "None",
    check=checking("one of None, All, Driver (case insensitive)", _ignore_problem),
    choices=("None", "All", "Driver"),
)
JMX: Final = Key("jmx", BOOLEAN, default=True, importance=HIGH, doc=_IGNORED, group="Metrics")
JMX_DOMAIN: Final = _text(
    "jmxConnectorDomain", _IGNORED, "Metrics", "com.datastax.oss.kafka.sink", importance=LOW
)
LATENCY: Final = _count("metricsHighestLatency", 35, _IGNORED, "Metrics")
AUTH: Final = _text(
    "auth.provider",
    "How to authenticate; a user name alone means PLAIN.",
    _AUTH,
    "None",
    check=one_of("None", "PLAIN", "GSSAPI"),
    choices=("None", "PLAIN", "GSSAPI"),
)
USER: Final = _text("auth.username", "The user name, for PLAIN.", _AUTH)
PASSWORD_KEY: Final = _secret("auth.password", "The user's password.", _AUTH)
KEY_TAB: Final = _text(
    "auth.gssapi.keyTab",
    "Not supported: tickets are taken from the Kerberos ticket cache; fill it with kinit -k.",
    _AUTH,
    check=checking(
        "empty",
        lambda value: (
            "Key tabs are not supported; remove the setting, and fill the ticket cache with kinit "
            "-k"
            if value
            else None
        ),
    ),
)
PRINCIPAL: Final = _text("auth.gssapi.principal", "The principal, for GSSAPI.", _AUTH)
SERVICE: Final = _text("auth.gssapi.service", "The service name, for GSSAPI.", _AUTH, "dse")
SSL_PROVIDER: Final = _text(
    "ssl.provider",
    "Whether to connect with TLS: `JDK`, with a key store, or `OpenSSL`, with PEM files.",
    _TLS,
    "None",
    check=one_of("None", "JDK", "OpenSSL"),
    choices=("None", "JDK", "OpenSSL"),
)
SUITES: Final = Key(
    "ssl.cipherSuites",
    LIST,
    default=(),
    importance=HIGH,
    doc="The cipher suites to use, by their Java names; empty: Python's.",
    group=_TLS,
)
CHECKS_NAMES: Final = Key(
    "ssl.hostnameValidation",
    BOOLEAN,
    default=True,
    importance=HIGH,
    doc="Whether to check that the nodes' certificates match their host names.",
    group=_TLS,
)
KEY_STORE: Final = _text(
    "ssl.keystore.path",
    "The client's key and certificate: PKCS #12 or PEM, a file or its content as `base64:…`.",
    _TLS,
)
KEY_STORE_PASSWORD: Final = _secret("ssl.keystore.password", "Its password.", _TLS)
KEY_CHAIN: Final = _text(
    "ssl.openssl.keyCertChain", "The client's certificates in PEM, with OpenSSL.", _TLS
)
PRIVATE_KEY: Final = _text("ssl.openssl.privateKey", "The client's key in PEM, with OpenSSL.", _TLS)
TRUST_STORE: Final = _text(
    "ssl.truststore.path",
    "The trusted certificates: PKCS #12 or PEM, a file or its content as `base64:…`; empty: the "
    "system's.",
    _TLS,
)
TRUST_STORE_PASSWORD: Final = _secret("ssl.truststore.password", "Its password.", _TLS)

_SSL_KEYS: Final = (
    SSL_PROVIDER,
    SUITES,
    CHECKS_NAMES,
    KEY_STORE_PASSWORD,
    KEY_STORE,
    KEY_CHAIN,
    PRIVATE_KEY,
    TRUST_STORE_PASSWORD,
    TRUST_STORE,
)


def _auth_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    password = parsed.get(PASSWORD_KEY.name)
    if isinstance(password, Secret) and password.value and not parsed.get(USER.name):
        yield PASSWORD_KEY.name, f"{PASSWORD_KEY.name} was specified without {USER.name}"
    if parsed.get(AUTH.name) == "PLAIN" and not parsed.get(USER.name):
        yield USER.name, f"{AUTH.name} is PLAIN, so {USER.name} must be specified"
    if parsed.get(AUTH.name) == "GSSAPI" and not parsed.get(SERVICE.name):
        yield SERVICE.name, f"Invalid value <empty> for configuration {SERVICE.name}: is required"


def _key_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    chain, key = parsed.get(KEY_CHAIN.name), parsed.get(PRIVATE_KEY.name)
    if bool(chain) != bool(key):
        missing = PRIVATE_KEY.name if chain else KEY_CHAIN.name
        yield (
            missing,
            f"{KEY_CHAIN.name} cannot be set without {PRIVATE_KEY.name} and vice-versa: {missing} "
            "is not set",
        )


def _cloud_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if not parsed.get(BUNDLE.name):
        return
    for key in (POINTS, DC):
        if parsed.get(key.name):
            yield (
                key.name,
                f"When {BUNDLE.name} parameter is specified you should not provide {key.name}.",
            )
    if parsed.get(SSL_PROVIDER.name) != SSL_PROVIDER.default:
        yield (
            SSL_PROVIDER.name,
            f"When {BUNDLE.name} parameter is specified you should not provide any setting under "
            "ssl..",
        )


DATASTAX_SINK: Final = ConfigDef(
    POINTS,
    PORT,
    DC,
    IN_FLIGHT,
    JMX,
    JMX_DOMAIN,
    COMPRESSION,
    TIMEOUT,
    LATENCY,
    BATCH,
    POOL,
    IGNORE,
    BUNDLE,
    AUTH,
    USER,
    PASSWORD_KEY,
    KEY_TAB,
    PRINCIPAL,
    SERVICE,
    *_SSL_KEYS,
    rules=(_auth_rule, _key_rule, _cloud_rule),
)

NAMES: Final = Names(
    POINTS.name, USER.name, BUNDLE.name, COMPRESSION.name, SSL_PROVIDER.name, AUTH.name
)
_TLS_NAMES: Final = {
    "ssl.keystore.location": KEY_STORE.name,
    "ssl.keystore.password": KEY_STORE_PASSWORD.name,
    "ssl.truststore.location": TRUST_STORE.name,
    "ssl.truststore.password": TRUST_STORE_PASSWORD.name,
    "ssl.cipher.suites": SUITES.name,
}
_OPENSSL_NAMES: Final = {
    "ssl.keystore.key": PRIVATE_KEY.name,
    "ssl.keystore.certificate.chain": KEY_CHAIN.name,
    "ssl.truststore.location": TRUST_STORE.name,
    "ssl.truststore.password": TRUST_STORE_PASSWORD.name,
    "ssl.cipher.suites": SUITES.name,
}


def local_dc(config: Config) -> str:
    """The local data center, from this setting or the driver's."""
    if DC in config:
        return config[DC]
    return config.props.get(f"{DRIVER}basic.load-balancing-policy.local-datacenter", "").strip()


def problems(config: Config) -> list[tuple[str, str]]:
    """Problems of undeclared settings, or of several settings together: the setting to blame, and
    the message."""
    errors: list[tuple[str, str]] = []
    if config[POINTS] and not local_dc(config):
        errors.append(
            (
                POINTS.name,
                f"Invalid value {list(config[POINTS])} for configuration {POINTS.name}: When "
                f"contact points is provided, {DC.name} must also be specified",
            )
        )
    plans, topic_problems = topic_plans(config.props, is_cloud=bool(bundle(config)))
    errors += topic_problems
    listed = config.props.get("topics", "")
    for topic in [name.strip() for name in listed.split(",") if name.strip()]:
        if topic not in plans and not topic_problems:
            errors.append(
                (
                    "topics",
                    f"Invalid value {listed} for configuration topics: Missing topic settings "
                    f"(topic.{topic}.*) for topic {topic}",
                )
            )
    return errors


def bundle(config: Config) -> str:
    """The secure connect bundle, from this setting or the driver's."""
    return config[BUNDLE] or config.props.get(f"{DRIVER}basic.cloud.secure-connect-bundle", "")


def access(config: Config) -> Access:
    """Connection parameters of the cluster. Raises ConfigInvalid."""
    props = config.props
    compression = config[COMPRESSION]
    if COMPRESSION not in config:
        compression = props.get(f"{DRIVER}advanced.protocol.compression", compression)
    krb = config[SERVICE] if config[AUTH] == "GSSAPI" else ""
    tls = None
    if config[SSL_PROVIDER] != "None":
        names = _TLS_NAMES if config[SSL_PROVIDER] == "JDK" else _OPENSSL_NAMES
        tls = tls_context(props, names)
        tls.check_hostname = config[CHECKS_NAMES]
    return Access(
        points=config[POINTS] or ("127.0.0.1",),
        port=config[PORT],
        names=NAMES,
        dc=local_dc(config),
        user="" if krb else config[USER],
        password=config[PASSWORD_KEY],
        krb_service=krb,
        krb_principal=config[PRINCIPAL],
        tls=tls,
        bundle=bundle(config),
        compression=compression,
        request_s=float(config[TIMEOUT]),
    )


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task; for a configuration without `problems`."""
    plans, _ = topic_plans(config.props, is_cloud=bool(bundle(config)))
    return SinkPlan(
        plans,
        "topic.⟨topic⟩.⟨keyspace⟩.⟨table⟩.mapping",
        in_flight=config[IN_FLIGHT],
        batch=config[BATCH],
        ignore=_IGNORE[config[IGNORE].lower()],
    )
