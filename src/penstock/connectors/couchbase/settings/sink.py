"""Settings of the sink (connectors.md §11), and the plan that is made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    STRING,
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


class Handler(Enum):
    """The kind of write for a record."""

    UPSERT = "UpsertSinkHandler"
    N1QL = "N1qlSinkHandler"
    SUBDOCUMENT = "SubDocumentSinkHandler"

    @property
    def class_name(self) -> str:
        """The vendor's class."""
        return HANDLERS + self.value


def handler_of(name: str) -> Handler:
    """The handler of a class name, with or without its package. Raises ValueError."""
    return texts.handler_of(Handler, HANDLERS, name, _UNSUPPORTED)


_BEHAVIOR: Final = Group("Sink Behavior")
_DURABILITY: Final = Group("Durability")
_N1QL: Final = Group("N1ql Sink Handler")
_ANALYTICS: Final = Group("Analytics Sink Handler")
_PART: Final = Group("Sub Document Sink Handler")

DEFAULT_COLLECTION: Final = _BEHAVIOR.key(
    "default.collection",
    STRING,
    "_default._default",
    "The collection of documents: `scope.collection` or `bucket.scope.collection`; "
    "backticks enclose the name of a bucket with dots. `couchbase.default.collection[TOPIC]` is "
    "that of a topic.",
    check=Readable(
        lambda text: parse_keyspace(text, None), "scope.collection or bucket.scope.collection"
    ),
)
TOPIC_TO_COLLECTION: Final = _BEHAVIOR.key(
    "topic.to.collection",
    LIST,
    (),
    "Collections of topics, as `TOPIC=scope.collection`. Deprecated by "
    "`couchbase.default.collection[TOPIC]`.",
    check=Readable(
        lambda entries: [parse_keyspace(name, None) for name in pairs_of(entries).values()],
        "topic=scope.collection,…",
    ),
)
TOPIC_TO_ID: Final = _BEHAVIOR.key(
    "topic.to.document.id",
    LIST,
    (),
    "What `couchbase.document.id` is for topics, as `TOPIC=${/id}`. Deprecated by "
    "`couchbase.document.id[TOPIC]`.",
    check=Readable(
        lambda entries: [IdFormat(text) for text in pairs_of(entries).values()], "topic=${/id},…"
    ),
)
SINK_HANDLER: Final = _BEHAVIOR.key(
    "sink.handler",
    CLASS,
    Handler.UPSERT.class_name,
    "What becomes of a record: a document (`UpsertSinkHandler`), a part of one "
    "(`SubDocumentSinkHandler`) or a statement (`N1qlSinkHandler`), by the names of Couchbase's "
    "classes. Other classes are refused.",
    check=Readable(handler_of, ", ".join(handler.class_name for handler in Handler)),
)
DOCUMENT_MODE: Final = _BEHAVIOR.key(
    "document.mode",
    STRING,
    "DOCUMENT",
    "`N1QL` and `SUBDOCUMENT` take the place of `couchbase.sink.handler`. Deprecated.",
    check=Words(("DOCUMENT", "SUBDOCUMENT", "N1QL")),
)
DOCUMENT_ID: Final = _BEHAVIOR.key(
    "document.id",
    STRING,
    "",
    "The id of documents, with places for values of the record: `widget::${/id}`. Empty, or "
    "where a value is missing: the record's key, and else `topic/partition/offset`. "
    "`couchbase.document.id[TOPIC]` is that of a topic.",
    check=Readable(IdFormat, "a string with placeholders like ${/path/to/field}"),
)
REMOVE_ID: Final = _BEHAVIOR.key(
    "remove.document.id",
    BOOLEAN,
    False,
    "Whether the fields that the id is made of are omitted from the document. "
    "`couchbase.remove.document.id[TOPIC]` is that of a topic.",
)
EXPIRATION: Final = _BEHAVIOR.key(
    "document.expiration",
    STRING,
    "0",
    "After what time documents expire, such as `30m`; 0: never. "
    "`couchbase.document.expiration[TOPIC]` is that of a topic. Statements do not set it.",
    check=DURATION,
)
RETRY_TIMEOUT: Final = _BEHAVIOR.key(
    "retry.timeout",
    STRING,
    "0",
    "For how long a write is repeated while the cluster is unreachable or busy, before "
    "the task fails; 0: "
    "without end (in Couchbase's connector: the task fails at once).",
    check=DURATION,
)
DURABILITY: Final = _DURABILITY.key(
    "durability",
    STRING,
    "NONE",
    "When a write counts as done; NONE: when the active node has it in memory. Needs Couchbase "
    "Server 6.5 or later.",
    check=Words(
        ("NONE", "MAJORITY", "MAJORITY_AND_PERSIST_TO_ACTIVE", "PERSIST_TO_MAJORITY"),
    ),
)
PERSIST_TO: Final = _DURABILITY.key(
    "persist.to",
    STRING,
    "NONE",
    "On how many nodes a write is on disk before it counts as done, for servers before 6.5.",
    check=Words(("NONE", "ACTIVE", "ONE", "TWO", "THREE", "FOUR")),
)
REPLICATE_TO: Final = _DURABILITY.key(
    "replicate.to",
    STRING,
    "NONE",
    "How many replicas have a write in memory before it counts as done, for servers before 6.5.",
    check=Words(("NONE", "ONE", "TWO", "THREE")),
)
N1QL_OPERATION: Final = _N1QL.key(
    "n1ql.operation",
    STRING,
    "UPDATE",
    "`UPDATE`: sets the record's fields in the document with its id. `UPDATE_WHERE`: in all "
    "documents that `couchbase.n1ql.where.fields` select.",
    check=Words(("UPDATE", "UPDATE_WHERE")),
)
N1QL_WHERE: Final = _N1QL.key(
    "n1ql.where.fields",
    LIST,
    (),
    "For `UPDATE_WHERE`: fields that have the record's value in the documents to change, or a "
    "fixed text: `type:widget,color`.",
)
N1QL_CREATE: Final = _N1QL.key(
    "n1ql.create.document",
    BOOLEAN,
    True,
    "Whether `UPDATE` creates a document that does not exist.",
)
ANALYTICS_RECORDS: Final = _ANALYTICS.key(
    "analytics.max.records.in.batch", INT, 100, "No effect: there is no such handler."
)
ANALYTICS_SIZE: Final = _ANALYTICS.key(
    "analytics.max.size.in.batch", STRING, "5m", "No effect: there is no such handler.", check=SIZE
)
ANALYTICS_TIMEOUT: Final = _ANALYTICS.key(
    "analytics.query.timeout", STRING, "5m", "No effect: there is no such handler.", check=DURATION
)
PART_PATH: Final = _PART.key(
    "subdocument.path",
    STRING,
    "",
    "The path of the part of a document that a record is written to; if it begins with `/`, a JSON "
    "pointer to the record's field with that path.",
)
PART_OPERATION: Final = _PART.key(
    "subdocument.operation",
    STRING,
    "UPSERT",
    "Whether the record replaces what is at the path, or is added to the array there, in front or "
    "at the end.",
    check=Words(("UPSERT", "ARRAY_PREPEND", "ARRAY_APPEND")),
)
PART_CREATE_PATH: Final = _PART.key(
    "subdocument.create.path",
    BOOLEAN,
    True,
    "Whether what is missing of the path is created.",
)
PART_CREATE: Final = _PART.key(
    "subdocument.create.document",
    BOOLEAN,
    True,
    "Whether a document that does not exist is created.",
)
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
    if handler is Handler.SUBDOCUMENT:
        path = str(parsed.get(PART_PATH.name) or "").strip()
        if not path:
            yield PART_PATH.name, f'Missing required configuration "{PART_PATH.name}"'
        elif path.startswith("/"):
            try:
                IdFormat(f"${{{path}}}")
            except ValueError as error:
                yield PART_PATH.name, invalid(PART_PATH.name, path, str(error))
    if (
        handler is Handler.N1QL
        and parsed.get(N1QL_OPERATION.name) == "UPDATE_WHERE"
        and not parsed.get(N1QL_WHERE.name)
    ):
        yield N1QL_WHERE.name, f'Missing required configuration "{N1QL_WHERE.name}".'


def _handler(name: object, mode: object) -> Handler | None:
    if mode in ("N1QL", "SUBDOCUMENT"):
        return Handler[str(mode)]
    try:
        return handler_of(str(name))
    except ValueError:
        return None


COUCHBASE_SINK: Final = ConfigDef(
    *COMMON_KEYS,
    DEFAULT_COLLECTION,
    TOPIC_TO_COLLECTION,
    TOPIC_TO_ID,
    SINK_HANDLER,
    DOCUMENT_MODE,
    DOCUMENT_ID,
    REMOVE_ID,
    EXPIRATION,
    RETRY_TIMEOUT,
    DURABILITY,
    PERSIST_TO,
    REPLICATE_TO,
    N1QL_OPERATION,
    N1QL_WHERE,
    N1QL_CREATE,
    ANALYTICS_RECORDS,
    ANALYTICS_SIZE,
    ANALYTICS_TIMEOUT,
    PART_PATH,
    PART_OPERATION,
    PART_CREATE_PATH,
    PART_CREATE,
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
        statements=_statements(config) if handler is Handler.N1QL else None,
        parts=_parts(config) if handler is Handler.SUBDOCUMENT else None,
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
