"""Settings of the sink, under the names of DataStax's connector (connectors.md §7.1)."""

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
    checking,
)
from penstock.connectors.cassandra.client.access import Access, Names
from penstock.connectors.cassandra.settings.tls import tls_context
from penstock.connectors.cassandra.settings.topics import topic_plans
from penstock.connectors.cassandra.write.plan import Ignore, SinkPlan

DRIVER: Final = "datastax-java-driver."
_IGNORED: Final = "Ignored: there is no JMX."


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


# fmt: off
_CONNECTION: Final = Group("Connection", importance=HIGH, numbered=False)
POINTS: Final = _CONNECTION.listing("contactPoints", (),
    "Nodes of the cluster to connect to first; empty: 127.0.0.1. With them, "
    "`loadBalancing.localDc` must be set.")
PORT: Final = _CONNECTION.number("port", 9042, "The port of the nodes.", at_least=1)
DC: Final = _CONNECTION.text("loadBalancing.localDc", "",
    "The data center of the nodes to use, as shown by `nodetool status`.")
BUNDLE: Final = _CONNECTION.text("cloud.secureConnectBundle", "",
    "The secure connect bundle of an Astra database: a file on every machine that runs tasks, or "
    "its content as `base64:…`. Replaces contact points and TLS settings.")
COMPRESSION: Final = _CONNECTION.choice("compression", "None", ("None", "LZ4", "SNAPPY"),
    "The compression of requests; LZ4 and SNAPPY need their Python packages.", ignore_case=True,
    offers=("None", "LZ4", "SNAPPY"))
POOL: Final = _CONNECTION.ignored("connectionPoolLocalSize", 4,
    "a task has one connection to each node, which can carry 32,768 concurrent requests",
    at_least=1, importance=HIGH)
TIMEOUT: Final = _CONNECTION.number("queryExecutionTimeout", 30,
    "How long to wait for a response, in seconds.", at_least=1)
_WRITING: Final = Group("Writing", importance=HIGH, numbered=False)
IN_FLIGHT: Final = _WRITING.number("maxConcurrentRequests", 500,
    "Maximum number of concurrent requests of a task. Reduced while the cluster is too busy.",
    at_least=1)
BATCH: Final = _WRITING.number("maxNumberOfRecordsInBatch", 32,
    "Maximum number of records per request: records of the same partition of a table are sent "
    "together, as an unlogged batch.", at_least=1)
IGNORE: Final = _WRITING.text("ignoreErrors", "None",
    "Which rejected records to skip and log: `None`, as `errors.*` specify; `All`; `Driver`: "
    "those that the cluster rejects. Writes are always retried while the cluster is unreachable "
    "or busy.", check=checking("one of None, All, Driver (case insensitive)", _ignore_problem),
    offers=("None", "All", "Driver"))
_METRICS: Final = Group("Metrics", numbered=False)
JMX: Final = _METRICS.flag("jmx", True, _IGNORED, importance=HIGH)
JMX_DOMAIN: Final = _METRICS.text("jmxConnectorDomain", "com.datastax.oss.kafka.sink",
    _IGNORED, importance=LOW)
LATENCY: Final = _METRICS.number("metricsHighestLatency", 35, _IGNORED, at_least=1, importance=HIGH)
_AUTH: Final = Group("Authentication", importance=HIGH, numbered=False)
AUTH: Final = _AUTH.choice("auth.provider", "None", ("None", "PLAIN", "GSSAPI"),
    "How to authenticate; a user name alone means PLAIN.", offers=("None", "PLAIN", "GSSAPI"))
USER: Final = _AUTH.text("auth.username", "", "The user name, for PLAIN.")
PASSWORD_KEY: Final = _AUTH.secret("auth.password", "", "The user's password.")
KEY_TAB: Final = _AUTH.refused("auth.gssapi.keyTab", "",
    "Not supported: tickets are taken from the Kerberos ticket cache; fill it with kinit -k.",
    "Key tabs are not supported; remove the setting, and fill the ticket cache with kinit -k",
    importance=HIGH)
PRINCIPAL: Final = _AUTH.text("auth.gssapi.principal", "", "The principal, for GSSAPI.")
SERVICE: Final = _AUTH.text("auth.gssapi.service", "dse", "The service name, for GSSAPI.")
_TLS: Final = Group("TLS", importance=HIGH, numbered=False)
SSL_PROVIDER: Final = _TLS.choice("ssl.provider", "None", ("None", "JDK", "OpenSSL"),
    "Whether to connect with TLS: `JDK`, with a key store, or `OpenSSL`, with PEM files.",
    offers=("None", "JDK", "OpenSSL"))
SUITES: Final = _TLS.listing("ssl.cipherSuites", (),
    "The cipher suites to use, by their Java names; empty: Python's.")
CHECKS_NAMES: Final = _TLS.flag("ssl.hostnameValidation", True,
    "Whether to check that the nodes' certificates match their host names.")
KEY_STORE: Final = _TLS.text("ssl.keystore.path", "",
    "The client's key and certificate: PKCS #12 or PEM, a file or its content as `base64:…`.")
KEY_STORE_PASSWORD: Final = _TLS.secret("ssl.keystore.password", "", "Its password.")
KEY_CHAIN: Final = _TLS.text("ssl.openssl.keyCertChain", "",
    "The client's certificates in PEM, with OpenSSL.")
PRIVATE_KEY: Final = _TLS.text("ssl.openssl.privateKey", "",
    "The client's key in PEM, with OpenSSL.")
TRUST_STORE: Final = _TLS.text("ssl.truststore.path", "",
    "The trusted certificates: PKCS #12 or PEM, a file or its content as `base64:…`; empty: the "
    "system's.")
TRUST_STORE_PASSWORD: Final = _TLS.secret("ssl.truststore.password", "", "Its password.")
# fmt: on

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
    *(POINTS, PORT, DC, IN_FLIGHT, JMX, JMX_DOMAIN, COMPRESSION, TIMEOUT, LATENCY, BATCH),
    *(POOL, IGNORE, BUNDLE),
    *_AUTH,
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
