"""The settings of all converters with a Schema Registry (kafka-connect.md §9.5).

Names, types and defaults are those of Confluent's converters. Settings that are not supported here
(JKS stores, credentials from an identity provider, rules) are refused by validation, with an
alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from penstock.config.checks import checking, one_of
from penstock.config.define import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    STRING,
    ConfigDef,
    Key,
    Secret,
    invalid,
)
from penstock.convert.settings import CONVERTER_TYPE

MOCK: Final = "mock://"
"""The scheme of a registry inside the process; a scope's name follows."""

HEADER_PREFIX: Final = "request.header."
"""Settings with this prefix are headers of every request to the registry."""

_STRATEGIES: Final = "io.confluent.kafka.serializers.subject."
TOPIC_NAME: Final = f"{_STRATEGIES}TopicNameStrategy"
RECORD_NAME: Final = f"{_STRATEGIES}RecordNameStrategy"
TOPIC_RECORD_NAME: Final = f"{_STRATEGIES}TopicRecordNameStrategy"
NO_CONTEXT: Final = "io.confluent.kafka.serializers.context.NullContextNameStrategy"
ID_IN_PREFIX: Final = "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
ID_FROM_PREFIX: Final = "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdDeserializer"
ID_FROM_BOTH: Final = "io.confluent.kafka.serializers.schema.id.DualSchemaIdDeserializer"


def _bad_url(urls: tuple[str, ...] | None) -> str | None:
    if urls is None:
        return None  # missing, which is reported already
    if not any(urls):
        return "at least one URL is needed"
    for url in urls:
        if url.startswith(MOCK):
            if len(urls) > 1:
                return "a mock:// registry cannot be combined with another URL"
        elif urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            return "a URL must start with http://, https:// or mock://"
    return None


URL: Final = Key(
    "schema.registry.url",
    LIST,
    importance=HIGH,
    doc="URLs of the Schema Registry, separated by commas; if one does not answer, the next is "
    "tried. mock://⟨name⟩ is a registry inside this process, for tests.",
    check=checking("http://, https:// or mock:// URLs", _bad_url),
)
MAX_SCHEMAS: Final = Key(
    "max.schemas.per.subject",
    INT,
    default=1000,
    importance=LOW,
    doc="How many schemas of the registry are kept in memory.",
)
NORMALIZE: Final = Key(
    "normalize.schemas",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether the registry normalizes schemas before it compares them, so that insignificant "
    "differences in order and notation are ignored.",
)
AUTO_REGISTER: Final = Key(
    "auto.register.schemas",
    BOOLEAN,
    default=True,
    importance=MEDIUM,
    doc="Whether to register unknown schemas when they are first written.",
)
USE_ID: Final = Key(
    "use.schema.id",
    INT,
    default=-1,
    importance=LOW,
    doc="Write with the schema of this id; needs auto.register.schemas=false.",
)
ID_STRICT: Final = Key(
    "id.compatibility.strict",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="With use.schema.id: refuse records whose schema is incompatible with the chosen one.",
)
USE_LATEST: Final = Key(
    "use.latest.version",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Write with the subject's latest schema; needs auto.register.schemas=false.",
)
LATEST_STRICT: Final = Key(
    "latest.compatibility.strict",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="With use.latest.version: refuse records whose schema is incompatible with the latest one.",
)
LATEST_CACHE_SIZE: Final = Key(
    "latest.cache.size",
    INT,
    default=1000,
    importance=LOW,
    doc="How many latest versions are kept in memory.",
)
LATEST_CACHE_TTL: Final = Key(
    "latest.cache.ttl.sec",
    INT,
    default=-1,
    importance=LOW,
    doc="After how many seconds the latest version is fetched again; -1: never.",
)
USE_METADATA: Final[Key[str | None]] = Key(
    "use.latest.with.metadata",
    STRING,
    default=None,
    importance=LOW,
    doc="Write with the subject's latest schema that has this metadata, as key=value pairs "
    "separated by commas; needs auto.register.schemas=false.",
)
KEY_STRATEGY: Final = Key(
    "key.subject.name.strategy",
    CLASS,
    default=TOPIC_NAME,
    importance=MEDIUM,
    doc="How the subject of a key's schema is named: ⟨topic⟩-key, the record's full name, or "
    "⟨topic⟩-⟨record name⟩.",
    check=one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME),
)
VALUE_STRATEGY: Final = Key(
    "value.subject.name.strategy",
    CLASS,
    default=TOPIC_NAME,
    importance=MEDIUM,
    doc="How the subject of a value's schema is named: ⟨topic⟩-value, the record's full name, or "
    "⟨topic⟩-⟨record name⟩.",
    check=one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME),
)
BASIC_SOURCE: Final = Key(
    "basic.auth.credentials.source",
    STRING,
    default="URL",
    importance=MEDIUM,
    doc="Where user and password come from: the URL (URL) or basic.auth.user.info (USER_INFO).",
    check=one_of("URL", "USER_INFO"),
)
USER_INFO: Final = Key(
    "basic.auth.user.info",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="user:password, with basic.auth.credentials.source=USER_INFO.",
)
OLD_USER_INFO: Final = Key(
    "schema.registry.basic.auth.user.info",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="The old name of basic.auth.user.info; takes precedence if both are set.",
)
BEARER_SOURCE: Final = Key(
    "bearer.auth.credentials.source",
    STRING,
    default="STATIC_TOKEN",
    importance=MEDIUM,
    doc="Where the bearer token comes from; if set, requests contain bearer.auth.token. Tokens "
    "fetched from an identity provider (OAUTHBEARER and others) are not supported.",
    check=one_of("STATIC_TOKEN"),
)
BEARER_TOKEN: Final = Key(
    "bearer.auth.token",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="The bearer token, with bearer.auth.credentials.source=STATIC_TOKEN.",
)
LOGICAL_CLUSTER: Final[Key[str | None]] = Key(
    "bearer.auth.logical.cluster",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="Sent with the bearer token as header target-sr-cluster.",
)
IDENTITY_POOL: Final[Key[str | None]] = Key(
    "bearer.auth.identity.pool.id",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="Sent with the bearer token as header Confluent-Identity-Pool-Id.",
)
PROXY_HOST: Final = Key(
    "proxy.host",
    STRING,
    default="",
    importance=LOW,
    doc="Host of the HTTP proxy through which the registry is reached; empty: none.",
)
PROXY_PORT: Final = Key(
    "proxy.port", INT, default=-1, importance=LOW, doc="Port of the HTTP proxy."
)
CONNECT_TIMEOUT: Final = Key(
    "http.connect.timeout.ms",
    INT,
    default=60_000,
    importance=LOW,
    doc="How long a connection to the registry may take, in milliseconds.",
)
READ_TIMEOUT: Final = Key(
    "http.read.timeout.ms",
    INT,
    default=60_000,
    importance=LOW,
    doc="How long the registry may take to answer, in milliseconds.",
)
MAX_RETRIES: Final = Key(
    "max.retries",
    INT,
    default=3,
    importance=LOW,
    doc="How often a request is retried before the batch fails (and is retried according to "
    "errors.retry.timeout). A request that timed out is not retried.",
)
RETRY_WAIT: Final = Key(
    "retries.wait.ms",
    INT,
    default=1000,
    importance=LOW,
    doc="The maximum delay before the first retry, in milliseconds; it doubles with each retry.",
)
RETRY_MAX_WAIT: Final = Key(
    "retries.max.wait.ms",
    INT,
    default=20_000,
    importance=LOW,
    doc="The maximum delay before any retry, in milliseconds.",
)

SSL: Final = "schema.registry.ssl."


def _bad_store(kind: str | None) -> str | None:
    if kind is None or kind.upper() in ("PEM", "PKCS12", "JKS"):
        return None
    return "Key and trust stores can be PEM or PKCS12"


_STORE_KIND: Final = checking("PEM or PKCS12", _bad_store)

KEYSTORE_TYPE: Final = Key(
    f"{SSL}keystore.type",
    STRING,
    default="JKS",
    importance=MEDIUM,
    doc="Format of the key store: PEM or PKCS12. (JKS, the default in Java, can only be read there;"
    " keytool -importkeystore -deststoretype pkcs12 converts one.)",
    check=_STORE_KIND,
)
KEYSTORE_LOCATION: Final[Key[str | None]] = Key(
    f"{SSL}keystore.location", STRING, default=None, importance=HIGH, doc="File of the key store."
)
KEYSTORE_PASSWORD: Final[Key[Secret | None]] = Key(
    f"{SSL}keystore.password", PASSWORD, default=None, importance=HIGH, doc="Its password."
)
KEYSTORE_KEY: Final[Key[Secret | None]] = Key(
    f"{SSL}keystore.key",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The private key, as PEM; with keystore type PEM, instead of a file.",
)
KEYSTORE_CHAIN: Final[Key[Secret | None]] = Key(
    f"{SSL}keystore.certificate.chain",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The certificate and its chain, as PEM.",
)
KEY_PASSWORD: Final[Key[Secret | None]] = Key(
    f"{SSL}key.password",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="Password of the private key.",
)
TRUSTSTORE_TYPE: Final = Key(
    f"{SSL}truststore.type",
    STRING,
    default="JKS",
    importance=MEDIUM,
    doc="Format of the trust store: PEM or PKCS12.",
    check=_STORE_KIND,
)
TRUSTSTORE_LOCATION: Final[Key[str | None]] = Key(
    f"{SSL}truststore.location",
    STRING,
    default=None,
    importance=HIGH,
    doc="File with the trusted certificates; unset: the usual authorities are trusted.",
)
TRUSTSTORE_PASSWORD: Final[Key[Secret | None]] = Key(
    f"{SSL}truststore.password", PASSWORD, default=None, importance=HIGH, doc="Its password."
)
TRUSTSTORE_CERTIFICATES: Final[Key[Secret | None]] = Key(
    f"{SSL}truststore.certificates",
    PASSWORD,
    default=None,
    importance=HIGH,
    doc="The trusted certificates, as PEM.",
)
SSL_HOST_CHECK: Final = Key(
    f"{SSL}endpoint.identification.algorithm",
    STRING,
    default="https",
    importance=LOW,
    doc="Whether the registry's certificate must name its host; empty: no.",
    check=one_of("https", "", ignore_case=True),
)
ENABLED_PROTOCOLS: Final = Key(
    f"{SSL}enabled.protocols",
    LIST,
    default=("TLSv1.2", "TLSv1.3"),
    importance=MEDIUM,
    doc="TLS versions that may be used: TLSv1.2, TLSv1.3.",
)

_SERVER_ONLY: Final = "Ignored: Python's TLS library chooses it."
_IGNORED: Final[tuple[Key[object], ...]] = (
    Key(f"{SSL}protocol", STRING, "TLSv1.3", MEDIUM, _SERVER_ONLY),
    Key(f"{SSL}provider", STRING, None, MEDIUM, _SERVER_ONLY),
    Key(f"{SSL}cipher.suites", LIST, None, LOW, _SERVER_ONLY),
    Key(f"{SSL}keymanager.algorithm", STRING, "SunX509", LOW, _SERVER_ONLY),
    Key(f"{SSL}trustmanager.algorithm", STRING, "PKIX", LOW, _SERVER_ONLY),
    Key(f"{SSL}secure.random.implementation", STRING, None, LOW, _SERVER_ONLY),
)


def _unsupported(name: str, feature: str, *allowed: str) -> Key[str | None]:
    """A setting that is refused if it requests an unsupported feature."""

    def problem(value: str | None) -> str | None:
        return None if not value or value in allowed else f"{feature} is not supported"

    return Key(
        name,
        STRING,
        default=allowed[0] if allowed else None,
        importance=LOW,
        doc=f"{feature} is not supported; a value that requests it is refused.",
        check=checking("not supported", problem),
    )


_REFUSED: Final[tuple[Key[object], ...]] = (
    _unsupported("context.name.strategy", "A schema context strategy", NO_CONTEXT),
    _unsupported("key.schema.id.serializer", "A schema id in headers", ID_IN_PREFIX),
    _unsupported("value.schema.id.serializer", "A schema id in headers", ID_IN_PREFIX),
    _unsupported(
        "key.schema.id.deserializer", "A schema id in headers", ID_FROM_BOTH, ID_FROM_PREFIX
    ),
    _unsupported(
        "value.schema.id.deserializer", "A schema id in headers", ID_FROM_BOTH, ID_FROM_PREFIX
    ),
    _unsupported("bearer.auth.issuer.endpoint.url", "A token from an identity provider"),
    _unsupported("bearer.auth.client.id", "A token from an identity provider"),
    Key(
        "bearer.auth.client.secret",
        PASSWORD,
        None,
        LOW,
        "A token from an identity provider is not supported.",
    ),
    _unsupported("bearer.auth.scope", "A token from an identity provider"),
    _unsupported("bearer.auth.custom.provider.class", "A Java class"),
    _unsupported(f"{SSL}engine.factory.class", "A Java class"),
    _unsupported("rule.executors", "A rule of a data contract"),
    _unsupported("rule.actions", "A rule of a data contract"),
)
_UNUSED: Final[tuple[Key[object], ...]] = (
    Key("bearer.auth.scope.claim.name", STRING, "scope", LOW, "Ignored."),
    Key("bearer.auth.sub.claim.name", STRING, "sub", LOW, "Ignored."),
    Key("bearer.auth.cache.expiry.buffer.seconds", SHORT, 300, LOW, "Ignored."),
    Key("rule.service.loader.enable", BOOLEAN, True, LOW, "Ignored: there are no rules."),
    Key("propagate.schema.tags", BOOLEAN, False, LOW, "Ignored: tags are not changed."),
    Key("schema.format", STRING, None, LOW, "Ignored."),
    Key("schema.reflection", BOOLEAN, False, LOW, "Ignored."),
)

CACHE_SIZE: Final = Key(
    "schemas.cache.config",
    INT,
    default=1000,
    importance=LOW,
    doc="How many converted schemas are kept in memory.",
)
SUM_TYPES: Final = Key(
    "generalized.sum.type.support",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Represent enums and unions in the same way for Avro, JSON Schema and Protobuf.",
)
IGNORE_DEFAULT: Final = Key(
    "ignore.default.for.nullables",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Write null, rather than the default, for optional fields that are null.",
)
SCRUB_NAMES: Final = Key(
    "scrub.invalid.names",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Replace characters that are not allowed in names by underscores.",
)


def _refuse_jks(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for kind, *sources in (
        (KEYSTORE_TYPE, KEYSTORE_LOCATION, KEYSTORE_KEY, KEYSTORE_CHAIN),
        (TRUSTSTORE_TYPE, TRUSTSTORE_LOCATION, TRUSTSTORE_CERTIFICATES),
    ):
        chosen = str(parsed[kind.name]).upper()
        if chosen == "JKS" and any(parsed[source.name] for source in sources):
            yield (
                kind.name,
                invalid(
                    kind.name,
                    chosen,
                    "Only Java can read JKS stores; convert it to PEM or PKCS12 (keytool "
                    "-importkeystore -deststoretype pkcs12) and set this to the new format",
                ),
            )


def _credentials(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if parsed[BASIC_SOURCE.name] == "USER_INFO":
        infos = (parsed[USER_INFO.name], parsed[OLD_USER_INFO.name])
        if not any(isinstance(info, Secret) and ":" in info.value for info in infos):
            yield (
                USER_INFO.name,
                invalid(USER_INFO.name, infos[0], "it must be user:password"),
            )


def _proxy(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    port = parsed[PROXY_PORT.name]
    if parsed[PROXY_HOST.name] and not (isinstance(port, int) and 0 < port < 65536):
        yield PROXY_PORT.name, invalid(PROXY_PORT.name, port, "proxy.host needs a port")


REGISTRY: Final = ConfigDef(
    CONVERTER_TYPE,
    *(URL, MAX_SCHEMAS, NORMALIZE, AUTO_REGISTER, USE_ID, ID_STRICT, USE_LATEST, LATEST_STRICT),
    *(LATEST_CACHE_SIZE, LATEST_CACHE_TTL, USE_METADATA, KEY_STRATEGY, VALUE_STRATEGY),
    *(BASIC_SOURCE, USER_INFO, OLD_USER_INFO, BEARER_SOURCE, BEARER_TOKEN, LOGICAL_CLUSTER),
    *(IDENTITY_POOL, PROXY_HOST, PROXY_PORT, CONNECT_TIMEOUT, READ_TIMEOUT, MAX_RETRIES),
    *(RETRY_WAIT, RETRY_MAX_WAIT, KEYSTORE_TYPE, KEYSTORE_LOCATION, KEYSTORE_PASSWORD),
    *(KEYSTORE_KEY, KEYSTORE_CHAIN, KEY_PASSWORD, TRUSTSTORE_TYPE, TRUSTSTORE_LOCATION),
    *(TRUSTSTORE_PASSWORD, TRUSTSTORE_CERTIFICATES, SSL_HOST_CHECK, ENABLED_PROTOCOLS),
    *_IGNORED,
    *_REFUSED,
    *_UNUSED,
    *(SUM_TYPES, IGNORE_DEFAULT, CACHE_SIZE),
    rules=(_refuse_jks, _credentials, _proxy),
)
"""The settings of all converters with a registry; a format adds its own: `REGISTRY.extended(…)`."""
