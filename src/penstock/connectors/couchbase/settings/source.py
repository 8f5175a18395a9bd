"""Settings of the source (connectors.md §11), and the plan that is made from them.

Couchbase's connector reads the database change protocol (DCP). The SDK does not support it, so this
connector polls; settings about the protocol have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.api import DataError
from penstock.api.avro import reads
from penstock.api.schema import Schema, Type
from penstock.api.settings import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    Key,
    all_of,
    at_least,
    entries,
)
from penstock.connectors.couchbase.client.keyspace import Keyspace, parse_collection
from penstock.connectors.couchbase.settings import texts
from penstock.connectors.couchbase.settings.connection import (
    BUCKET,
    COMMON_KEYS,
    redacts,
    tls_rule,
)
from penstock.connectors.couchbase.settings.texts import (
    DURATION,
    SIZE,
    Contextual,
    Group,
    Readable,
    Words,
    contextual,
    pairs_of,
)

HANDLERS: Final = "com.couchbase.connect.kafka.handler.source."
FILTERS: Final = "com.couchbase.connect.kafka.filter."
FILTER: Final = "AllPassFilter"
FILTER_WITH_SYSTEM: Final = "AllPassIncludingSystemFilter"

HEADERS: Final = (
    "bucket",
    "scope",
    "collection",
    "key",
    "qualifiedKey",
    "cas",
    "partition",
)
_DCP_HEADERS: Final = ("partitionUuid", "seqno", "rev", "expiry")
_UNSUPPORTED: Final = {
    "SchemaRegistrySourceHandler": "schema registries are not supported; use "
    "ConfigurableSchemaSourceHandler with couchbase.value.schema"
}


class Handler(Enum):
    """The content of a record."""

    RAW = "RawJsonSourceHandler"
    RAW_WITH_METADATA = "RawJsonWithMetadataSourceHandler"
    DEFAULT_SCHEMA = "DefaultSchemaSourceHandler"
    CONFIGURABLE_SCHEMA = "ConfigurableSchemaSourceHandler"

    @property
    def class_name(self) -> str:
        """The vendor's class."""
        return HANDLERS + self.value


def handler_of(name: str) -> Handler:
    """The handler of a class name, with or without its package. Raises ValueError."""
    return texts.handler_of(Handler, HANDLERS, name, _UNSUPPORTED)


def filters_system(name: str) -> bool:
    """Whether a filter, by its class name, leaves out system scopes. Raises ValueError."""
    short = name.removeprefix(FILTERS)
    if short not in (FILTER, FILTER_WITH_SYSTEM):
        raise ValueError(
            f"JVM classes are not supported; the filters are {FILTERS}{FILTER}, "
            f"{FILTERS}{FILTER_WITH_SYSTEM}"
        )
    return short == FILTER


def _headers(names: tuple[str, ...]) -> None:
    for name in names:
        if name in _DCP_HEADERS:
            raise ValueError(f"'{name}' requires the change protocol (DCP), which is not supported")
        if name not in HEADERS:
            raise ValueError(f"Invalid header name '{name}'; must be one of {', '.join(HEADERS)}")


def _must_be_empty(text: str) -> None:
    if text.strip():
        raise ValueError("JSONPath filters are not supported; use a transform with a predicate")


def schema_of(text: str) -> Schema | None:
    """The schema of values, from Avro's. Raises ValueError."""
    if not text:
        return None
    try:
        schema = reads(text).schema
    except DataError as error:
        raise ValueError(str(error)) from error
    if schema is None or schema.type is not Type.STRUCT:
        raise ValueError("The schema is not a record")
    return schema


_BEHAVIOR: Final = Group("Source Behavior")
_SCHEMA: Final = Group("Schema")
_DCP: Final = Group("Database Change Protocol")

TOPIC: Final = _BEHAVIOR.key(
    "topic",
    STRING,
    "${bucket}.${scope}.${collection}",
    "The topic of records, with placeholders for the names of bucket, scope and collection. Use "
    "`couchbase.topic[scope.collection]` for a single collection.",
)
COLLECTION_TO_TOPIC: Final = _BEHAVIOR.key(
    "collection.to.topic",
    LIST,
    (),
    "The topics for collections, as `scope.collection=TOPIC`. Deprecated; use "
    "`couchbase.topic[scope.collection]`.",
    check=Readable(
        lambda listed: [parse_collection(name) for name in pairs_of(listed)],
        "scope.collection=topic,…",
    ),
)
SOURCE_HANDLER: Final = _BEHAVIOR.key(
    "source.handler",
    CLASS,
    REQUIRED,
    "What a record contains. The values are Couchbase's class names; other classes are not "
    "supported.",
    check=Readable(handler_of, ", ".join(handler.class_name for handler in Handler)),
)
HEADER_NAMES: Final = _BEHAVIOR.key(
    "headers",
    LIST,
    (),
    "The headers to add: `bucket`, `scope`, `collection`, `key`, `qualifiedKey`, `cas`, "
    "`partition`.",
    check=Readable(_headers, f"Zero or more of {', '.join(HEADERS)}"),
)
HEADER_PREFIX: Final = _BEHAVIOR.key(
    "header.name.prefix", STRING, "couchbase.", "The prefix of header names."
)
EVENT_FILTER: Final = _BEHAVIOR.key(
    "event.filter",
    CLASS,
    FILTERS + FILTER,
    "Which documents to skip: `AllPassFilter` those of system scopes and of transactions "
    "(`_txn:`), `AllPassIncludingSystemFilter` none. Other classes are not supported.",
    check=Readable(filters_system, f"{FILTERS}{FILTER}, {FILTERS}{FILTER_WITH_SYSTEM}"),
)
BLACK_HOLE: Final = _BEHAVIOR.key(
    "black.hole.topic", STRING, "", "Ignored: offsets are stored without records."
)
INITIAL_OFFSET: Final = _BEHAVIOR.key(
    "initial.offset.topic", STRING, "", "Ignored: offsets are stored without records."
)
BATCH: Final = _BEHAVIOR.key(
    "batch.size.max", INT, 2_000, "Maximum number of documents per query.", check=at_least(1)
)
NO_VALUE: Final = _BEHAVIOR.key(
    "no.value", BOOLEAN, False, "Whether to omit the content of documents from records."
)
NAME_IN_OFFSETS: Final = _BEHAVIOR.key(
    "connector.name.in.offsets",
    BOOLEAN,
    False,
    "Whether to add the connector's name to source partitions.",
)
STREAM_FROM: Final = _BEHAVIOR.key(
    "stream.from",
    STRING,
    "SAVED_OFFSET_OR_BEGINNING",
    "Where to begin reading.",
    check=Words(("SAVED_OFFSET_OR_BEGINNING", "SAVED_OFFSET_OR_NOW", "BEGINNING", "NOW")),
)
SCOPE: Final = _BEHAVIOR.key("scope", STRING, "", "The scope whose collections to read.")
COLLECTIONS: Final = _BEHAVIOR.key(
    "collections",
    LIST,
    (),
    "The collections to read, as `scope.collection`. Without them, and without `couchbase.scope`: "
    "all of the bucket.",
    check=all_of(
        entries(),
        Readable(lambda listed: [parse_collection(name) for name in listed], "scope.collection,…"),
    ),
)
JSONPATH: Final = _BEHAVIOR.key(
    "jsonpath.filter",
    STRING,
    "",
    "Must be empty: use a transform with a predicate.",
    check=Readable(_must_be_empty, "empty"),
)
VALUE_SCHEMA: Final = _SCHEMA.key(
    "value.schema",
    STRING,
    "",
    "The schema of values for `ConfigurableSchemaSourceHandler`: an Avro record. Skips documents "
    "that do not match. Use `couchbase.value.schema[scope.collection]` for a single collection.",
    check=Readable(schema_of, "an Avro record, as JSON"),
)
SCHEMA_FAILURE: Final = _SCHEMA.key(
    "schema.failure.action",
    STRING,
    "TERMINATE",
    "Ignored: schema registries are not supported.",
    check=Words(("TERMINATE", "DROP", "DLQ")),
)
DLQ_TOPIC: Final = _SCHEMA.key(
    "dlq.topic",
    STRING,
    "couchbase.dlq",
    "Ignored: schema registries are not supported.",
)
COMPRESSION: Final = _DCP.key(
    "compression",
    STRING,
    "ENABLED",
    "Ignored.",
    check=Words(("DISABLED", "FORCED", "ENABLED")),
)
PERSISTENCE: Final = _DCP.key(
    "persistence.polling.interval", STRING, "100ms", "Ignored.", check=DURATION
)
FLOW_CONTROL: Final = _DCP.key("flow.control.buffer", STRING, "16m", "Ignored.", check=SIZE)
XATTRS: Final = _DCP.key("xattrs", BOOLEAN, False, "Ignored.")
DCP_TRACE: Final = _DCP.key(
    "enable.dcp.trace",
    BOOLEAN,
    False,
    "Ignored.",
    dependents=("dcp.trace.document.id.regex",),
)
DCP_TRACE_IDS: Final = _DCP.key("dcp.trace.document.id.regex", STRING, ".*", "Ignored.")

POLL_INTERVAL: Final = Key(
    "penstock.couchbase.poll.interval.ms",
    LONG,
    default=1_000,
    check=at_least(1),
    doc="How long to wait after a poll without changes, in ms.",
    group="Polling",
    order=1,
)
POLL_DELAY: Final = Key(
    "penstock.couchbase.poll.delay.ms",
    LONG,
    default=5_000,
    check=at_least(0),
    doc="How old a change must be before it is read, by CAS, in ms: nodes take CAS values from "
    "their clocks, so the order of changes is certain only when no clock can still generate a "
    "smaller value.",
    group="Polling",
    order=2,
)
SEQUENCE: Final = Key(
    "penstock.couchbase.sequence.field",
    STRING,
    default="",
    doc="A field to order documents by instead of CAS; it must increase with every change, such as "
    "a sequence number or a timestamp. Dots separate nested fields. Documents without it are not "
    "read.",
    group="Polling",
    order=3,
)


def _rules(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    yield from tls_rule(parsed)
    if not parsed.get(BUCKET.name):
        yield BUCKET.name, f"Missing required config property: {BUCKET.name}"


COUCHBASE_SOURCE: Final = ConfigDef(
    *COMMON_KEYS,
    TOPIC,
    COLLECTION_TO_TOPIC,
    SOURCE_HANDLER,
    HEADER_NAMES,
    HEADER_PREFIX,
    EVENT_FILTER,
    BLACK_HOLE,
    INITIAL_OFFSET,
    BATCH,
    NO_VALUE,
    NAME_IN_OFFSETS,
    STREAM_FROM,
    SCOPE,
    COLLECTIONS,
    JSONPATH,
    VALUE_SCHEMA,
    SCHEMA_FAILURE,
    DLQ_TOPIC,
    COMPRESSION,
    PERSISTENCE,
    FLOW_CONTROL,
    XATTRS,
    DCP_TRACE,
    DCP_TRACE_IDS,
    POLL_INTERVAL,
    POLL_DELAY,
    SEQUENCE,
    rules=[_rules],
)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """Which documents are read, and how they become records."""

    bucket: str
    scope: str
    collections: tuple[Keyspace, ...]  # those that the configuration names
    handler: Handler
    topics: Contextual[str]
    schemas: Contextual[Schema | None]
    headers: tuple[str, ...]
    header_prefix: str
    skips_system: bool
    without_value: bool
    most: int
    uses_saved: bool
    from_beginning: bool
    connector: str | None  # in source partitions
    sequence: tuple[str, ...]  # the path of the field; empty: CAS
    interval_ms: int
    delay_ms: int
    redacts: bool

    def topic(self, keyspace: Keyspace) -> str:
        """The topic of a collection's records. Characters that topics cannot have become `_`."""
        text = self.topics.of(keyspace.qualified)
        for name in ("bucket", "scope", "collection"):
            text = text.replace(f"${{{name}}}", getattr(keyspace, name))
        return text.replace("%", "_")


def source_plan(config: Config) -> SourcePlan:
    """The plan of a configuration. Raises ConfigInvalid for invalid settings of collections."""
    bucket, props, start = config[BUCKET], config.props, config[STREAM_FROM]
    contextual(props, JSONPATH.name, "", _must_be_empty)
    return SourcePlan(
        bucket=bucket,
        scope=config[SCOPE],
        collections=tuple(
            Keyspace(bucket, *parse_collection(name)) for name in config[COLLECTIONS]
        ),
        handler=handler_of(config[SOURCE_HANDLER]),
        topics=contextual(
            props, TOPIC.name, config[TOPIC], str, pairs_of(config[COLLECTION_TO_TOPIC])
        ),
        schemas=contextual(props, VALUE_SCHEMA.name, config[VALUE_SCHEMA], schema_of),
        headers=config[HEADER_NAMES],
        header_prefix=config[HEADER_PREFIX],
        skips_system=filters_system(config[EVENT_FILTER]),
        without_value=config[NO_VALUE],
        most=config[BATCH],
        uses_saved=start.startswith("SAVED_OFFSET"),
        from_beginning=start.endswith("BEGINNING"),
        connector=props.get("name") if config[NAME_IN_OFFSETS] else None,
        sequence=tuple(part for part in config[SEQUENCE].split(".") if part),
        interval_ms=config[POLL_INTERVAL],
        delay_ms=config[POLL_DELAY],
        redacts=redacts(config),
    )
