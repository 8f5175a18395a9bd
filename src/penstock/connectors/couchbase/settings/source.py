"""Settings of the source (connectors.md §11), and the plan that is made from them.

Couchbase's connector reads the database change protocol (DCP). The SDK does not support it, so this
connector polls; settings about the protocol have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.api import DataError, settings
from penstock.api.avro import reads
from penstock.api.schema import Schema, Type
from penstock.api.settings import (
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    all_of,
    entries,
    invalid,
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


class SourceHandler(Enum):
    """The content of a record."""

    RAW = "RawJsonSourceHandler"
    RAW_WITH_METADATA = "RawJsonWithMetadataSourceHandler"
    DEFAULT_SCHEMA = "DefaultSchemaSourceHandler"
    CONFIGURABLE_SCHEMA = "ConfigurableSchemaSourceHandler"

    @property
    def class_name(self) -> str:
        """The vendor's class."""
        return HANDLERS + self.value


def handler_of(name: str) -> SourceHandler:
    """The handler of a class name, with or without its package. Raises ValueError."""
    return texts.handler_of(SourceHandler, HANDLERS, name, _UNSUPPORTED)


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

# fmt: off
TOPIC: Final = _BEHAVIOR.text("topic", "${bucket}.${scope}.${collection}",
    "The topic of records, with placeholders for the names of bucket, scope and collection. Use "
    "`couchbase.topic[scope.collection]` for a single collection.")
COLLECTION_TO_TOPIC: Final = _BEHAVIOR.listing("collection.to.topic", (),
    "The topics for collections, as `scope.collection=TOPIC`. Deprecated; use "
    "`couchbase.topic[scope.collection]`.",
    check=Readable(
        lambda listed: [parse_collection(name) for name in pairs_of(listed)],
        "scope.collection=topic,…"))
SOURCE_HANDLER: Final = _BEHAVIOR.class_name("source.handler", REQUIRED,
    "What a record contains. The values are Couchbase's class names; other classes are not "
    "supported.",
    check=Readable(handler_of, ", ".join(handler.class_name for handler in SourceHandler)))
HEADER_NAMES: Final = _BEHAVIOR.listing("headers", (),
    "The headers to add: `bucket`, `scope`, `collection`, `key`, `qualifiedKey`, `cas`, "
    "`partition`.", check=Readable(_headers, f"Zero or more of {', '.join(HEADERS)}"))
HEADER_PREFIX: Final = _BEHAVIOR.text("header.name.prefix", "couchbase.",
    "The prefix of header names.")
EVENT_FILTER: Final = _BEHAVIOR.class_name("event.filter", FILTERS + FILTER,
    "Which documents to skip: `AllPassFilter` those of system scopes and of transactions "
    "(`_txn:`), `AllPassIncludingSystemFilter` none. Other classes are not supported.",
    check=Readable(filters_system, f"{FILTERS}{FILTER}, {FILTERS}{FILTER_WITH_SYSTEM}"))
BLACK_HOLE: Final = _BEHAVIOR.ignored("black.hole.topic", "",
    "offsets are stored without records", importance=MEDIUM)
INITIAL_OFFSET: Final = _BEHAVIOR.ignored("initial.offset.topic", "",
    "offsets are stored without records", importance=MEDIUM)
BATCH: Final = _BEHAVIOR.number("batch.size.max", 2_000,
    "Maximum number of documents per query.", at_least=1)
NO_VALUE: Final = _BEHAVIOR.flag("no.value", False,
    "Whether to omit the content of documents from records.")
NAME_IN_OFFSETS: Final = _BEHAVIOR.flag("connector.name.in.offsets", False,
    "Whether to add the connector's name to source partitions.")
STREAM_FROM: Final = _BEHAVIOR.text("stream.from", "SAVED_OFFSET_OR_BEGINNING",
    "Where to begin reading.",
    check=Words(("SAVED_OFFSET_OR_BEGINNING", "SAVED_OFFSET_OR_NOW", "BEGINNING", "NOW")))
SCOPE: Final = _BEHAVIOR.text("scope", "", "The scope whose collections to read.")
COLLECTIONS: Final = _BEHAVIOR.listing("collections", (),
    "The collections to read, as `scope.collection`. Without them, and without "
    "`couchbase.scope`: all of the bucket.",
    check=all_of(
        entries(),
        Readable(lambda listed: [parse_collection(name) for name in listed],
            "scope.collection,…")))
JSONPATH: Final = _BEHAVIOR.text("jsonpath.filter", "",
    "Must be empty: use a transform with a predicate.", check=Readable(_must_be_empty, "empty"))
VALUE_SCHEMA: Final = _SCHEMA.text("value.schema", "",
    "The schema of values for `ConfigurableSchemaSourceHandler`: an Avro record. Skips documents "
    "that do not match. Use `couchbase.value.schema[scope.collection]` for a single collection.",
    check=Readable(schema_of, "an Avro record, as JSON"))
SCHEMA_FAILURE: Final = _SCHEMA.ignored("schema.failure.action", "TERMINATE",
    "schema registries are not supported", check=Words(("TERMINATE", "DROP", "DLQ")),
    importance=MEDIUM)
DLQ_TOPIC: Final = _SCHEMA.ignored("dlq.topic", "couchbase.dlq",
    "schema registries are not supported", importance=MEDIUM)
COMPRESSION: Final = _DCP.ignored("compression", "ENABLED",
    check=Words(("DISABLED", "FORCED", "ENABLED")), importance=MEDIUM)
PERSISTENCE: Final = _DCP.ignored("persistence.polling.interval", "100ms",
    check=DURATION, importance=MEDIUM)
FLOW_CONTROL: Final = _DCP.ignored("flow.control.buffer", "16m", check=SIZE, importance=MEDIUM)
XATTRS: Final = _DCP.flag("xattrs", False,
    "Whether to read extended attributes: not supported, refused if true.")
DCP_TRACE: Final = _DCP.ignored("enable.dcp.trace", False,
    importance=MEDIUM, dependents=("dcp.trace.document.id.regex",))
DCP_TRACE_IDS: Final = _DCP.ignored("dcp.trace.document.id.regex", ".*", importance=MEDIUM)

_POLLING: Final = settings.Group("Polling")
POLL_INTERVAL: Final = _POLLING.long("penstock.couchbase.poll.interval.ms", 1_000,
    "How long to wait after a poll without changes, in ms.", at_least=1)
POLL_DELAY: Final = _POLLING.long("penstock.couchbase.poll.delay.ms", 5_000,
    "How old a change must be before it is read, by CAS, in ms: nodes take CAS values from their "
    "clocks, so the order of changes is certain only when no clock can still generate a smaller "
    "value.", at_least=0)
SEQUENCE: Final = _POLLING.text("penstock.couchbase.sequence.field", "",
    "A field to order documents by instead of CAS; it must increase with every change, such as a "
    "sequence number or a timestamp. Dots separate nested fields. Documents without it are not "
    "read.")
# fmt: on


def _rules(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    yield from tls_rule(parsed)
    if not parsed.get(BUCKET.name):
        yield BUCKET.name, f"Missing required config property: {BUCKET.name}"
    if parsed.get(XATTRS.name):
        text = "Extended attributes are not read. Remove it"
        yield XATTRS.name, invalid(XATTRS.name, True, text)


COUCHBASE_SOURCE: Final = ConfigDef(
    *COMMON_KEYS,
    *_BEHAVIOR,
    *_SCHEMA,
    *_DCP,
    *_POLLING,
    rules=[_rules],
)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """Which documents are read, and how they become records."""

    bucket: str
    scope: str
    collections: tuple[Keyspace, ...]  # those that the configuration names
    handler: SourceHandler
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
