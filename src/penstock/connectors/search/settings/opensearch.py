"""The settings of the sink, under the names of Aiven's connectors (connectors.md §15)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    BOOLEAN,
    INT,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Config,
    ConfigDef,
    Key,
    between,
    checking,
    invalid,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.search.client.access import Aws, ClientOptions
from penstock.connectors.search.settings import shared
from penstock.connectors.search.settings.shared import CONVERSION, member, named
from penstock.connectors.search.write.actions import TIMESTAMP, pointer
from penstock.connectors.search.write.plan import (
    DataStreams,
    Ids,
    Names,
    Nulls,
    Refusals,
    Routing,
    SinkPlan,
)

_STREAMS: Final = "Data Stream"
_EXISTING: Final = "Topic to Existing Resource Mappings"
_AWS: Final = "AWS"
_MOST_RESOURCES: Final = 10
_BATCH_BYTES: Final = 5 * 1024 * 1024
TLS_PREFIX: Final = "connection."
_FORMAT: Final = (
    "Wrong topic-to-resource mapping format, expected format is: topic_name:resource_name"
)
WORDING: Final = {
    "format": _FORMAT,
    "topic": "Topic `%s` is mapped to multiple resources. Each topic should be mapped to exactly "
    "one resource",
    "resource": "Resource `%s` is mapped from multiple topics. Each resource should be mapped to "
    "exactly one topic",
    "many": "Too many topic-to-resource mappings ({}), the maximum allowed is {}",
}

FLUSH_TIMEOUT: Final = shared.flush_timeout(10_000)
WRITE_METHOD: Final = Key(
    "index.write.method",
    STRING,
    default="insert",
    importance=LOW,
    check=named("insert", "upsert"),
    doc="insert replaces documents; upsert sets the fields of the record and keeps others.",
    group=CONVERSION,
    order=7,
)
ID_STRATEGY: Final = Key(
    "key.ignore.id.strategy",
    STRING,
    default=Ids.PLACE.value,
    importance=LOW,
    check=named(*(strategy.value for strategy in Ids)),
    doc="The ids of documents whose keys are ignored: topic.partition.offset, record.key, or none "
    "(the cluster makes them).",
    group=CONVERSION,
    order=8,
)
NULLS: Final = Key(
    "behavior.on.null.values",
    STRING,
    default="ignore",
    importance=LOW,
    check=named("ignore", "delete", "fail"),
    doc="What is done with records without a value: nothing, the document of their key is deleted, "
    "or they are refused.",
    group=CONVERSION,
    order=9,
)
MALFORMED: Final = Key(
    "behavior.on.malformed.documents",
    STRING,
    default="fail",
    importance=LOW,
    check=named("ignore", "warn", "report", "fail"),
    doc="What is done with records that the cluster refuses as documents. ignore and warn leave "
    "them out; with `errors.tolerance=all` they go to the dead letter queue in any case.",
    group=CONVERSION,
    order=10,
)
CONFLICTS: Final = Key(
    "behavior.on.version.conflict",
    STRING,
    default="fail",
    importance=LOW,
    check=named("ignore", "warn", "report", "fail"),
    doc="What is done with records whose document has a later version. A record that the document "
    "is of already is always left out.",
    group=CONVERSION,
    order=11,
)
ROUTING: Final = Key(
    "routing.type",
    STRING,
    default="none",
    importance=LOW,
    check=named(*(routing.value for routing in Routing)),
    doc="What the routing of documents is from: nothing, the key, or the value.",
    group=CONVERSION,
    order=12,
)


def _pointer_problem(text: str | None) -> str | None:
    try:
        pointer(text or "")
    except ValueError as error:
        return str(error)
    return None


ROUTING_PATH: Final = Key(
    "routing.type.record.value.path",
    STRING,
    default=None,
    importance=LOW,
    check=checking("a JSON pointer", _pointer_problem),
    doc="Where the routing is in the value: a JSON pointer (RFC 6901).",
    group=CONVERSION,
    order=13,
)
STREAMS: Final = Key(
    "data.stream.enabled",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether documents go to data streams.",
    group=_STREAMS,
    order=1,
)
STREAM_PREFIX: Final = Key(
    "data.stream.prefix",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="What the names of data streams start with: {prefix}-{topic}.",
    group=_STREAMS,
    order=2,
)
STREAM_TIMESTAMP: Final = Key(
    "data.stream.timestamp.field",
    STRING,
    default=TIMESTAMP,
    importance=MEDIUM,
    doc="The field that is the timestamp of documents. `@timestamp` is set to that of the record "
    "where a value has none.",
    group=_STREAMS,
    order=3,
)
STREAM_TEMPLATE: Final = Key(
    "data.streams.existing.index.template.name",
    STRING,
    default=None,
    importance=MEDIUM,
    doc="The index template of data streams, made if there is none; by default each has one of its "
    "own.",
    group=_STREAMS,
    order=4,
)
EXISTING: Final = Key(
    "existing.resource.type",
    STRING,
    default="none",
    importance=LOW,
    check=named("index", "data_stream", "index_alias", "none"),
    doc="What the resources of `topic.to.existing.resource.mapping` are.",
    group=_EXISTING,
    order=1,
)
RESOURCES: Final = Key(
    "topic.to.existing.resource.mapping",
    LIST,
    default=None,
    importance=LOW,
    doc="The existing index, data stream or alias of each topic: topic:resource, at most 10.",
    group=_EXISTING,
    order=2,
)


def _aws(name: str, doc: str, order: int) -> Key[str | None]:
    return Key(name, STRING, default=None, importance=MEDIUM, doc=doc, group=_AWS, order=order)


AWS_KEY: Final = _aws("aws.access_key_id", "The key's id. Requests are signed (SigV4) then.", 1)
AWS_SECRET: Final = Key(
    "aws.secret_access_key",
    PASSWORD,
    default=None,
    importance=MEDIUM,
    doc="The key's secret.",
    group=_AWS,
    order=2,
)
AWS_ROLE: Final = _aws("aws.sts.role.arn", "A role that is assumed.", 3)
AWS_SESSION: Final = _aws("aws.sts.role.session.name", "The name of its sessions.", 4)
AWS_DURATION: Final = Key(
    "aws.sts.role.session.duration",
    INT,
    default=3_600,
    importance=MEDIUM,
    check=between(900, 43_200),
    doc="The seconds of a session.",
    group=_AWS,
    order=5,
)
AWS_EXTERNAL_ID: Final = _aws("aws.sts.role.external.id", "The external id it asks for.", 6)
AWS_REGION: Final = _aws("aws.region", "The cluster's region.", 7)
AWS_SERVICE: Final = _aws("aws.service.signing.name", "The service's name: es or aoss.", 8)
TRUST_ALL: Final = Key(
    "connection.trust.all.certificates",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether any certificate is trusted.",
    group="TLS",
    order=1,
)
TYPE_NAME: Final = Key(
    "type.name",
    STRING,
    default=None,
    importance=LOW,
    doc="No effect: clusters of today have no types.",
    group=CONVERSION,
    order=14,
)


def _signs(parsed: Mapping[str, object]) -> tuple[bool, bool]:
    """Whether an AWS key is set, and whether a role is."""
    key = parsed.get(AWS_KEY.name) is not None and parsed.get(AWS_SECRET.name) is not None
    role = parsed.get(AWS_ROLE.name) is not None and parsed.get(AWS_SESSION.name) is not None
    return key, role


def _aws_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    key, role = _signs(parsed)
    if not key and not role:
        return
    if parsed.get(shared.USERNAME.name) is not None:
        yield (
            shared.USERNAME.name,
            "More than one authenticated configurator is applied for the client. Only one is "
            "allowed",
        )
    if key and role:
        yield (
            AWS_ROLE.name,
            "Found both AWS access and STS role credentials. Only one can be selected",
        )
    for setting in (AWS_REGION, AWS_SERVICE):
        if not parsed.get(setting.name):
            yield setting.name, invalid(setting.name, None, "It is needed to sign requests")
    urls = parsed.get(shared.URLS.name)
    if isinstance(urls, tuple) and len(urls) > 1:
        text = "Only one endpoint can be used with AWS"
        yield shared.URLS.name, invalid(shared.URLS.name, ",".join(urls), text)


def _write_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    upsert = str(parsed.get(WRITE_METHOD.name)).lower() == "upsert"
    existing = str(parsed.get(EXISTING.name)).lower()
    streams = existing == "data_stream" if existing != "none" else parsed.get(STREAMS.name)
    if upsert and streams:
        text = "Data streams do not support upsert index write method"
        yield WRITE_METHOD.name, invalid(WRITE_METHOD.name, "upsert", text)
    strategy = str(parsed.get(ID_STRATEGY.name)).lower()
    if upsert and parsed.get(shared.KEY_IGNORE.name) and strategy != Ids.KEY.value:
        text = f"{strategy} is not supported for index upsert. Supported is: {Ids.KEY.value}"
        yield ID_STRATEGY.name, invalid(ID_STRATEGY.name, strategy, text)
    if str(parsed.get(ROUTING.name)).lower() == Routing.VALUE.value:
        if parsed.get(ROUTING_PATH.name) is None:
            yield (
                ROUTING_PATH.name,
                f"The '{ROUTING_PATH.name}' setting must be configured when using the 'value' "
                "routing type",
            )
        elif str(parsed.get(NULLS.name)).lower() == Nulls.DELETE.value:
            yield (
                ROUTING_PATH.name,
                f"The '{ROUTING_PATH.name}' can't be used together with '{NULLS.name}' set to "
                "'delete'",
            )


def _resource_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    existing = str(parsed.get(EXISTING.name)).lower()
    if existing == "none":
        return
    if existing == "data_stream" and parsed.get(STREAMS.name):
        yield (
            EXISTING.name,
            "Existing datastream mappings and datastream configurations are mutually exclusive. "
            "Please configure only one of these options",
        )
    entries = parsed.get(RESOURCES.name)
    if not isinstance(entries, tuple) or not entries:
        text = f"It is needed where {EXISTING.name} is set"
        yield RESOURCES.name, invalid(RESOURCES.name, None, text)
        return
    try:
        shared.mappings_of(RESOURCES.name, entries, _MOST_RESOURCES, WORDING)
    except ConfigInvalid as error:
        yield RESOURCES.name, str(error)


ACCESS_KEYS: Final[tuple[Key[Any], ...]] = (
    TRUST_ALL,
    *ssl_keys(TLS_PREFIX),
    AWS_KEY,
    AWS_SECRET,
    AWS_ROLE,
    AWS_SESSION,
    AWS_DURATION,
    AWS_EXTERNAL_ID,
    AWS_REGION,
    AWS_SERVICE,
)
"""Connection settings besides the common ones."""

ACCESS_RULES: Final = (_aws_rule,)

OPENSEARCH_SINK: Final = ConfigDef(
    *shared.COMMON_KEYS,
    FLUSH_TIMEOUT,
    WRITE_METHOD,
    ID_STRATEGY,
    NULLS,
    MALFORMED,
    CONFLICTS,
    ROUTING,
    ROUTING_PATH,
    STREAMS,
    STREAM_PREFIX,
    STREAM_TIMESTAMP,
    STREAM_TEMPLATE,
    EXISTING,
    RESOURCES,
    *ACCESS_KEYS,
    rules=(shared.credentials_rule, *ACCESS_RULES, _write_rule, _resource_rule),
)

AIVEN_ELASTICSEARCH_SINK: Final = OPENSEARCH_SINK.extended(TYPE_NAME)


def signs(config: Config) -> bool:
    """Whether requests are signed for Amazon's service."""
    return any(
        _signs({key.name: config[key] for key in (AWS_KEY, AWS_SECRET, AWS_ROLE, AWS_SESSION)})
    )


def client_options(config: Config) -> ClientOptions:
    """The connection parameters of a valid configuration. Raises ConfigInvalid for stores that
    cannot be read."""
    tls = shared.tls_context(config.props, TLS_PREFIX)
    if config[TRUST_ALL]:
        tls = tls or ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    options = ClientOptions(
        urls=config[shared.URLS],
        username=config[shared.USERNAME],
        password=config[shared.PASSWORD_KEY],
        connect_ms=config[shared.CONNECT_TIMEOUT],
        read_ms=config[shared.READ_TIMEOUT],
        connections=config[shared.IN_FLIGHT],
        tls=tls,
    )
    if not signs(config):
        return options
    # Amazon's endpoints have no scheme, and are https.
    urls = tuple(url if "://" in url else f"https://{url}" for url in options.urls)
    aws = Aws(
        region=config[AWS_REGION] or "",
        service=config[AWS_SERVICE] or "",
        key=config[AWS_KEY],
        secret=config[AWS_SECRET],
        role=config[AWS_ROLE],
        session=config[AWS_SESSION],
        external_id=config[AWS_EXTERNAL_ID],
        duration_s=config[AWS_DURATION],
    )
    return replace(options, urls=urls, aws=aws)


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    existing = config[EXISTING].lower()
    streams = None
    if existing == "data_stream" or (existing == "none" and config[STREAMS]):
        field = config[STREAM_TIMESTAMP]
        streams = DataStreams(
            prefix=config[STREAM_PREFIX],
            keeps_timestamp=True,
            sets_timestamp=field == TIMESTAMP,
            template=config[STREAM_TEMPLATE] or "",
            timestamp_field=field,
        )
    resources = None
    if existing != "none":
        entries = config[RESOURCES] or ()
        resources = shared.mappings_of(RESOURCES.name, entries, _MOST_RESOURCES, WORDING)
    return SinkPlan(
        names=Names.AIVEN,
        resources=resources,
        streams=streams,
        ignored_ids=member(Ids, config[ID_STRATEGY]),
        ignores_keys=config[shared.KEY_IGNORE],
        key_topics=frozenset(config[shared.KEY_TOPICS]),
        ignores_schemas=config[shared.SCHEMA_IGNORE],
        schema_topics=frozenset(config[shared.SCHEMA_TOPICS]),
        makes_ids=False,
        upsert=config[WRITE_METHOD].lower() == "upsert",
        retry_on_conflict=min(config[shared.IN_FLIGHT], 3),
        version_header="",
        compact=config[shared.COMPACT],
        routing=member(Routing, config[ROUTING]),
        routing_path=pointer(config[ROUTING_PATH] or ""),
        nulls=member(Nulls, config[NULLS]),
        reports_nulls=False,
        drops_invalid=config[shared.DROP_INVALID],
        malformed=member(Refusals, config[MALFORMED]),
        conflicts=member(Refusals, config[CONFLICTS]),
        batch=config[shared.BATCH],
        batch_bytes=_BATCH_BYTES,
        in_flight=config[shared.IN_FLIGHT],
        buffered=config[shared.BUFFERED],
        linger_ms=config[shared.LINGER],
        flush_timeout_ms=config[FLUSH_TIMEOUT],
        retries=config[shared.RETRIES],
        backoff_ms=config[shared.BACKOFF],
    )
