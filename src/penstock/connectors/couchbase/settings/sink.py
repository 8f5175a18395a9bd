"""Settings of the sink (connectors.md §11), and the plan that is made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    MEDIUM,
    Config,
    ConfigDef,
    Key,
    invalid,
)
from penstock.connectors.couchbase.client.keyspace import Keyspace, parse_keyspace
from penstock.connectors.couchbase.client.store import Change, Durability
from penstock.connectors.couchbase.settings import texts
from penstock.connectors.couchbase.settings.connection import (
    BUCKET,
    COMMON_KEYS,
    redacts,
    tls_rule,
)
from penstock.connectors.couchbase.settings.ids import IdFormat
from penstock.connectors.couchbase.settings.texts import (
    DURATION,
    SIZE,
    Contextual,
    Group,
    Readable,
    Words,
    boolean,
    contextual,
    duration_ms,
    pairs_of,
)

HANDLERS: Final = "com.couchbase.connect.kafka.handler.sink."
_UNSUPPORTED: Final = {"AnalyticsSinkHandler": "writes to Analytics are not supported"}


class SinkHandler(Enum):
    """The kind of write for a record."""

    UPSERT = "UpsertSinkHandler"
    N1QL = "N1qlSinkHandler"
    SUBDOCUMENT = "SubDocumentSinkHandler"

    @property
    def class_name(self) -> str:
        """The vendor's class."""
        return HANDLERS + self.value


def handler_of(name: str) -> SinkHandler:
    """The handler of a class name, with or without its package. Raises ValueError."""
    return texts.handler_of(SinkHandler, HANDLERS, name, _UNSUPPORTED)


_BEHAVIOR: Final = Group("Sink Behavior")
_DURABILITY: Final = Group("Durability")
_N1QL: Final = Group("N1ql Sink Handler")
_ANALYTICS: Final = Group("Analytics Sink Handler")
_PART: Final = Group("Sub Document Sink Handler")

# fmt: off
DEFAULT_COLLECTION: Final = _BEHAVIOR.text("default.collection", "_default._default",
    "The collection to write to: `scope.collection` or `bucket.scope.collection`; enclose a "
    "bucket name with dots in backticks. Use `couchbase.default.collection[TOPIC]` for a single "
    "topic.",
    check=Readable(
        lambda text: parse_keyspace(text, None), "scope.collection or bucket.scope.collection"))
TOPIC_TO_COLLECTION: Final = _BEHAVIOR.listing("topic.to.collection", (),
    "The collections for topics, as `TOPIC=scope.collection`. Deprecated; use "
    "`couchbase.default.collection[TOPIC]`.",
    check=Readable(
        lambda entries: [parse_keyspace(name, None) for name in pairs_of(entries).values()],
        "topic=scope.collection,…"))
TOPIC_TO_ID: Final = _BEHAVIOR.listing("topic.to.document.id", (),
    "The `couchbase.document.id` for topics, as `TOPIC=${/id}`. Deprecated; use "
    "`couchbase.document.id[TOPIC]`.",
    check=Readable(
        lambda entries: [IdFormat(text) for text in pairs_of(entries).values()], "topic=${/id},…"))
SINK_HANDLER: Final = _BEHAVIOR.class_name("sink.handler", SinkHandler.UPSERT.class_name,
    "How to write a record: as a document (`UpsertSinkHandler`), a part of one "
    "(`SubDocumentSinkHandler`) or a statement (`N1qlSinkHandler`). The values are Couchbase's "
    "class names; other classes are not supported.",
    check=Readable(handler_of, ", ".join(handler.class_name for handler in SinkHandler)))
DOCUMENT_MODE: Final = _BEHAVIOR.text("document.mode", "DOCUMENT",
    "`N1QL` and `SUBDOCUMENT` override `couchbase.sink.handler`. Deprecated.",
    check=Words(("DOCUMENT", "SUBDOCUMENT", "N1QL")))
DOCUMENT_ID: Final = _BEHAVIOR.text("document.id", "",
    "The document id, with placeholders for values of the record: `widget::${/id}`. If empty, or "
    "if a value is missing: the record's key, otherwise `topic/partition/offset`. Use "
    "`couchbase.document.id[TOPIC]` for a single topic.",
    check=Readable(IdFormat, "a string with placeholders like ${/path/to/field}"))
REMOVE_ID: Final = _BEHAVIOR.flag("remove.document.id", False,
    "Whether to omit the fields of the id from the document. Use "
    "`couchbase.remove.document.id[TOPIC]` for a single topic.")
EXPIRATION: Final = _BEHAVIOR.text("document.expiration", "0",
    "When documents expire after a write, such as `30m`; 0: never. Use "
    "`couchbase.document.expiration[TOPIC]` for a single topic. Does not apply to statements.",
    check=DURATION)
RETRY_TIMEOUT: Final = _BEHAVIOR.text("retry.timeout", "0",
    "How long to retry a write while the cluster is unreachable or busy, before the task fails; "
    "0: indefinitely (in Couchbase's connector: fail at once).", check=DURATION)
DURABILITY: Final = _DURABILITY.text("durability", "NONE",
    "When a write counts as done; NONE: when it is in the memory of the active node. Needs "
    "Couchbase Server 6.5 or later.",
    check=Words(("NONE", "MAJORITY", "MAJORITY_AND_PERSIST_TO_ACTIVE", "PERSIST_TO_MAJORITY")))
PERSIST_TO: Final = _DURABILITY.text("persist.to", "NONE",
    "How many nodes must have a write on disk before it counts as done, for servers before 6.5.",
    check=Words(("NONE", "ACTIVE", "ONE", "TWO", "THREE", "FOUR")))
REPLICATE_TO: Final = _DURABILITY.text("replicate.to", "NONE",
    "How many replicas must have a write in memory before it counts as done, for servers before "
    "6.5.", check=Words(("NONE", "ONE", "TWO", "THREE")))
N1QL_OPERATION: Final = _N1QL.text("n1ql.operation", "UPDATE",
    "`UPDATE`: set the record's fields in the document with its id. `UPDATE_WHERE`: in all "
    "documents that `couchbase.n1ql.where.fields` selects.",
    check=Words(("UPDATE", "UPDATE_WHERE")))
N1QL_WHERE: Final = _N1QL.listing("n1ql.where.fields", (),
    "For `UPDATE_WHERE`: the fields of a document that must equal those of the record, or a "
    "fixed string: `type:widget,color`.")
N1QL_CREATE: Final = _N1QL.flag("n1ql.create.document", True,
    "Whether `UPDATE` creates missing documents.")
ANALYTICS_RECORDS: Final = _ANALYTICS.ignored("analytics.max.records.in.batch", 100,
    "this handler is not supported", importance=MEDIUM)
ANALYTICS_SIZE: Final = _ANALYTICS.ignored("analytics.max.size.in.batch", "5m",
    "this handler is not supported", check=SIZE, importance=MEDIUM)
ANALYTICS_TIMEOUT: Final = _ANALYTICS.ignored("analytics.query.timeout", "5m",
    "this handler is not supported", check=DURATION, importance=MEDIUM)
PART_PATH: Final = _PART.text("subdocument.path", "",
    "The path in the document to write the record to; if it begins with `/`, a JSON pointer to "
    "the field of the record that contains this path.")
PART_OPERATION: Final = _PART.text("subdocument.operation", "UPSERT",
    "Whether the record replaces the value at the path, or is prepended or appended to the array "
    "there.", check=Words(("UPSERT", "ARRAY_PREPEND", "ARRAY_APPEND")))
PART_CREATE_PATH: Final = _PART.flag("subdocument.create.path", True,
    "Whether to create missing parts of the path.")
PART_CREATE: Final = _PART.flag("subdocument.create.document", True,
    "Whether to create missing documents.")
# fmt: on
_OLD_CREATE: Final = "couchbase.create.document"


def _rules(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    yield from tls_rule(parsed)
    if not parsed.get(BUCKET.name):
        yield BUCKET.name, f"Missing required config property: {BUCKET.name}"
    weaker = [
        key.name for key in (PERSIST_TO, REPLICATE_TO) if parsed.get(key.name) not in (None, "NONE")
    ]
    if weaker and parsed.get(DURABILITY.name) not in (None, "NONE"):
        yield (
            DURABILITY.name,
            f"Invalid durability config. When '{DURABILITY.name}' is set, you must not set "
            f"'{REPLICATE_TO.name}' or '{PERSIST_TO.name}'.",
        )
    handler = _handler(parsed.get(SINK_HANDLER.name), parsed.get(DOCUMENT_MODE.name))
    if handler is SinkHandler.SUBDOCUMENT:
        path = str(parsed.get(PART_PATH.name) or "").strip()
        if not path:
            yield PART_PATH.name, f'Missing required configuration "{PART_PATH.name}"'
        elif path.startswith("/"):
            try:
                IdFormat(f"${{{path}}}")
            except ValueError as error:
                yield PART_PATH.name, invalid(PART_PATH.name, path, str(error))
    if (
        handler is SinkHandler.N1QL
        and parsed.get(N1QL_OPERATION.name) == "UPDATE_WHERE"
        and not parsed.get(N1QL_WHERE.name)
    ):
        yield N1QL_WHERE.name, f'Missing required configuration "{N1QL_WHERE.name}".'


def _handler(name: object, mode: object) -> SinkHandler | None:
    if mode in ("N1QL", "SUBDOCUMENT"):
        return SinkHandler[str(mode)]
    try:
        return handler_of(str(name))
    except ValueError:
        return None


COUCHBASE_SINK: Final = ConfigDef(
    *COMMON_KEYS,
    *_BEHAVIOR,
    *_DURABILITY,
    *_N1QL,
    *_ANALYTICS,
    *_PART,
    rules=[_rules],
)


@dataclass(frozen=True, slots=True)
class Statements:
    """The form of the statements for a record."""

    where: tuple[tuple[str, str | None], ...] | None  # fields and fixed texts; None: by id
    creates: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """The part of a document that a record is written to."""

    change: Change
    path: str  # of the part; of the record's field with it if `pointer`
    pointer: IdFormat | None
    creates_path: bool
    creates_document: bool


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """How records are written. `statements` and `parts`: both None for whole documents."""

    collections: Contextual[Keyspace]
    ids: Contextual[IdFormat]
    removes_ids: Contextual[bool]
    expiry_ms: Contextual[int]
    durability: Durability
    statements: Statements | None
    parts: Parts | None
    retry_ms: int
    redacts: bool


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a configuration. Raises ConfigInvalid for invalid settings of single topics."""
    bucket, props = config[BUCKET], config.props
    handler = _handler(config[SINK_HANDLER], config[DOCUMENT_MODE])
    assert handler is not None
    return SinkPlan(
        collections=contextual(
            props,
            DEFAULT_COLLECTION.name,
            config[DEFAULT_COLLECTION],
            lambda text: parse_keyspace(text, bucket),
            pairs_of(config[TOPIC_TO_COLLECTION]),
        ),
        ids=contextual(
            props,
            DOCUMENT_ID.name,
            config[DOCUMENT_ID],
            IdFormat,
            pairs_of(config[TOPIC_TO_ID]),
        ),
        removes_ids=contextual(
            props, REMOVE_ID.name, "true" if config[REMOVE_ID] else "false", boolean
        ),
        expiry_ms=contextual(props, EXPIRATION.name, config[EXPIRATION] or "0", duration_ms),
        durability=Durability(config[DURABILITY], config[PERSIST_TO], config[REPLICATE_TO]),
        statements=_statements(config) if handler is SinkHandler.N1QL else None,
        parts=_parts(config) if handler is SinkHandler.SUBDOCUMENT else None,
        retry_ms=duration_ms(config[RETRY_TIMEOUT] or "0"),
        redacts=redacts(config),
    )


def _statements(config: Config) -> Statements:
    conditions: tuple[tuple[str, str | None], ...] | None = None
    if config[N1QL_OPERATION] == "UPDATE_WHERE":
        split = (entry.partition(":") for entry in config[N1QL_WHERE])
        conditions = tuple((name, text if colon else None) for name, colon, text in split)
    return Statements(conditions, _creates(config, N1QL_CREATE))


def _parts(config: Config) -> Parts:
    path = config[PART_PATH].strip()
    return Parts(
        change=Change(config[PART_OPERATION]),
        path=path,
        pointer=IdFormat(f"${{{path}}}") if path.startswith("/") else None,
        creates_path=config[PART_CREATE_PATH],
        creates_document=_creates(config, PART_CREATE),
    )


def _creates(config: Config, key: Key[bool]) -> bool:
    """The setting, or its old name, which both handlers share."""
    if key not in config and _OLD_CREATE in config.props:
        text = config.props[_OLD_CREATE]
        try:
            return boolean(text.strip())
        except ValueError as error:
            raise ConfigInvalid([invalid(_OLD_CREATE, text, str(error))]) from error
    return config[key]
