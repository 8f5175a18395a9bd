"""The settings of the MongoDB sink (connectors.md §6.2), under the names of MongoDB's connector.

Settings of topics can be set for a single topic: `topic.override.⟨topic⟩.⟨setting⟩`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    REQUIRED,
    STRING,
    Choices,
    ConfigDef,
    Key,
    RegexInvalid,
    at_least,
    checking,
    compile_java,
    one_of,
)
from penstock.connectors.mongodb.settings import names
from penstock.connectors.mongodb.settings.connection import (
    ACCESS,
    false_only,
    jvm_only,
    uri_key,
)
from penstock.connectors.mongodb.text.shell import TextInvalid, parse_documents

CONNECTION_URI: Final = uri_key("mongodb://localhost:27017")
OVERRIDE_PREFIX: Final = "topic.override."


def _set_directly(value: str | None) -> str | None:
    if not value:
        return None
    return "This is a placeholder for topic.override.⟨topic⟩.⟨setting⟩ and cannot be set"


TOPIC_OVERRIDE: Final = Key(
    f"{OVERRIDE_PREFIX}%s.%s",
    STRING,
    default="",
    importance=LOW,
    check=checking("empty", _set_directly),
    doc="`topic.override.⟨topic⟩.⟨setting⟩` sets a setting for one topic: any except "
    "`connection.uri`, `topics` and TLS settings.",
    group="Overrides",
    order=1,
)

_NAMESPACE: Final = "Namespace"
_MAPPING: Final = "Namespace mapping"
_WRITES: Final = "Writes"
_PROCESSING: Final = "Post Processing"
_IDS: Final = "Id Strategies"
_ERRORS: Final = "Errors"
_CDC: Final = "Change Data Capture"
_SERIES: Final = "Time series"

DATABASE: Final = Key(
    "database",
    STRING,
    default=REQUIRED,
    importance=HIGH,
    doc="The database to write to.",
    group=_NAMESPACE,
    order=1,
)
COLLECTION: Final = Key(
    "collection",
    STRING,
    default="",
    importance=HIGH,
    doc="The collection to write to. Empty: the topic name.",
    group=_NAMESPACE,
    order=2,
)
NAMESPACE_MAPPER: Final = Key(
    "namespace.mapper",
    STRING,
    default=names.NamespaceMapper.DEFAULT.value,
    importance=HIGH,
    check=names.known(names.NamespaceMapper),
    doc="How to choose a record's database and collection: `DefaultNamespaceMapper` (`database` "
    "and `collection`) or `FieldPathNamespaceMapper` (fields of the record; the default if a field "
    "is missing).",
    group=_MAPPING,
    order=1,
)


def _path(name: str, part: str, target: str, order: int) -> Key[str]:
    return Key(
        name,
        STRING,
        default="",
        importance=HIGH,
        doc=f"Path of the {part} field with the name of the {target}, for "
        "`FieldPathNamespaceMapper`.",
        group=_MAPPING,
        order=order,
    )


KEY_DATABASE_FIELD: Final = _path("namespace.mapper.key.database.field", "key", "database", 2)
KEY_COLLECTION_FIELD: Final = _path("namespace.mapper.key.collection.field", "key", "collection", 3)
VALUE_DATABASE_FIELD: Final = _path("namespace.mapper.value.database.field", "value", "database", 4)
VALUE_COLLECTION_FIELD: Final = _path(
    "namespace.mapper.value.collection.field", "value", "collection", 5
)
MAPPER_ERROR: Final = Key(
    "namespace.mapper.error.if.invalid",
    BOOLEAN,
    default=False,
    importance=HIGH,
    doc="Whether to refuse a record if the field is missing or not a string.",
    group=_MAPPING,
    order=6,
)
DELETE_ON_NULL: Final = Key(
    "delete.on.null.values",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether a record without a value deletes the document with its key. If not, such a record "
    "is refused.",
    group=_WRITES,
    order=1,
)
WRITE_STRATEGY: Final = Key(
    "writemodel.strategy",
    STRING,
    default=names.WriteStrategy.DEFAULT.value,
    importance=LOW,
    check=names.known(names.WriteStrategy),
    doc="How to write documents: replace or insert by `_id` (the default; time series are "
    "inserted), by a business key, update, with timestamps, or delete.",
    group=_WRITES,
    order=2,
)
DELETE_STRATEGY: Final = Key(
    "delete.writemodel.strategy",
    STRING,
    default=names.WriteStrategy.DELETE_ONE.value,
    importance=LOW,
    check=names.known(names.WriteStrategy),
    doc="How `delete.on.null.values` deletes.",
    group=_WRITES,
    order=3,
)
MAX_BATCH: Final = Key(
    "max.batch.size",
    INT,
    default=0,
    importance=MEDIUM,
    check=at_least(0),
    doc="Maximum number of records per bulk write; 0: no limit.",
    group=_WRITES,
    order=4,
)
ORDERED: Final = Key(
    "bulk.write.ordered",
    BOOLEAN,
    default=True,
    importance=MEDIUM,
    doc="Whether the server performs the writes of a bulk in order. If not, the last of several "
    "writes to one document still wins.",
    group=_WRITES,
    order=5,
)
RATE_TIMEOUT: Final = Key(
    "rate.limiting.timeout",
    INT,
    default=0,
    importance=LOW,
    check=at_least(0),
    doc="How many milliseconds to wait after every `rate.limiting.every.n` bulk writes.",
    group=_WRITES,
    order=6,
)
RATE_EVERY: Final = Key(
    "rate.limiting.every.n",
    INT,
    default=0,
    importance=LOW,
    check=at_least(0),
    doc="After how many bulk writes to wait; 0: never.",
    group=_WRITES,
    order=7,
)
PROCESSORS: Final[Key[tuple[str, ...]]] = Key(
    "post.processor.chain",
    LIST,
    default=(names.Processor.DOCUMENT_ID_ADDER.value,),
    importance=LOW,
    check=names.all_known(names.Processor),
    doc="The steps that change documents before they are written, in order. `DocumentIdAdder` "
    "comes first unless it is listed.",
    group=_PROCESSING,
    order=1,
)

_PROJECTIONS: Final = ("none", "blacklist", "whitelist", "allowlist", "blocklist")


def _projection_type(
    name: str, part: str, group: str, order: int, *, empty: bool = False
) -> Key[str]:
    return Key(
        name,
        STRING,
        default="" if empty else "none",
        importance=LOW,
        check=one_of(*(("",) if empty else ()), *_PROJECTIONS, ignore_case=True),
        doc=f"Whether to keep (AllowList) or remove (BlockList) the listed fields of the {part}.",
        group=group,
        order=order,
        recommender=Choices(_PROJECTIONS),
    )


def _projection_list(name: str, part: str, group: str, order: int) -> Key[str]:
    return Key(
        name,
        STRING,
        default="",
        importance=LOW,
        doc=f"Fields of the {part}, with dots for nested ones; `*` matches one name, `**` any "
        "number of nested names.",
        group=group,
        order=order,
    )


KEY_PROJECTION_TYPE: Final = _projection_type("key.projection.type", "key", _PROCESSING, 2)
KEY_PROJECTION_LIST: Final = _projection_list("key.projection.list", "key", _PROCESSING, 3)
VALUE_PROJECTION_TYPE: Final = _projection_type("value.projection.type", "value", _PROCESSING, 4)
VALUE_PROJECTION_LIST: Final = _projection_list("value.projection.list", "value", _PROCESSING, 5)


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


RENAMER_MAPPING: Final = Key(
    "field.renamer.mapping",
    STRING,
    default="[]",
    importance=LOW,
    check=checking("a JSON array", _bad_mapping),
    doc='New names of fields, for `RenameByMapping`: `[{"oldName": "value.a", "newName": "b"}]`. '
    "Paths begin with `key` or `value`.",
    group=_PROCESSING,
    order=6,
)
RENAMER_REGEXP: Final = Key(
    "field.renamer.regexp",
    STRING,
    default="[]",
    importance=LOW,
    check=checking("a JSON array", _bad_renaming),
    doc="Patterns of `RenameByRegExp`: in names of fields whose path matches `regexp`, `pattern` "
    'is replaced: `[{"regexp": "^value\\\\..*$", "pattern": "a", "replace": "b"}]`.',
    group=_PROCESSING,
    order=7,
)
TRANSFORMER: Final = jvm_only(
    "field.value.transformer", "The transformer", "use a transform instead", _PROCESSING
)
ID_STRATEGY: Final = Key(
    "document.id.strategy",
    STRING,
    default=names.IdStrategy.BSON_OID.value,
    importance=HIGH,
    check=names.known(names.IdStrategy),
    doc="How to generate `_id`: a new ObjectId or UUID, the key or value or some of their fields, "
    "or topic, partition and offset.",
    group=_IDS,
    order=1,
)
ID_OVERWRITE: Final = Key(
    "document.id.strategy.overwrite.existing",
    BOOLEAN,
    default=False,
    importance=HIGH,
    doc="Whether to set `_id` even if the document has one.",
    group=_IDS,
    order=2,
)
UUID_FORMAT: Final = Key(
    "document.id.strategy.uuid.format",
    STRING,
    default="string",
    importance=HIGH,
    check=one_of("string", "binary", ignore_case=True),
    doc="Whether `UuidStrategy` generates strings or binary BSON UUIDs.",
    group=_IDS,
    order=3,
)
ID_KEY_TYPE: Final = _projection_type(
    "document.id.strategy.partial.key.projection.type", "key", _IDS, 4, empty=True
)
ID_KEY_LIST: Final = _projection_list(
    "document.id.strategy.partial.key.projection.list", "key", _IDS, 5
)
ID_VALUE_TYPE: Final = _projection_type(
    "document.id.strategy.partial.value.projection.type", "value", _IDS, 6, empty=True
)
ID_VALUE_LIST: Final = _projection_list(
    "document.id.strategy.partial.value.projection.list", "value", _IDS, 7
)
TOLERANCE: Final = Key(
    "mongo.errors.tolerance",
    STRING,
    default="none",
    importance=MEDIUM,
    check=one_of("none", "data", "all", ignore_case=True),
    doc="Overrides `errors.tolerance` for records that cannot be converted or written: `none` "
    "fails the task, `all` and `data` skip the record. An unreachable server is always waited for.",
    group=_ERRORS,
    order=1,
)
LOG_ERRORS: Final = Key(
    "mongo.errors.log.enable",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Overrides `errors.log.enable`: whether to log skipped records.",
    group=_ERRORS,
    order=2,
)
CDC_HANDLER: Final = Key(
    "change.data.capture.handler",
    STRING,
    default="",
    importance=LOW,
    check=names.known(names.CdcHandler, empty=True),
    doc="How to convert change events (of Debezium, Qlik or MongoDB) to writes. The settings of "
    "ids, processors and strategies are then ignored.",
    group=_CDC,
    order=1,
)
CDC_REMOVE_NULLS: Final = Key(
    "change.data.capture.handler.remove.null.values",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to omit null fields from the handler's writes.",
    group=_CDC,
    order=2,
)
TIME_FIELD: Final = Key(
    "timeseries.timefield",
    STRING,
    default="",
    importance=LOW,
    doc="The field with the time of a time series collection, which is created if it does not "
    "exist.",
    group=_SERIES,
    order=1,
)
META_FIELD: Final = Key(
    "timeseries.metafield",
    STRING,
    default="",
    importance=LOW,
    doc="The field that identifies a series.",
    group=_SERIES,
    order=2,
)
EXPIRE_AFTER: Final = Key(
    "timeseries.expire.after.seconds",
    LONG,
    default=0,
    importance=LOW,
    check=at_least(0),
    doc="After how many seconds the server deletes data; 0: never.",
    group=_SERIES,
    order=3,
)
GRANULARITY: Final = Key(
    "timeseries.granularity",
    STRING,
    default="",
    importance=LOW,
    check=one_of("", "seconds", "minutes", "hours", ignore_case=True),
    doc="The interval between the measurements of a series.",
    group=_SERIES,
    order=4,
)
TIME_CONVERT: Final = Key(
    "timeseries.timefield.auto.convert",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to convert numbers (milliseconds) and strings in that field to dates.",
    group=_SERIES,
    order=5,
)
ISO_PATTERN: Final = (
    "yyyy-MM-dd[['T'][ ]][HH:mm:ss[[.][SSSSSS][SSS]][ ]VV[ ]'['VV']']"
    "[HH:mm:ss[[.][SSSSSS][SSS]][ ]X][HH:mm:ss[[.][SSSSSS][SSS]]]"
)


def _bad_pattern(value: str | None) -> str | None:
    if value == ISO_PATTERN:
        return None
    return "Only the default pattern is supported, which parses ISO 8601"


TIME_FORMAT: Final = Key(
    "timeseries.timefield.auto.convert.date.format",
    STRING,
    default=ISO_PATTERN,
    importance=LOW,
    check=checking("the default", _bad_pattern),
    doc="The pattern of such strings; only ISO 8601 is supported.",
    group=_SERIES,
    order=6,
)
TIME_LOCALE: Final = Key(
    "timeseries.timefield.auto.convert.locale.language.tag",
    STRING,
    default="",
    importance=LOW,
    doc="Ignored: the default pattern has no words.",
    group=_SERIES,
    order=7,
)

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


TOPIC_KEYS: Final[tuple[Key[object], ...]] = (
    DATABASE,
    COLLECTION,
    NAMESPACE_MAPPER,
    KEY_DATABASE_FIELD,
    KEY_COLLECTION_FIELD,
    VALUE_DATABASE_FIELD,
    VALUE_COLLECTION_FIELD,
    MAPPER_ERROR,
    DELETE_ON_NULL,
    WRITE_STRATEGY,
    DELETE_STRATEGY,
    MAX_BATCH,
    ORDERED,
    RATE_TIMEOUT,
    RATE_EVERY,
    PROCESSORS,
    KEY_PROJECTION_TYPE,
    KEY_PROJECTION_LIST,
    VALUE_PROJECTION_TYPE,
    VALUE_PROJECTION_LIST,
    RENAMER_MAPPING,
    RENAMER_REGEXP,
    TRANSFORMER,
    ID_STRATEGY,
    ID_OVERWRITE,
    UUID_FORMAT,
    ID_KEY_TYPE,
    ID_KEY_LIST,
    ID_VALUE_TYPE,
    ID_VALUE_LIST,
    TOLERANCE,
    LOG_ERRORS,
    CDC_HANDLER,
    CDC_REMOVE_NULLS,
    TIME_FIELD,
    META_FIELD,
    EXPIRE_AFTER,
    GRANULARITY,
    TIME_CONVERT,
    TIME_FORMAT,
    TIME_LOCALE,
)
TOPIC: Final = ConfigDef(*TOPIC_KEYS, rules=(_rule,))

MONGODB_SINK: Final = ConfigDef(
    CONNECTION_URI,
    *ACCESS,
    false_only("csfle.enabled", "Client-side field level encryption"),
    TOPIC_OVERRIDE,
    *TOPIC_KEYS,
    rules=(_rule,),
)
