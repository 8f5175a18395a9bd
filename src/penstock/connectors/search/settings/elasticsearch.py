"""The settings of the sink, under the names of Confluent's connector (connectors.md §15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api import ConfigInvalid
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
    Check,
    Choices,
    Config,
    ConfigDef,
    Key,
    at_least,
    between,
    checking,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.search.client.access import ClientOptions
from penstock.connectors.search.settings import shared
from penstock.connectors.search.settings.shared import CONNECTION, CONVERSION, member, named
from penstock.connectors.search.write.plan import (
    DataStreams,
    Ids,
    Names,
    Nulls,
    Refusals,
    Routing,
    SinkPlan,
)

_MAX_INT: Final = 2**31 - 1
_PROXY: Final = "Proxy"
_KERBEROS: Final = "Kerberos"
_SPECIAL: Final = '\\/*"<>|,#:-?'
TLS_PREFIX: Final = "elastic.https."
_STREAM_TYPES: Final = ("LOGS", "METRICS", "NONE")
USAGES: Final = ("INDEX", "DATASTREAM", "ALIAS_INDEX", "ALIAS_DATASTREAM", "DISABLED")
_STREAM_USAGES: Final = ("DATASTREAM", "ALIAS_DATASTREAM")
WORDING: Final = {
    "format": "Invalid topic-to-resource mapping format. The expected format: topic:resource",
    "topic": "Topic '%s' is mapped to multiple resources. Each topic must be mapped to exactly "
    "one resource.",
    "resource": "Resource '%s' is mapped from multiple topics. Each resource must be mapped to "
    "exactly one topic.",
    "many": "Too many topic-to-external-resource mappings are configured ({}). Maximum allowed "
    "limit is {}.",
}


def _part_check(part: str) -> Check:
    def problem(text: str | None) -> str | None:
        if not text:
            return None
        if len(text) > 100:
            return f"The specified {part} must be no longer than 100 characters."
        bare = text.replace("${topic}", "")
        if text != text.lower():
            return f"The specified {part} must be in all lowercase."
        if any(char in _SPECIAL or char.isspace() for char in bare):
            return (
                f"The specified {part} must not contain any spaces or invalid characters "
                '\\/*?"<>|,#-:'
            )
        return None

    return checking('lower case, at most 100 characters, no spaces or \\/*?"<>|,#-:', problem)


USAGE: Final = Key(
    "external.resource.usage",
    STRING,
    default="DISABLED",
    importance=HIGH,
    check=named(*USAGES),
    doc="What the resources of `topic.to.external.resource.mapping` are. DISABLED: indices or data "
    "streams are named after topics, and created if missing.",
    group=CONNECTION,
    order=4,
    recommender=Choices(USAGES),
)
RESOURCES: Final = Key(
    "topic.to.external.resource.mapping",
    LIST,
    default=(),
    importance=HIGH,
    doc="The existing index, data stream or alias of each topic: topic:resource.",
    group=CONNECTION,
    order=5,
)
MOST_RESOURCES: Final = Key(
    "max.external.resource.mappings",
    INT,
    default=15,
    importance=MEDIUM,
    check=at_least(1),
    doc="Maximum number of entries of `topic.to.external.resource.mapping`.",
    group=CONNECTION,
    order=6,
)
STREAM_TYPE: Final = Key(
    "data.stream.type",
    STRING,
    default="NONE",
    importance=LOW,
    check=named(*_STREAM_TYPES),
    doc="The first part of data stream names. NONE: write to indices.",
    group=CONNECTION,
    order=7,
    recommender=Choices(_STREAM_TYPES),
)
STREAM_DATASET: Final = Key(
    "data.stream.dataset",
    STRING,
    default="",
    importance=LOW,
    check=_part_check("dataset"),
    doc="The second part of data stream names.",
    group=CONNECTION,
    order=8,
)
STREAM_NAMESPACE: Final = Key(
    "data.stream.namespace",
    STRING,
    default="${topic}",
    importance=LOW,
    check=_part_check("namespace"),
    doc="The last part of data stream names; `${topic}` is the topic.",
    group=CONNECTION,
    order=9,
)
STREAM_TIMESTAMP: Final = Key(
    "data.stream.timestamp.field",
    LIST,
    default=(),
    importance=LOW,
    doc="Fields for `@timestamp`: the first one that a record has is used. Without any, the "
    "record's timestamp is used.",
    group=CONNECTION,
    order=9,
)
BULK_BYTES: Final = Key(
    "bulk.size.bytes",
    LONG,
    default=5 * 1024 * 1024,
    importance=LOW,
    check=between(-1, _MAX_INT),
    doc="Maximum number of bytes of a bulk request; -1: no limit.",
    group=CONNECTION,
    order=11,
)
FLUSH_TIMEOUT: Final = shared.flush_timeout(180_000)
SYNCHRONOUSLY: Final = Key(
    "flush.synchronously",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Ignored: offsets are committed after the cluster has indexed the documents, even if "
    "transforms change topics.",
    group=CONNECTION,
    order=15,
)
COMPRESSION: Final = Key(
    "connection.compression",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to compress requests with gzip.",
    group=CONNECTION,
    order=20,
)
IDLE: Final = Key(
    "max.connection.idle.time.ms",
    INT,
    default=60_000,
    importance=LOW,
    check=between(-1, 86_400_000),
    doc="Ignored: connections that the cluster closed are reopened.",
    group=CONNECTION,
    order=21,
)
AUTO_IDS: Final = Key(
    "use.autogenerated.ids",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether the cluster generates the document ids (INSERT only). Records that are written "
    "again then become new documents.",
    group=CONNECTION,
    order=22,
)
NULLS: Final = Key(
    "behavior.on.null.values",
    STRING,
    default="FAIL",
    importance=LOW,
    check=named("IGNORE", "DELETE", "FAIL"),
    doc="How to handle records without a value: ignore them, delete the document with their key, "
    "or fail.",
    group=CONVERSION,
    order=7,
    recommender=Choices(("IGNORE", "DELETE", "FAIL")),
)
MALFORMED: Final = Key(
    "behavior.on.malformed.documents",
    STRING,
    default="FAIL",
    importance=LOW,
    check=named("IGNORE", "WARN", "FAIL"),
    doc="How to handle records that the cluster refuses as documents. IGNORE and WARN skip them; "
    "with `errors.tolerance=all` they are always sent to the dead letter queue.",
    group=CONVERSION,
    order=8,
    recommender=Choices(("IGNORE", "WARN", "FAIL")),
)
VERSION_HEADER: Final = Key(
    "external.version.header",
    STRING,
    default="",
    importance=LOW,
    doc="The header with the version of a document, an integer. By default the version is the "
    "record's offset.",
    group=CONVERSION,
    order=9,
)
WRITE_METHOD: Final = Key(
    "write.method",
    STRING,
    default="INSERT",
    importance=LOW,
    check=named("INSERT", "UPSERT"),
    doc="INSERT replaces documents; UPSERT sets the fields of the record and keeps the others.",
    group=CONVERSION,
    order=10,
    recommender=Choices(("INSERT", "UPSERT")),
)
PROXY_HOST: Final = Key(
    "proxy.host", STRING, default="", importance=LOW, doc="An HTTP proxy.", group=_PROXY, order=0
)
PROXY_PORT: Final = Key(
    "proxy.port",
    INT,
    default=8_080,
    importance=LOW,
    check=between(1, 65_535),
    doc="The proxy's port.",
    group=_PROXY,
    order=1,
)
PROXY_USER: Final = Key(
    "proxy.username",
    STRING,
    default="",
    importance=LOW,
    doc="The proxy's user.",
    group=_PROXY,
    order=2,
)
PROXY_PASSWORD: Final = Key(
    "proxy.password",
    PASSWORD,
    default=None,
    importance=LOW,
    doc="The password of the proxy's user.",
    group=_PROXY,
    order=3,
)
SECURITY: Final = Key(
    "elastic.security.protocol",
    STRING,
    default="PLAINTEXT",
    importance=MEDIUM,
    check=named("PLAINTEXT", "SSL"),
    doc="SSL: `elastic.https.ssl.*` configure the connections.",
    group="Security",
    order=1,
    recommender=Choices(("PLAINTEXT", "SSL")),
)


def _refused(text: str | None) -> str | None:
    return None if not text else "Kerberos is not supported; use basic authentication over https"


PRINCIPAL: Final = Key(
    "kerberos.user.principal",
    STRING,
    default=None,
    importance=LOW,
    check=checking("not set", _refused),
    doc="Kerberos is not supported.",
    group=_KERBEROS,
    order=0,
)
KEYTAB: Final = Key(
    "kerberos.keytab.path",
    STRING,
    default=None,
    importance=LOW,
    check=checking("not set", _refused),
    doc="Kerberos is not supported.",
    group=_KERBEROS,
    order=1,
)


def _upper(parsed: Mapping[str, object], key: Key[Any]) -> str:
    return str(parsed.get(key.name) or key.default or "").upper()


def _is_stream(parsed: Mapping[str, object]) -> bool:
    usage = _upper(parsed, USAGE)
    if usage != "DISABLED":
        return usage in _STREAM_USAGES
    return _upper(parsed, STREAM_TYPE) != "NONE" and bool(parsed.get(STREAM_DATASET.name))


def _resource_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    entries = parsed.get(RESOURCES.name) or ()
    used = _upper(parsed, USAGE) != "DISABLED"
    if used != bool(entries):
        text = (
            f"Invalid configuration: {USAGE.name} and {RESOURCES.name} must be configured "
            "together. Either both must be set, or both must be empty."
        )
        yield USAGE.name, text
        yield RESOURCES.name, text
        return
    if not used:
        return
    if _upper(parsed, STREAM_TYPE) != "NONE" or parsed.get(STREAM_DATASET.name):
        text = (
            "Resource mapping mode and data stream configs are mutually exclusive. When using "
            f"{RESOURCES.name}, data stream configs ({STREAM_TYPE.name}, {STREAM_DATASET.name}) "
            "must not be set."
        )
        for key in (RESOURCES, STREAM_TYPE, STREAM_DATASET):
            yield key.name, text
        return
    most = parsed.get(MOST_RESOURCES.name)
    assert isinstance(entries, tuple)
    try:
        shared.mappings_of(RESOURCES.name, entries, most if isinstance(most, int) else 15, WORDING)
    except ConfigInvalid as error:
        yield RESOURCES.name, str(error)


def _stream_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if (_upper(parsed, STREAM_TYPE) == "NONE") != (not parsed.get(STREAM_DATASET.name)):
        text = (
            f"Either both or neither '{STREAM_DATASET.name}' and '{STREAM_TYPE.name}' must be set."
        )
        yield STREAM_TYPE.name, text
        yield STREAM_DATASET.name, text
    if not _is_stream(parsed):
        if parsed.get(STREAM_TIMESTAMP.name):
            yield (
                STREAM_TIMESTAMP.name,
                "Mapping a field to the '@timestamp' field is only necessary when working with "
                f"data streams. '{STREAM_TIMESTAMP.name}' must not be set when not using data "
                "streams.",
            )
        return
    if _upper(parsed, WRITE_METHOD) == "UPSERT":
        yield (
            WRITE_METHOD.name,
            f"Upserts are not supported with data streams. {WRITE_METHOD.name} must not be UPSERT "
            "when using data streams.",
        )
    if _upper(parsed, NULLS) == "DELETE":
        yield (
            NULLS.name,
            f"Deletes are not supported with data streams. {NULLS.name} must not be DELETE when "
            "using data streams.",
        )


def _ignore_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for whole, topics in (
        (shared.KEY_IGNORE, shared.KEY_TOPICS),
        (shared.SCHEMA_IGNORE, shared.SCHEMA_TOPICS),
    ):
        if parsed.get(whole.name) and parsed.get(topics.name):
            text = f"'{topics.name}' can not be set if '{whole.name}' is true."
            yield whole.name, text
            yield topics.name, text


def _limits_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    linger, timeout = parsed.get(shared.LINGER.name), parsed.get(FLUSH_TIMEOUT.name)
    if isinstance(linger, int) and isinstance(timeout, int) and linger > timeout:
        text = (
            f"'{shared.LINGER.name}' ({linger}) can not be larger than '{FLUSH_TIMEOUT.name}' "
            f"({timeout})."
        )
        yield shared.LINGER.name, text
        yield FLUSH_TIMEOUT.name, text
    keys = (shared.BUFFERED, shared.BATCH, shared.IN_FLIGHT)
    buffered, batch, in_flight = (parsed.get(key.name) for key in keys)
    if not (isinstance(buffered, int) and isinstance(batch, int) and isinstance(in_flight, int)):
        return
    if buffered < batch * in_flight:
        text = (
            f"'{shared.BUFFERED.name}' ({buffered}) must be larger than or equal to "
            f"'{shared.BATCH.name}' ({batch}) x {shared.IN_FLIGHT.name} ({in_flight})."
        )
        for key in keys:
            yield key.name, text


def _proxy_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    user, password = parsed.get(PROXY_USER.name), parsed.get(PROXY_PASSWORD.name)
    if not parsed.get(PROXY_HOST.name):
        for key, value in ((PROXY_USER, user), (PROXY_PASSWORD, password)):
            if value:
                text = f"'{PROXY_HOST.name}' must be set to use '{key.name}'."
                yield key.name, text
                yield PROXY_HOST.name, text
    elif bool(user) != (password is not None):
        text = f"Either both or neither '{PROXY_USER.name}' and '{PROXY_PASSWORD.name}' can be set."
        yield PROXY_USER.name, text
        yield PROXY_PASSWORD.name, text


_TLS_KEYS: Final = ssl_keys(TLS_PREFIX)


def _tls_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    has_tls = any(parsed.get(key.name) is not None for key in _TLS_KEYS)
    if has_tls and _upper(parsed, SECURITY) != "SSL":
        yield SECURITY.name, f"'{SECURITY.name}' must be set to 'SSL' to use SSL configs."


ACCESS_KEYS: Final[tuple[Key[Any], ...]] = (
    COMPRESSION,
    PROXY_HOST,
    PROXY_PORT,
    PROXY_USER,
    PROXY_PASSWORD,
    SECURITY,
    *_TLS_KEYS,
)
"""Connection settings besides the common ones."""

ACCESS_RULES: Final = (_proxy_rule, _tls_rule)

ELASTICSEARCH_SINK: Final = ConfigDef(
    *shared.COMMON_KEYS,
    USAGE,
    RESOURCES,
    MOST_RESOURCES,
    STREAM_TYPE,
    STREAM_DATASET,
    STREAM_NAMESPACE,
    STREAM_TIMESTAMP,
    BULK_BYTES,
    FLUSH_TIMEOUT,
    SYNCHRONOUSLY,
    COMPRESSION,
    IDLE,
    AUTO_IDS,
    NULLS,
    MALFORMED,
    VERSION_HEADER,
    WRITE_METHOD,
    PROXY_HOST,
    PROXY_PORT,
    PROXY_USER,
    PROXY_PASSWORD,
    SECURITY,
    *_TLS_KEYS,
    PRINCIPAL,
    KEYTAB,
    rules=(
        shared.credentials_rule,
        _resource_rule,
        _stream_rule,
        _ignore_rule,
        _limits_rule,
        *ACCESS_RULES,
    ),
)


def client_options(config: Config) -> ClientOptions:
    """The connection parameters of a valid configuration. Raises ConfigInvalid for stores that
    cannot be read."""
    secure = config[SECURITY].upper() == "SSL"
    return ClientOptions(
        urls=config[shared.URLS],
        username=config[shared.USERNAME],
        password=config[shared.PASSWORD_KEY],
        connect_ms=config[shared.CONNECT_TIMEOUT],
        read_ms=config[shared.READ_TIMEOUT],
        compress=config[COMPRESSION],
        connections=config[shared.IN_FLIGHT],
        proxy=f"http://{config[PROXY_HOST]}:{config[PROXY_PORT]}" if config[PROXY_HOST] else None,
        proxy_username=config[PROXY_USER] or None,
        proxy_password=shared.secret_of(config[PROXY_PASSWORD]),
        tls=shared.tls_context(config.props, TLS_PREFIX) if secure else None,
    )


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    usage = config[USAGE].upper()
    external = usage != "DISABLED"
    streams = None
    if usage in _STREAM_USAGES or (not external and config[STREAM_TYPE].upper() != "NONE"):
        streams = DataStreams(
            type="" if external else config[STREAM_TYPE],
            dataset=config[STREAM_DATASET],
            namespace=config[STREAM_NAMESPACE],
            fields=config[STREAM_TIMESTAMP],
        )
    resources = None
    if external:
        resources = shared.mappings_of(
            RESOURCES.name, config[RESOURCES], config[MOST_RESOURCES], WORDING
        )
    return SinkPlan(
        names=Names.CONFLUENT,
        resources=resources,
        streams=streams,
        ignored_ids=Ids.PLACE,
        ignores_keys=config[shared.KEY_IGNORE],
        key_topics=frozenset(config[shared.KEY_TOPICS]),
        ignores_schemas=config[shared.SCHEMA_IGNORE],
        schema_topics=frozenset(config[shared.SCHEMA_TOPICS]),
        makes_ids=config[AUTO_IDS],
        upsert=config[WRITE_METHOD].upper() == "UPSERT",
        retry_on_conflict=min(config[shared.IN_FLIGHT], 5),
        version_header=config[VERSION_HEADER],
        compact=config[shared.COMPACT],
        routing=Routing.NONE,
        routing_path=(),
        nulls=member(Nulls, config[NULLS]),
        reports_nulls=True,
        drops_invalid=config[shared.DROP_INVALID],
        malformed=member(Refusals, config[MALFORMED]),
        conflicts=None,
        batch=config[shared.BATCH],
        batch_bytes=config[BULK_BYTES],
        in_flight=config[shared.IN_FLIGHT],
        buffered=config[shared.BUFFERED],
        linger_ms=config[shared.LINGER],
        flush_timeout_ms=config[FLUSH_TIMEOUT],
        retries=config[shared.RETRIES],
        backoff_ms=config[shared.BACKOFF],
    )
