"""The settings of the MongoDB sink (connectors.md §6.2), under the names of MongoDB's connector.

Settings of topics can be set for a single topic: `topic.override.⟨topic⟩.⟨setting⟩`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    ConfigDef,
    Group,
    Key,
    RegexInvalid,
    checking,
    compile_java,
)
from penstock.connectors.mongodb.settings import names
from penstock.connectors.mongodb.settings.connection import (
    ACCESS,
    ENCRYPTION,
    uri_key,
)
from penstock.connectors.mongodb.text.shell import TextInvalid, parse_documents

# fmt: off
_CONNECTION: Final = Group("Connection", first=3)
CONNECTION_URI: Final = uri_key(_CONNECTION, "mongodb://localhost:27017")
OVERRIDE_PREFIX: Final = "topic.override."


def _set_directly(value: str | None) -> str | None:
    if not value:
        return None
    return "This is a placeholder for topic.override.⟨topic⟩.⟨setting⟩ and cannot be set"


_OVERRIDES: Final = Group("Overrides")
TOPIC_OVERRIDE: Final = _OVERRIDES.text(f"{OVERRIDE_PREFIX}%s.%s", "",
    "`topic.override.⟨topic⟩.⟨setting⟩` sets a setting for one topic: any except "
    "`connection.uri`, `topics` and TLS settings.", check=checking("empty", _set_directly),
    importance=LOW)


_NAMESPACE: Final = Group("Namespace", importance=HIGH)
DATABASE: Final = _NAMESPACE.text("database", REQUIRED, "The database to write to.")
COLLECTION: Final = _NAMESPACE.text("collection", "",
    "The collection to write to. Empty: the topic name.")
_MAPPING: Final = Group("Namespace mapping", importance=HIGH)
NAMESPACE_MAPPER: Final = _MAPPING.text("namespace.mapper", names.NamespaceMapper.DEFAULT.value,
    "How to choose a record's database and collection: `DefaultNamespaceMapper` (`database` and "
    "`collection`) or `FieldPathNamespaceMapper` (fields of the record; the default if a field "
    "is missing).", check=names.known(names.NamespaceMapper))


KEY_DATABASE_FIELD: Final = _MAPPING.text("namespace.mapper.key.database.field", "",
    "Path of the key field with the name of the database, for `FieldPathNamespaceMapper`.")
KEY_COLLECTION_FIELD: Final = _MAPPING.text("namespace.mapper.key.collection.field", "",
    "Path of the key field with the name of the collection, for `FieldPathNamespaceMapper`.")
VALUE_DATABASE_FIELD: Final = _MAPPING.text("namespace.mapper.value.database.field", "",
    "Path of the value field with the name of the database, for `FieldPathNamespaceMapper`.")
VALUE_COLLECTION_FIELD: Final = _MAPPING.text("namespace.mapper.value.collection.field", "",
    "Path of the value field with the name of the collection, for `FieldPathNamespaceMapper`.")
MAPPER_ERROR: Final = _MAPPING.flag("namespace.mapper.error.if.invalid", False,
    "Whether to refuse a record if the field is missing or not a string.")
_WRITES: Final = Group("Writes", importance=LOW)
DELETE_ON_NULL: Final = _WRITES.flag("delete.on.null.values", False,
    "Whether a record without a value deletes the document with its key. If not, such a record "
    "is refused.", importance=MEDIUM)
WRITE_STRATEGY: Final = _WRITES.text("writemodel.strategy", names.WriteStrategy.DEFAULT.value,
    "How to write documents: replace or insert by `_id` (the default; time series are inserted), "
    "by a business key, update, with timestamps, or delete.",
    check=names.known(names.WriteStrategy))
DELETE_STRATEGY: Final = _WRITES.text(
    "delete.writemodel.strategy", names.WriteStrategy.DELETE_ONE.value,
    "How `delete.on.null.values` deletes.", check=names.known(names.WriteStrategy))
MAX_BATCH: Final = _WRITES.number("max.batch.size", 0,
    "Maximum number of records per bulk write; 0: no limit.", at_least=0, importance=MEDIUM)
ORDERED: Final = _WRITES.flag("bulk.write.ordered", True,
    "Whether the server performs the writes of a bulk in order. If not, the last of several "
    "writes to one document still wins.", importance=MEDIUM)
RATE_TIMEOUT: Final = _WRITES.number("rate.limiting.timeout", 0,
    "How many milliseconds to wait after every `rate.limiting.every.n` bulk writes.", at_least=0)
RATE_EVERY: Final = _WRITES.number("rate.limiting.every.n", 0,
    "After how many bulk writes to wait; 0: never.", at_least=0)
_PROCESSING: Final = Group("Post Processing", importance=LOW)
PROCESSORS: Final = _PROCESSING.listing(
    "post.processor.chain", (names.Processor.DOCUMENT_ID_ADDER.value,),
    "The steps that change documents before they are written, in order. `DocumentIdAdder` comes "
    "first unless it is listed.", check=names.all_known(names.Processor))

_PROJECTIONS: Final = ("none", "blacklist", "whitelist", "allowlist", "blocklist")


KEY_PROJECTION_TYPE: Final = _PROCESSING.choice(
    "key.projection.type", "none", _PROJECTIONS,
    "Whether to keep (AllowList) or remove (BlockList) the listed fields of the key.",
    ignore_case=True, offers=_PROJECTIONS)
KEY_PROJECTION_LIST: Final = _PROCESSING.text("key.projection.list", "",
    "Fields of the key, with dots for nested ones; `*` matches one name, `**` any number of "
    "nested names.")
VALUE_PROJECTION_TYPE: Final = _PROCESSING.choice(
    "value.projection.type", "none", _PROJECTIONS,
    "Whether to keep (AllowList) or remove (BlockList) the listed fields of the value.",
    ignore_case=True, offers=_PROJECTIONS)
VALUE_PROJECTION_LIST: Final = _PROCESSING.text("value.projection.list", "",
    "Fields of the value, with dots for nested ones; `*` matches one name, `**` any number of "
    "nested names.")


def _bad_mapping(value: str | None) -> str | None:
    try:
        documents = parse_documents(value or "")
    except TextInvalid as error:
        return f"Not a valid JSON array: {error}"
    for entry in documents:
        if not isinstance(entry.get("oldName"), str) or not isinstance(entry.get("newName"), str):
            return "Both oldName and newName must be mapped"
    return None


def _bad_renaming(value: str | None) -> str | None:
    try:
        documents = parse_documents(value or "")
    except TextInvalid as error:
        return f"Not a valid JSON array: {error}"
    for entry in documents:
        for name in ("regexp", "pattern", "replace"):
            if not isinstance(entry.get(name), str):
                return f"Every entry needs regexp, pattern and replace; {name} is missing"
        for name in ("regexp", "pattern"):
            try:
                compile_java(entry[name])
            except RegexInvalid as error:
                return f"Invalid regex '{entry[name]}': {error}"
    return None


RENAMER_MAPPING: Final = _PROCESSING.text("field.renamer.mapping", "[]",
    'New names of fields, for `RenameByMapping`: `[{"oldName": "value.a", "newName": "b"}]`. '
    "Paths begin with `key` or `value`.", check=checking("a JSON array", _bad_mapping))
RENAMER_REGEXP: Final = _PROCESSING.text("field.renamer.regexp", "[]",
    "Patterns of `RenameByRegExp`: in names of fields whose path matches `regexp`, `pattern` is "
    'replaced: `[{"regexp": "^value\\\\..*$", "pattern": "a", "replace": "b"}]`.',
    check=checking("a JSON array", _bad_renaming))
TRANSFORMER: Final = _PROCESSING.refused("field.value.transformer", "",
    "The transformer: not supported, because it is a JVM class; use a transform instead.",
    "The transformer is a JVM class, which is not supported; use a transform instead")
_IDS: Final = Group("Id Strategies", importance=LOW)
ID_STRATEGY: Final = _IDS.text("document.id.strategy", names.IdStrategy.BSON_OID.value,
    "How to generate `_id`: a new ObjectId or UUID, the key or value or some of their fields, or "
    "topic, partition and offset.", check=names.known(names.IdStrategy), importance=HIGH)
ID_OVERWRITE: Final = _IDS.flag("document.id.strategy.overwrite.existing", False,
    "Whether to set `_id` even if the document has one.", importance=HIGH)
UUID_FORMAT: Final = _IDS.choice("document.id.strategy.uuid.format", "string", ("string", "binary"),
    "Whether `UuidStrategy` generates strings or binary BSON UUIDs.", ignore_case=True,
    importance=HIGH)
ID_KEY_TYPE: Final = _IDS.choice(
    "document.id.strategy.partial.key.projection.type", "", ("", *_PROJECTIONS),
    "Whether to keep (AllowList) or remove (BlockList) the listed fields of the key.",
    ignore_case=True, offers=_PROJECTIONS)
ID_KEY_LIST: Final = _IDS.text("document.id.strategy.partial.key.projection.list", "",
    "Fields of the key, with dots for nested ones; `*` matches one name, `**` any number of "
    "nested names.")
ID_VALUE_TYPE: Final = _IDS.choice(
    "document.id.strategy.partial.value.projection.type", "", ("", *_PROJECTIONS),
    "Whether to keep (AllowList) or remove (BlockList) the listed fields of the value.",
    ignore_case=True, offers=_PROJECTIONS)
ID_VALUE_LIST: Final = _IDS.text("document.id.strategy.partial.value.projection.list", "",
    "Fields of the value, with dots for nested ones; `*` matches one name, `**` any number of "
    "nested names.")
_ERRORS: Final = Group("Errors")
TOLERANCE: Final = _ERRORS.choice("mongo.errors.tolerance", "none", ("none", "data", "all"),
    "Overrides `errors.tolerance` for records that cannot be converted or written: `none` fails "
    "the task, `all` and `data` skip the record. An unreachable server is always waited for.",
    ignore_case=True)
LOG_ERRORS: Final = _ERRORS.flag("mongo.errors.log.enable", False,
    "Overrides `errors.log.enable`: whether to log skipped records.")
_CDC: Final = Group("Change Data Capture", importance=LOW)
CDC_HANDLER: Final = _CDC.text("change.data.capture.handler", "",
    "How to convert change events (of Debezium, Qlik or MongoDB) to writes. The settings of ids, "
    "processors and strategies are then ignored.", check=names.known(names.CdcHandler, empty=True))
CDC_REMOVE_NULLS: Final = _CDC.flag("change.data.capture.handler.remove.null.values", False,
    "Whether to omit null fields from the handler's writes.")
_SERIES: Final = Group("Time series", importance=LOW)
TIME_FIELD: Final = _SERIES.text("timeseries.timefield", "",
    "The field with the time of a time series collection, which is created if it does not exist.")
META_FIELD: Final = _SERIES.text("timeseries.metafield", "", "The field that identifies a series.")
EXPIRE_AFTER: Final = _SERIES.long("timeseries.expire.after.seconds", 0,
    "After how many seconds the server deletes data; 0: never.", at_least=0)
GRANULARITY: Final = _SERIES.choice(
    "timeseries.granularity", "", ("", "seconds", "minutes", "hours"),
    "The interval between the measurements of a series.", ignore_case=True)
TIME_CONVERT: Final = _SERIES.flag("timeseries.timefield.auto.convert", False,
    "Whether to convert numbers (milliseconds) and strings in that field to dates.")
ISO_PATTERN: Final = (
    "yyyy-MM-dd[['T'][ ]][HH:mm:ss[[.][SSSSSS][SSS]][ ]VV[ ]'['VV']']"
    "[HH:mm:ss[[.][SSSSSS][SSS]][ ]X][HH:mm:ss[[.][SSSSSS][SSS]]]"
)


def _bad_pattern(value: str | None) -> str | None:
    if value == ISO_PATTERN:
        return None
    return "Only the default pattern is supported, which parses ISO 8601"


TIME_FORMAT: Final = _SERIES.text("timeseries.timefield.auto.convert.date.format", ISO_PATTERN,
    "The pattern of such strings; only ISO 8601 is supported.",
    check=checking("the default", _bad_pattern))
TIME_LOCALE: Final = _SERIES.ignored("timeseries.timefield.auto.convert.locale.language.tag", "",
    "the default pattern has no words")
# fmt: on

_MAPPER_FIELDS: Final = (
    (KEY_DATABASE_FIELD, VALUE_DATABASE_FIELD),
    (KEY_COLLECTION_FIELD, VALUE_COLLECTION_FIELD),
)
_DELETABLE: Final = (
    names.IdStrategy.FULL_KEY,
    names.IdStrategy.PARTIAL_KEY,
    names.IdStrategy.PROVIDED_IN_KEY,
)
_PARTIAL: Final = {
    names.IdStrategy.PARTIAL_KEY: (ID_KEY_TYPE, KEY_PROJECTION_TYPE),
    names.IdStrategy.PARTIAL_VALUE: (ID_VALUE_TYPE, VALUE_PROJECTION_TYPE),
}


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Settings of a topic that depend on each other."""

    def text(key: Key[str]) -> str:
        value = parsed.get(key.name)
        return value.strip() if isinstance(value, str) else ""

    def strategy(key: Key[str], kind: type[names.K]) -> names.K | None:
        try:
            return names.named(kind, text(key))
        except KeyError:
            return None

    if strategy(NAMESPACE_MAPPER, names.NamespaceMapper) is names.NamespaceMapper.FIELD_PATH:
        if not any(text(key) for pair in _MAPPER_FIELDS for key in pair):
            yield (
                NAMESPACE_MAPPER.name,
                f"{NAMESPACE_MAPPER.name} needs a field path: set one of "
                + ", ".join(key.name for pair in _MAPPER_FIELDS for key in pair),
            )
        for one, other in _MAPPER_FIELDS:
            if text(one) and text(other):
                yield one.name, f"Cannot set both: '{one.name}' and '{other.name}'"
    ids = strategy(ID_STRATEGY, names.IdStrategy)
    partial = _PARTIAL.get(ids) if ids is not None else None
    if partial is not None:
        own, common = partial
        if (text(own) or text(common)).lower() in ("none", ""):
            yield (
                ID_STRATEGY.name,
                f"{text(ID_STRATEGY)} needs {own.name} or {common.name}: AllowList or BlockList",
            )
    if parsed.get(DELETE_ON_NULL.name) is True and not text(CDC_HANDLER):
        deletes = strategy(DELETE_STRATEGY, names.WriteStrategy)
        if deletes is names.WriteStrategy.DELETE_ONE and ids not in _DELETABLE:
            yield (
                DELETE_ON_NULL.name,
                f"{DELETE_ON_NULL.name} needs keys as document ids: set {ID_STRATEGY.name} to one "
                f"of {', '.join(choice.value for choice in _DELETABLE)}",
            )
        tombstones = names.WriteStrategy.DELETE_ONE_TOMBSTONE_BUSINESS_KEY
        if deletes is tombstones and ids is not names.IdStrategy.PARTIAL_KEY:
            yield (
                DELETE_STRATEGY.name,
                f"{tombstones.value} needs {ID_STRATEGY.name}={names.IdStrategy.PARTIAL_KEY.value}",
            )
    if not text(TIME_FIELD):
        for key in (META_FIELD, EXPIRE_AFTER, GRANULARITY):
            if parsed.get(key.name):
                yield key.name, f"Missing timeseries configuration: `{TIME_FIELD.name}`"


TOPIC_KEYS: Final = (
    *(*_NAMESPACE, *_MAPPING, *_WRITES, *_PROCESSING),
    *(*_IDS, *_ERRORS, *_CDC, *_SERIES),
)
TOPIC: Final = ConfigDef(*TOPIC_KEYS, rules=(_rule,))

MONGODB_SINK: Final = ConfigDef(
    CONNECTION_URI,
    *ACCESS,
    ENCRYPTION,
    TOPIC_OVERRIDE,
    *TOPIC_KEYS,
    rules=(_rule,),
)
