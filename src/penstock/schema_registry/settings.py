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
from penstock.config.declare import (
    choice,
    class_name,
    flag,
    ignored,
    listing,
    number,
    refused,
    secret,
    text,
)
from penstock.config.define import (
    HIGH,
    LIST,
    LOW,
    MEDIUM,
    REQUIRED,
    SHORT,
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


# fmt: off
URL: Final = listing("schema.registry.url", REQUIRED,
    "URLs of the Schema Registry, separated by commas; if one does not answer, the next is "
    "tried. mock://⟨name⟩ is a registry inside this process, for tests.",
    check=checking("http://, https:// or mock:// URLs", _bad_url), importance=HIGH)
MAX_SCHEMAS: Final = number("max.schemas.per.subject", 1000,
    "How many schemas of the registry are kept in memory.", importance=LOW)
NORMALIZE: Final = flag("normalize.schemas", False,
    "Whether the registry normalizes schemas before it compares them, so that insignificant "
    "differences in order and notation are ignored.")
AUTO_REGISTER: Final = flag("auto.register.schemas", True,
    "Whether to register unknown schemas when they are first written.")
USE_ID: Final = number("use.schema.id", -1,
    "Write with the schema of this id; needs auto.register.schemas=false.", importance=LOW)
ID_STRICT: Final = flag("id.compatibility.strict", True,
    "With use.schema.id: refuse records whose schema is incompatible with the chosen one.",
    importance=LOW)
USE_LATEST: Final = flag("use.latest.version", False,
    "Write with the subject's latest schema; needs auto.register.schemas=false.", importance=LOW)
LATEST_STRICT: Final = flag("latest.compatibility.strict", True,
    "With use.latest.version: refuse records whose schema is incompatible with the latest one.",
    importance=LOW)
LATEST_CACHE_SIZE: Final = number("latest.cache.size", 1000,
    "How many latest versions are kept in memory.", importance=LOW)
LATEST_CACHE_TTL: Final = number("latest.cache.ttl.sec", -1,
    "After how many seconds the latest version is fetched again; -1: never.", importance=LOW)
USE_METADATA: Final = text("use.latest.with.metadata", None,
    "Write with the subject's latest schema that has this metadata, as key=value pairs separated "
    "by commas; needs auto.register.schemas=false.", importance=LOW)
KEY_STRATEGY: Final = class_name("key.subject.name.strategy", TOPIC_NAME,
    "How the subject of a key's schema is named: ⟨topic⟩-key, the record's full name, or "
    "⟨topic⟩-⟨record name⟩.", check=one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME))
VALUE_STRATEGY: Final = class_name("value.subject.name.strategy", TOPIC_NAME,
    "How the subject of a value's schema is named: ⟨topic⟩-value, the record's full name, or "
    "⟨topic⟩-⟨record name⟩.", check=one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME))
BASIC_SOURCE: Final = choice("basic.auth.credentials.source", "URL", ("URL", "USER_INFO"),
    "Where user and password come from: the URL (URL) or basic.auth.user.info (USER_INFO).")
USER_INFO: Final = secret("basic.auth.user.info", "",
    "user:password, with basic.auth.credentials.source=USER_INFO.")
OLD_USER_INFO: Final = secret("schema.registry.basic.auth.user.info", "",
    "The old name of basic.auth.user.info; takes precedence if both are set.")
BEARER_SOURCE: Final = choice("bearer.auth.credentials.source", "STATIC_TOKEN", ("STATIC_TOKEN",),
    "Where the bearer token comes from; if set, requests contain bearer.auth.token. Tokens "
    "fetched from an identity provider (OAUTHBEARER and others) are not supported.")
BEARER_TOKEN: Final = secret("bearer.auth.token", "",
    "The bearer token, with bearer.auth.credentials.source=STATIC_TOKEN.")
LOGICAL_CLUSTER: Final = text("bearer.auth.logical.cluster", None,
    "Sent with the bearer token as header target-sr-cluster.")
IDENTITY_POOL: Final = text("bearer.auth.identity.pool.id", None,
    "Sent with the bearer token as header Confluent-Identity-Pool-Id.")
PROXY_HOST: Final = text("proxy.host", "",
    "Host of the HTTP proxy through which the registry is reached; empty: none.", importance=LOW)
PROXY_PORT: Final = number("proxy.port", -1, "Port of the HTTP proxy.", importance=LOW)
CONNECT_TIMEOUT: Final = number("http.connect.timeout.ms", 60_000,
    "How long a connection to the registry may take, in milliseconds.", importance=LOW)
READ_TIMEOUT: Final = number("http.read.timeout.ms", 60_000,
    "How long the registry may take to answer, in milliseconds.", importance=LOW)
MAX_RETRIES: Final = number("max.retries", 3,
    "How often a request is retried before the batch fails (and is retried according to "
    "errors.retry.timeout). A request that timed out is not retried.", importance=LOW)
RETRY_WAIT: Final = number("retries.wait.ms", 1000,
    "The maximum delay before the first retry, in milliseconds; it doubles with each retry.",
    importance=LOW)
RETRY_MAX_WAIT: Final = number("retries.max.wait.ms", 20_000,
    "The maximum delay before any retry, in milliseconds.", importance=LOW)

SSL: Final = "schema.registry.ssl."


def _bad_store(kind: str | None) -> str | None:
    if kind is None or kind.upper() in ("PEM", "PKCS12", "JKS"):
        return None
    return "Key and trust stores can be PEM or PKCS12"


_STORE_KIND: Final = checking("PEM or PKCS12", _bad_store)

KEYSTORE_TYPE: Final = text(f"{SSL}keystore.type", "JKS",
    "Format of the key store: PEM or PKCS12. (JKS, the default in Java, can only be read there; "
    "keytool -importkeystore -deststoretype pkcs12 converts one.)", check=_STORE_KIND)
KEYSTORE_LOCATION: Final = text(f"{SSL}keystore.location", None,
    "File of the key store.", importance=HIGH)
KEYSTORE_PASSWORD: Final = secret(f"{SSL}keystore.password", None, "Its password.", importance=HIGH)
KEYSTORE_KEY: Final = secret(f"{SSL}keystore.key", None,
    "The private key, as PEM; with keystore type PEM, instead of a file.", importance=HIGH)
KEYSTORE_CHAIN: Final = secret(f"{SSL}keystore.certificate.chain", None,
    "The certificate and its chain, as PEM.", importance=HIGH)
KEY_PASSWORD: Final = secret(f"{SSL}key.password", None,
    "Password of the private key.", importance=HIGH)
TRUSTSTORE_TYPE: Final = text(f"{SSL}truststore.type", "JKS",
    "Format of the trust store: PEM or PKCS12.", check=_STORE_KIND)
TRUSTSTORE_LOCATION: Final = text(f"{SSL}truststore.location", None,
    "File with the trusted certificates; unset: the usual authorities are trusted.",
    importance=HIGH)
TRUSTSTORE_PASSWORD: Final = secret(f"{SSL}truststore.password", None,
    "Its password.", importance=HIGH)
TRUSTSTORE_CERTIFICATES: Final = secret(f"{SSL}truststore.certificates", None,
    "The trusted certificates, as PEM.", importance=HIGH)
SSL_HOST_CHECK: Final = choice(f"{SSL}endpoint.identification.algorithm", "https", ("https", ""),
    "Whether the registry's certificate must name its host; empty: no.", ignore_case=True,
    importance=LOW)
ENABLED_PROTOCOLS: Final = listing(f"{SSL}enabled.protocols", ("TLSv1.2", "TLSv1.3"),
    "TLS versions that may be used: TLSv1.2, TLSv1.3.")

_CHOSEN: Final = "Python's TLS library chooses it"
_IGNORED: Final[tuple[Key[object], ...]] = (
    ignored(f"{SSL}protocol", "TLSv1.3", _CHOSEN, importance=MEDIUM),
    ignored(f"{SSL}provider", None, _CHOSEN, importance=MEDIUM),
    ignored(f"{SSL}cipher.suites", None, _CHOSEN, kind=LIST),
    ignored(f"{SSL}keymanager.algorithm", "SunX509", _CHOSEN),
    ignored(f"{SSL}trustmanager.algorithm", "PKIX", _CHOSEN),
    ignored(f"{SSL}secure.random.implementation", None, _CHOSEN),
)


def _unsupported(name: str, feature: str, *allowed: str) -> Key[str | None]:
    """A setting that is refused if it requests an unsupported feature."""

    def problem(value: str | None) -> str | None:
        return None if not value or value in allowed else f"{feature} is not supported"

    return text(name, allowed[0] if allowed else None,
        f"{feature} is not supported; a value that requests it is refused.",
        check=checking("not supported", problem), importance=LOW)


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
    secret("bearer.auth.client.secret", None,
        "A token from an identity provider is not supported.", importance=LOW),
    _unsupported("bearer.auth.scope", "A token from an identity provider"),
    _unsupported("bearer.auth.custom.provider.class", "A Java class"),
    _unsupported(f"{SSL}engine.factory.class", "A Java class"),
    _unsupported("rule.executors", "A rule of a data contract"),
    _unsupported("rule.actions", "A rule of a data contract"),
    refused("propagate.schema.tags", False,
        "Propagation of tags to the schemas that are registered: not supported.",
        "schemas are registered without propagating tags; remove it"),
)
_UNUSED: Final[tuple[Key[object], ...]] = (
    ignored("bearer.auth.scope.claim.name", "scope"),
    ignored("bearer.auth.sub.claim.name", "sub"),
    ignored("bearer.auth.cache.expiry.buffer.seconds", 300, kind=SHORT),
    ignored("rule.service.loader.enable", True,
        "no rule can be run; data of a schema with rules are refused"),
    ignored("schema.format", None),
    ignored("schema.reflection", False),
)

CACHE_SIZE: Final = number("schemas.cache.config", 1000,
    "How many converted schemas are kept in memory.", importance=LOW)
SUM_TYPES: Final = flag("generalized.sum.type.support", False,
    "Represent enums and unions in the same way for Avro, JSON Schema and Protobuf.")
IGNORE_DEFAULT: Final = flag("ignore.default.for.nullables", False,
    "Write null, rather than the default, for optional fields that are null.")
SCRUB_NAMES: Final = flag("scrub.invalid.names", False,
    "Replace characters that are not allowed in names by underscores.")
# fmt: on


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
