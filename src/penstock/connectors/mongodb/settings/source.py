"""Settings of the MongoDB source, under the names of MongoDB's connector (connectors.md §6.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    ConfigDef,
    Group,
    Key,
    RegexInvalid,
    checking,
    compile_java,
    non_empty,
)
from penstock.connectors.mongodb.settings import names
from penstock.connectors.mongodb.settings.avro import SchemaInvalid, schema_of
from penstock.connectors.mongodb.settings.connection import ACCESS, uri_key
from penstock.connectors.mongodb.settings.topics import MapInvalid, TopicMapper
from penstock.connectors.mongodb.text.shell import TextInvalid, parse_document, parse_documents

# fmt: off
_CONNECTION: Final = Group("Connection", first=3)
CONNECTION_URI: Final = uri_key(
    _CONNECTION, "mongodb://localhost:27017,localhost:27018,localhost:27019"
)


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


DATABASE: Final = _CONNECTION.text("database", "",
    "The database whose changes are read. Empty: all databases.")
COLLECTION: Final = _CONNECTION.text("collection", "",
    "The collection whose changes are read. Empty: all collections.")
_STREAM: Final = Group("Change stream")
PIPELINE: Final = _STREAM.text("pipeline", "[]",
    'Pipeline stages for change events, as a JSON array: `[{"$match": {"operationType": '
    '"insert"}}]`.', check=_DOCUMENTS)
BATCH_SIZE: Final = _STREAM.number("batch.size", 0,
    "Number of events in a batch of the server's cursor; 0: the server decides.", at_least=0)
FULL_DOCUMENT: Final = _STREAM.choice(
    "change.stream.full.document", "", ("", "default", "updateLookup", "whenAvailable", "required"),
    "Whether update events contain the whole document: looked up (`updateLookup`), or as stored "
    "by the server (`whenAvailable`, `required`).", ignore_case=True,
    offers=("default", "updateLookup", "whenAvailable", "required"), importance=HIGH)
FULL_DOCUMENT_BEFORE: Final = _STREAM.choice(
    "change.stream.full.document.before.change", "",
    ("", "default", "off", "whenAvailable", "required"),
    "Whether events contain the document before the change.", ignore_case=True,
    offers=("default", "off", "whenAvailable", "required"), importance=HIGH)
FULL_DOCUMENT_ONLY: Final = _STREAM.flag("publish.full.document.only", False,
    "Whether records contain only the document instead of the event. Updated documents are then "
    "looked up.")
TOMBSTONES: Final = _STREAM.flag("publish.full.document.only.tombstone.on.delete", False,
    "Whether deletes then become records without a value; otherwise they are skipped.")
KEY_AS_KEY: Final = _STREAM.flag("change.stream.document.key.as.key", True,
    "Whether a record's key is the document key; otherwise it is the resume token.")
EXPANDED_EVENTS: Final = _STREAM.flag("change.stream.show.expanded.events", False,
    "Whether to include events of other changes to collections, such as of indexes (MongoDB 6.0).")
COLLATION: Final = _STREAM.text("collation", "",
    "The collation of the pipeline, as a JSON document.", check=_COLLATION)
POLL_MAX: Final = _STREAM.number("poll.max.batch.size", 1000,
    "Maximum number of events per poll.", at_least=1)
POLL_AWAIT: Final = _STREAM.long("poll.await.time.ms", 5000,
    "How long the server waits for an event before it returns an empty batch, in milliseconds.",
    at_least=1, importance=LOW)
_TOPIC: Final = Group("Topic mapping", importance=LOW)
TOPIC_MAPPER: Final = _TOPIC.text("topic.mapper", names.TopicMapperClass.DEFAULT.value,
    "How to choose the topic of an event: `DefaultTopicMapper`, by namespace.",
    check=names.known(names.TopicMapperClass), importance=HIGH)
TOPIC_SEPARATOR: Final = _TOPIC.text("topic.separator", ".",
    "Separator between the parts of a topic name.")
TOPIC_PREFIX: Final = _TOPIC.text("topic.prefix", "", "The first part of topic names.")
TOPIC_SUFFIX: Final = _TOPIC.text("topic.suffix", "", "The last part of topic names.")
TOPIC_MAP: Final = _TOPIC.text("topic.namespace.map", "",
    'Topics by namespace, as a JSON document: `{"shop.orders": "orders", "shop": "s", "/re.*": '
    '"x-{db}{sep_coll}", "*": "other"}`.', check=_MAP, importance=HIGH)
_FORMATS: Final = ("json", "bson", "schema")
_SCHEMA: Final = Group("Schema", importance=HIGH)
KEY_FORMAT: Final = _SCHEMA.choice("output.format.key", "json", _FORMATS,
    "The format of keys: JSON strings, BSON or structs.", ignore_case=True, offers=_FORMATS)
VALUE_FORMAT: Final = _SCHEMA.choice("output.format.value", "json", _FORMATS,
    "The format of values: JSON strings, BSON or structs.", ignore_case=True, offers=_FORMATS)
INFER: Final = _SCHEMA.flag("output.schema.infer.value", False,
    "Whether to infer the schema of structs from their document, instead of using "
    "`output.schema.value`.", importance=MEDIUM)
KEY_SCHEMA: Final = _SCHEMA.text("output.schema.key", DEFAULT_KEY_SCHEMA,
    "The Avro schema of struct keys.", check=_AVRO)
VALUE_SCHEMA: Final = _SCHEMA.text("output.schema.value", DEFAULT_VALUE_SCHEMA,
    "The Avro schema of struct values.", check=_AVRO)
JSON_FORMATTER: Final = _SCHEMA.text("output.json.formatter", names.JsonFormatter.DEFAULT.value,
    "How BSON types are written in JSON: `DefaultJson`, `ExtendedJson` or `SimplifiedJson`.",
    check=names.known(names.JsonFormatter), importance=MEDIUM)
LATEST: Final = "latest"
TIMESTAMP: Final = "timestamp"
COPY_EXISTING: Final = "copy_existing"
_MODES: Final = (LATEST, TIMESTAMP, COPY_EXISTING)
_STARTUP: Final = Group("Startup")
STARTUP_MODE: Final = _STARTUP.choice(
    "startup.mode", "", ("", *_MODES),
    "Where a connector without an offset begins: at the newest event, at a time, or with all "
    "existing documents.", ignore_case=True, offers=_MODES)
START_AT: Final = _STARTUP.text("startup.mode.timestamp.start.at.operation.time", "",
    "That time: seconds since 1970, ISO 8601 or a BSON timestamp as Extended JSON.",
    check=checking("a time", lambda value: _problem(value, moment_of)))
_NEW: Final = "startup.mode.copy.existing."
_OLD: Final = "copy.existing."


def _copy_keys(prefix: str) -> dict[str, Key[Any]]:
    """The settings of the copy under one of the prefixes, by their names without it."""
    def doc(name: str, text: str) -> str:
        return text if prefix == _NEW else f"Old name of `{_NEW}{name}`."

    keys = (
        _STARTUP.number(f"{prefix}max.threads", None, doc("max.threads",
            "Ignored: collections are read in parallel on the shared slots."), at_least=1),
        _STARTUP.number(f"{prefix}queue.size", 16000, doc("queue.size",
            "Ignored: there is no queue."), at_least=1),
        _STARTUP.text(f"{prefix}pipeline", "", doc("pipeline",
            "Pipeline stages for documents before they are copied."), check=_DOCUMENTS),
        _STARTUP.text(f"{prefix}namespace.regex", "", doc("namespace.regex",
            "The collections to copy: a regular expression searched in `database.collection`."),
            check=_PATTERN),
        _STARTUP.flag(f"{prefix}allow.disk.use", True, doc("allow.disk.use",
            "Whether the server may use the disk for copying.")),
    )
    return {key.name.removeprefix(prefix): key for key in keys}


_COPY_KEYS: Final = _copy_keys(_NEW)
OLD_COPY: Final = _STARTUP.flag("copy.existing", False,
    "Old name of `startup.mode=copy_existing`.")
_OLD_COPY_KEYS: Final = _copy_keys(_OLD)
_ERRORS: Final = Group("Errors")
TOLERANCE: Final = _ERRORS.choice("mongo.errors.tolerance", "none", ("none", "all"),
    "Overrides `errors.tolerance`: whether to skip events that cannot be converted, and to "
    "continue at the newest event if the server can no longer resume at the resume token.",
    ignore_case=True)
LOG_ERRORS: Final = _ERRORS.flag("mongo.errors.log.enable", False,
    "Overrides `errors.log.enable`: whether to log skipped events.")
DEAD_LETTERS: Final = _ERRORS.text("mongo.errors.deadletterqueue.topic.name", "",
    "Overrides `errors.deadletterqueue.topic.name`: the topic for events that cannot be "
    "converted, as Extended JSON. Without it they are dropped.")
HEARTBEAT_MS: Final = _ERRORS.long("heartbeat.interval.ms", 0,
    "After how many milliseconds without events to store the resume token anyway, with a "
    "heartbeat record; 0: never.", at_least=0)
HEARTBEAT_TOPIC: Final = _ERRORS.text("heartbeat.topic.name", "__mongodb_heartbeats",
    "The topic of heartbeat records.", check=non_empty())
_PARTITION: Final = Group("Partition")
PARTITION_NAME: Final = _PARTITION.text("offset.partition.name", "",
    "Name under which offsets are stored. A new name starts over, as `startup.mode` specifies.")
# fmt: on


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if parsed.get(COLLECTION.name) and not parsed.get(DATABASE.name):
        yield COLLECTION.name, f"{COLLECTION.name} needs {DATABASE.name}"


MONGODB_SOURCE: Final = ConfigDef(
    *_CONNECTION,
    *ACCESS,
    *_STREAM,
    *_TOPIC,
    *_SCHEMA,
    *_STARTUP,
    *_ERRORS,
    *_PARTITION,
    rules=(_rule,),
)


def startup_mode(config: Any) -> str:
    """`latest`, `timestamp` or `copy_existing`."""
    mode: str = config[STARTUP_MODE].lower()
    return mode or (COPY_EXISTING if config[OLD_COPY] else LATEST)


def copy_setting(config: Any, name: str) -> Any:
    """A setting of the copy, under its new name or its old one."""
    new, old = _COPY_KEYS[name], _OLD_COPY_KEYS[name]
    return config[old] if old in config and new not in config else config[new]
