"""Settings of the MongoDB source, under the names of MongoDB's connector (connectors.md §6.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    Choices,
    ConfigDef,
    Importance,
    Key,
    RegexInvalid,
    at_least,
    checking,
    compile_java,
    non_empty,
    one_of,
)
from penstock.connectors.mongodb.settings import names
from penstock.connectors.mongodb.settings.avro import SchemaInvalid, schema_of
from penstock.connectors.mongodb.settings.connection import ACCESS, uri_key
from penstock.connectors.mongodb.settings.topics import MapInvalid, TopicMapper
from penstock.connectors.mongodb.text.shell import TextInvalid, parse_document, parse_documents

CONNECTION_URI: Final = uri_key("mongodb://localhost:27017,localhost:27018,localhost:27019")

_STREAM: Final = "Change stream"
_TOPIC: Final = "Topic mapping"
_SCHEMA: Final = "Schema"
_STARTUP: Final = "Startup"
_ERRORS: Final = "Errors"
_PARTITION: Final = "Partition"

DEFAULT_KEY_SCHEMA: Final = (
    '{"type": "record", "name": "keySchema", "fields": [{"name": "_id", "type": "string"}]}'
)
_TEXT: Final = '["string", "null"]'
_NAMES: Final = (
    '[{{"type": "record", "name": "{0}", "fields": [{{"name": "db", "type": "string"}}, '
    f'{{{{"name": "coll", "type": {_TEXT}}}}}]}}}}, "null"]'
)


def _field(name: str, kind: str) -> str:
    return f'{{"name": "{name}", "type": {kind}}}'


def _record(name: str, *fields: str) -> str:
    return f'{{"type": "record", "name": "{name}", "fields": [{", ".join(fields)}]}}'


def _or_null(kind: str) -> str:
    return f'[{kind}, "null"]'


_TRUNCATED: Final = _record(
    "truncatedArray", _field("field", '"string"'), _field("newSize", '"int"')
)
DEFAULT_VALUE_SCHEMA: Final = _record(
    "ChangeStream",
    _field("_id", '"string"'),
    _field("operationType", _TEXT),
    _field("fullDocumentBeforeChange", _TEXT),
    _field("fullDocument", _TEXT),
    _field("ns", _NAMES.format("ns")),
    _field("to", _NAMES.format("to")),
    _field("documentKey", _TEXT),
    _field(
        "updateDescription",
        _or_null(
            _record(
                "updateDescription",
                _field("updatedFields", _TEXT),
                _field("removedFields", _or_null('{"type": "array", "items": "string"}')),
                _field("truncatedArrays", _or_null(f'{{"type": "array", "items": {_TRUNCATED}}}')),
                _field("disambiguatedPaths", _TEXT),
            )
        ),
    ),
    _field("clusterTime", _TEXT),
    _field("txnNumber", _or_null('"long"')),
    _field(
        "lsid",
        _or_null(_record("lsid", _field("id", '"string"'), _field("uid", '"string"'))),
    ),
)


def _problem(value: str | None, read: Any) -> str | None:
    try:
        read(value or "")
    except (TextInvalid, MapInvalid, SchemaInvalid, RegexInvalid, ValueError) as error:
        return str(error)
    return None


_DOCUMENTS: Final = checking("a JSON array", lambda value: _problem(value, parse_documents))
_PATTERN: Final = checking("a regular expression", lambda value: _problem(value, compile_java))
_AVRO: Final = checking("an Avro schema", lambda value: _problem(value, schema_of))
_MAP: Final = checking(
    "a JSON document", lambda value: _problem(value, lambda text: TopicMapper.of("", "", ".", text))
)
_COLLATION: Final = checking(
    "a JSON document",
    lambda value: _problem(value, parse_document) if value else None,
)


def moment_of(text: str) -> tuple[int, int] | None:
    """Seconds since the epoch and increment of `startup.mode.timestamp.start.at.operation.time`:
    seconds, a moment in ISO 8601 or `{"$timestamp": {"t": …, "i": …}}`; None: empty. Raises
    ValueError."""
    if not text.strip():
        return None
    if text.strip().isdigit():
        return int(text), 0
    if text.strip().startswith("{"):
        timestamp = parse_document(f'{{"at": {text}}}')["at"]
        if hasattr(timestamp, "inc"):
            return timestamp.time, timestamp.inc
        raise ValueError(f"'{text}' is not a BSON timestamp")
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        raise ValueError(f"'{text}' has no time zone")
    return int(moment.timestamp()), 0


def _string(
    name: str,
    doc: str,
    group: str,
    order: int,
    default: str = "",
    importance: Importance = MEDIUM,
    check: Any = None,
    choices: tuple[str, ...] = (),
) -> Key[str]:
    return Key(
        name,
        STRING,
        default=default,
        importance=importance,
        check=check,
        doc=doc,
        group=group,
        order=order,
        recommender=Choices(choices) if choices else None,
    )


def _flag(name: str, doc: str, group: str, order: int, default: bool = False) -> Key[bool]:
    return Key(name, BOOLEAN, default=default, importance=MEDIUM, doc=doc, group=group, order=order)


def _count(name: str, doc: str, group: str, order: int, default: int, least: int) -> Key[int]:
    return Key(
        name, INT, default=default, importance=MEDIUM, check=at_least(least), doc=doc, group=group,
        order=order,
    )  # fmt: skip


def _word(*words: str) -> Any:
    return one_of(*words, ignore_case=True)


DATABASE: Final = _string(
    "database", "The database whose changes are read. Empty: all databases.", "Connection", 4
)
COLLECTION: Final = _string(
    "collection", "The collection whose changes are read. Empty: all collections.", "Connection", 5
)
PIPELINE: Final = _string(
    "pipeline",
    'Pipeline stages for change events, as a JSON array: `[{"$match": {"operationType": '
    '"insert"}}]`.',
    _STREAM,
    1,
    default="[]",
    check=_DOCUMENTS,
)
BATCH_SIZE: Final = _count(
    "batch.size",
    "Number of events in a batch of the server's cursor; 0: the server decides.", _STREAM, 2,
    0, 0,
)  # fmt: skip
FULL_DOCUMENT: Final = _string(
    "change.stream.full.document",
    "Whether update events contain the whole document: looked up (`updateLookup`), or as stored by "
    "the server (`whenAvailable`, `required`).",
    _STREAM,
    3,
    importance=HIGH,
    check=_word("", "default", "updateLookup", "whenAvailable", "required"),
    choices=("default", "updateLookup", "whenAvailable", "required"),
)
FULL_DOCUMENT_BEFORE: Final = _string(
    "change.stream.full.document.before.change",
    "Whether events contain the document before the change.",
    _STREAM,
    4,
    importance=HIGH,
    check=_word("", "default", "off", "whenAvailable", "required"),
    choices=("default", "off", "whenAvailable", "required"),
)
FULL_DOCUMENT_ONLY: Final = _flag(
    "publish.full.document.only",
    "Whether records contain only the document instead of the event. Updated documents are then "
    "looked up.",
    _STREAM,
    5,
)
TOMBSTONES: Final = _flag(
    "publish.full.document.only.tombstone.on.delete",
    "Whether deletes then become records without a value; otherwise they are skipped.",
    _STREAM,
    6,
)
KEY_AS_KEY: Final = _flag(
    "change.stream.document.key.as.key",
    "Whether a record's key is the document key; otherwise it is the resume token.",
    _STREAM,
    7,
    default=True,
)
EXPANDED_EVENTS: Final = _flag(
    "change.stream.show.expanded.events",
    "Whether to include events of other changes to collections, such as of indexes (MongoDB 6.0).",
    _STREAM,
    8,
)
COLLATION: Final = _string(
    "collation", "The collation of the pipeline, as a JSON document.", _STREAM, 9, check=_COLLATION
)
POLL_MAX: Final = _count(
    "poll.max.batch.size", "Maximum number of events per poll.", _STREAM, 10, 1000, 1
)
POLL_AWAIT: Final = Key(
    "poll.await.time.ms",
    LONG,
    default=5000,
    importance=LOW,
    check=at_least(1),
    doc="How long the server waits for an event before it returns an empty batch, in milliseconds.",
    group=_STREAM,
    order=11,
)
TOPIC_MAPPER: Final = _string(
    "topic.mapper",
    "How to choose the topic of an event: `DefaultTopicMapper`, by namespace.",
    _TOPIC,
    1,
    default=names.TopicMapper.DEFAULT.value,
    importance=HIGH,
    check=names.known(names.TopicMapper),
)
TOPIC_SEPARATOR: Final = _string(
    "topic.separator", "Separator between the parts of a topic name.", _TOPIC, 2, default=".",
    importance=LOW,
)  # fmt: skip
TOPIC_PREFIX: Final = _string(
    "topic.prefix", "The first part of topic names.", _TOPIC, 3, importance=LOW
)
TOPIC_SUFFIX: Final = _string(
    "topic.suffix", "The last part of topic names.", _TOPIC, 4, importance=LOW
)
TOPIC_MAP: Final = _string(
    "topic.namespace.map",
    'Topics by namespace, as a JSON document: `{"shop.orders": "orders", "shop": "s", "/re.*": '
    '"x-{db}{sep_coll}", "*": "other"}`.',
    _TOPIC,
    5,
    importance=HIGH,
    check=_MAP,
)
_FORMATS: Final = ("json", "bson", "schema")
KEY_FORMAT: Final = _string(
    "output.format.key",
    "The format of keys: JSON strings, BSON or structs.", _SCHEMA, 1, default="json",
    importance=HIGH, check=_word(*_FORMATS), choices=_FORMATS,
)  # fmt: skip
VALUE_FORMAT: Final = _string(
    "output.format.value",
    "The format of values: JSON strings, BSON or structs.", _SCHEMA, 2, default="json",
    importance=HIGH, check=_word(*_FORMATS), choices=_FORMATS,
)  # fmt: skip
INFER: Final = _flag(
    "output.schema.infer.value",
    "Whether to infer the schema of structs from their document, instead of using "
    "`output.schema.value`.",
    _SCHEMA,
    3,
)
KEY_SCHEMA: Final = _string(
    "output.schema.key", "The Avro schema of struct keys.", _SCHEMA, 4,
    default=DEFAULT_KEY_SCHEMA, importance=HIGH, check=_AVRO,
)  # fmt: skip
VALUE_SCHEMA: Final = _string(
    "output.schema.value", "The Avro schema of struct values.", _SCHEMA, 5,
    default=DEFAULT_VALUE_SCHEMA, importance=HIGH, check=_AVRO,
)  # fmt: skip
JSON_FORMATTER: Final = _string(
    "output.json.formatter",
    "How BSON types are written in JSON: `DefaultJson`, `ExtendedJson` or `SimplifiedJson`.",
    _SCHEMA,
    6,
    default=names.JsonFormatter.DEFAULT.value,
    check=names.known(names.JsonFormatter),
)
LATEST: Final = "latest"
TIMESTAMP: Final = "timestamp"
COPY_EXISTING: Final = "copy_existing"
_MODES: Final = (LATEST, TIMESTAMP, COPY_EXISTING)
STARTUP_MODE: Final = _string(
    "startup.mode",
    "Where a connector without an offset begins: at the newest event, at a time, or with all "
    "existing documents.",
    _STARTUP,
    1,
    check=_word("", *_MODES),
    choices=_MODES,
)
START_AT: Final = _string(
    "startup.mode.timestamp.start.at.operation.time",
    "That time: seconds since 1970, ISO 8601 or a BSON timestamp as Extended JSON.",
    _STARTUP,
    2,
    check=checking("a time", lambda value: _problem(value, moment_of)),
)
_COPY: Final = (
    ("max.threads", INT, None, at_least(1),
     "Ignored: collections are read in parallel on the shared slots."),
    ("queue.size", INT, 16000, at_least(1), "Ignored: there is no queue."),
    ("pipeline", STRING, "", _DOCUMENTS, "Pipeline stages for documents before they are copied."),
    ("namespace.regex", STRING, "", _PATTERN,
     "The collections to copy: a regular expression searched in `database.collection`."),
    ("allow.disk.use", BOOLEAN, True, None, "Whether the server may use the disk for copying."),
)  # fmt: skip
_NEW: Final = "startup.mode.copy.existing."
_OLD: Final = "copy.existing."


def _copy_keys(prefix: str, first: int) -> tuple[Key[Any], ...]:
    old = "" if prefix == _NEW else f"Old name of `{_NEW}{{}}`."
    return tuple(
        Key(
            f"{prefix}{name}",
            kind,
            default=default,
            importance=MEDIUM,
            check=check,
            doc=old.format(name) or doc,
            group=_STARTUP,
            order=first + at,
        )
        for at, (name, kind, default, check, doc) in enumerate(_COPY)
    )


_COPY_KEYS: Final = _copy_keys(_NEW, 3)
_OLD_COPY_KEYS: Final = _copy_keys(_OLD, 9)
OLD_COPY: Final = _flag("copy.existing", "Old name of `startup.mode=copy_existing`.", _STARTUP, 8)
TOLERANCE: Final = _string(
    "mongo.errors.tolerance",
    "Overrides `errors.tolerance`: whether to skip events that cannot be converted, and to "
    "continue at the newest event if the server can no longer resume at the resume token.",
    _ERRORS,
    1,
    default="none",
    check=_word("none", "all"),
)
LOG_ERRORS: Final = _flag(
    "mongo.errors.log.enable",
    "Overrides `errors.log.enable`: whether to log skipped events.",
    _ERRORS,
    2,
)
DEAD_LETTERS: Final = _string(
    "mongo.errors.deadletterqueue.topic.name",
    "Overrides `errors.deadletterqueue.topic.name`: the topic for events that cannot be converted, "
    "as Extended JSON. Without it they are dropped.",
    _ERRORS,
    3,
)
HEARTBEAT_MS: Final = Key(
    "heartbeat.interval.ms",
    LONG,
    default=0,
    importance=MEDIUM,
    check=at_least(0),
    doc="After how many milliseconds without events to store the resume token anyway, with a "
    "heartbeat record; 0: never.",
    group=_ERRORS,
    order=4,
)
HEARTBEAT_TOPIC: Final = _string(
    "heartbeat.topic.name", "The topic of heartbeat records.", _ERRORS, 5,
    default="__mongodb_heartbeats", check=non_empty(),
)  # fmt: skip
PARTITION_NAME: Final = _string(
    "offset.partition.name",
    "Name under which offsets are stored. A new name starts over, as `startup.mode` specifies.",
    _PARTITION,
    1,
)


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if parsed.get(COLLECTION.name) and not parsed.get(DATABASE.name):
        yield COLLECTION.name, f"{COLLECTION.name} needs {DATABASE.name}"


MONGODB_SOURCE: Final = ConfigDef(
    CONNECTION_URI,
    DATABASE,
    COLLECTION,
    *ACCESS,
    PIPELINE,
    BATCH_SIZE,
    FULL_DOCUMENT,
    FULL_DOCUMENT_BEFORE,
    FULL_DOCUMENT_ONLY,
    TOMBSTONES,
    KEY_AS_KEY,
    EXPANDED_EVENTS,
    COLLATION,
    POLL_MAX,
    POLL_AWAIT,
    TOPIC_MAPPER,
    TOPIC_SEPARATOR,
    TOPIC_PREFIX,
    TOPIC_SUFFIX,
    TOPIC_MAP,
    KEY_FORMAT,
    VALUE_FORMAT,
    INFER,
    KEY_SCHEMA,
    VALUE_SCHEMA,
    JSON_FORMATTER,
    STARTUP_MODE,
    START_AT,
    *_COPY_KEYS,
    OLD_COPY,
    *_OLD_COPY_KEYS,
    TOLERANCE,
    LOG_ERRORS,
    DEAD_LETTERS,
    HEARTBEAT_MS,
    HEARTBEAT_TOPIC,
    PARTITION_NAME,
    rules=(_rule,),
)


def startup_mode(config: Any) -> str:
    """`latest`, `timestamp` or `copy_existing`."""
    mode: str = config[STARTUP_MODE].lower()
    return mode or (COPY_EXISTING if config[OLD_COPY] else LATEST)


def copy_setting(config: Any, name: str) -> Any:
    """A setting of the copy, under its new name or its old one."""
    at = [setting[0] for setting in _COPY].index(name)
    new, old = _COPY_KEYS[at], _OLD_COPY_KEYS[at]
    return config[old] if old in config and new not in config else config[new]
