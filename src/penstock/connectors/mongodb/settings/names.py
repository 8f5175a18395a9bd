"""The classes of the JVM's connector that settings name, as enumerations.

Settings hold full class names; the last part of one is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar

from penstock.api.settings import Check, checking

K = TypeVar("K", bound=Enum)

_SINK: Final = "com.mongodb.kafka.connect.sink"
_SOURCE: Final = "com.mongodb.kafka.connect.source"


class IdStrategy(Enum):
    """The origin of a document's `_id`."""

    BSON_OID = f"{_SINK}.processor.id.strategy.BsonOidStrategy"
    FULL_KEY = f"{_SINK}.processor.id.strategy.FullKeyStrategy"
    KAFKA_META_DATA = f"{_SINK}.processor.id.strategy.KafkaMetaDataStrategy"
    PARTIAL_KEY = f"{_SINK}.processor.id.strategy.PartialKeyStrategy"
    PARTIAL_VALUE = f"{_SINK}.processor.id.strategy.PartialValueStrategy"
    PROVIDED_IN_KEY = f"{_SINK}.processor.id.strategy.ProvidedInKeyStrategy"
    PROVIDED_IN_VALUE = f"{_SINK}.processor.id.strategy.ProvidedInValueStrategy"
    UUID = f"{_SINK}.processor.id.strategy.UuidStrategy"
    UUID_PROVIDED_IN_KEY = f"{_SINK}.processor.id.strategy.UuidProvidedInKeyStrategy"
    UUID_PROVIDED_IN_VALUE = f"{_SINK}.processor.id.strategy.UuidProvidedInValueStrategy"


class WriteStrategy(Enum):
    """How a document is written, or deleted."""

    DEFAULT = f"{_SINK}.writemodel.strategy.DefaultWriteModelStrategy"
    INSERT_ONE = f"{_SINK}.writemodel.strategy.InsertOneDefaultStrategy"
    REPLACE_ONE = f"{_SINK}.writemodel.strategy.ReplaceOneDefaultStrategy"
    REPLACE_ONE_BUSINESS_KEY = f"{_SINK}.writemodel.strategy.ReplaceOneBusinessKeyStrategy"
    UPDATE_ONE = f"{_SINK}.writemodel.strategy.UpdateOneDefaultStrategy"
    UPDATE_ONE_TIMESTAMPS = f"{_SINK}.writemodel.strategy.UpdateOneTimestampsStrategy"
    UPDATE_ONE_BUSINESS_KEY_TIMESTAMP = (
        f"{_SINK}.writemodel.strategy.UpdateOneBusinessKeyTimestampStrategy"
    )
    DELETE_ONE = f"{_SINK}.writemodel.strategy.DeleteOneDefaultStrategy"
    DELETE_ONE_BUSINESS_KEY = f"{_SINK}.writemodel.strategy.DeleteOneBusinessKeyStrategy"
    DELETE_ONE_TOMBSTONE_BUSINESS_KEY = (
        f"{_SINK}.writemodel.strategy.DeleteOneTombstoneBusinessKeyStrategy"
    )


class Processor(Enum):
    """A step that changes documents before they are written."""

    DOCUMENT_ID_ADDER = f"{_SINK}.processor.DocumentIdAdder"
    KAFKA_META_ADDER = f"{_SINK}.processor.KafkaMetaAdder"
    ALLOW_LIST_KEY = f"{_SINK}.processor.AllowListKeyProjector"
    ALLOW_LIST_VALUE = f"{_SINK}.processor.AllowListValueProjector"
    BLOCK_LIST_KEY = f"{_SINK}.processor.BlockListKeyProjector"
    BLOCK_LIST_VALUE = f"{_SINK}.processor.BlockListValueProjector"
    WHITELIST_KEY = f"{_SINK}.processor.WhitelistKeyProjector"
    WHITELIST_VALUE = f"{_SINK}.processor.WhitelistValueProjector"
    BLACKLIST_KEY = f"{_SINK}.processor.BlacklistKeyProjector"
    BLACKLIST_VALUE = f"{_SINK}.processor.BlacklistValueProjector"
    RENAME_BY_MAPPING = f"{_SINK}.processor.field.renaming.RenameByMapping"
    RENAME_BY_REG_EXP = f"{_SINK}.processor.field.renaming.RenameByRegExp"
    NULL_FIELD_VALUE_REMOVER = f"{_SINK}.processor.NullFieldValueRemover"


class CdcHandler(Enum):
    """Turns the change events of a source into writes."""

    DEBEZIUM_MONGODB = f"{_SINK}.cdc.debezium.mongodb.MongoDbHandler"
    DEBEZIUM_CHANGE_STREAM = f"{_SINK}.cdc.debezium.mongodb.ChangeStreamHandler"
    DEBEZIUM_RDBMS = f"{_SINK}.cdc.debezium.rdbms.RdbmsHandler"
    DEBEZIUM_MYSQL = f"{_SINK}.cdc.debezium.rdbms.mysql.MysqlHandler"
    DEBEZIUM_POSTGRES = f"{_SINK}.cdc.debezium.rdbms.postgres.PostgresHandler"
    CHANGE_STREAM = f"{_SINK}.cdc.mongodb.ChangeStreamHandler"
    QLIK_RDBMS = f"{_SINK}.cdc.qlik.rdbms.RdbmsHandler"


class NamespaceMapper(Enum):
    """The database and collection of a record."""

    DEFAULT = f"{_SINK}.namespace.mapping.DefaultNamespaceMapper"
    FIELD_PATH = f"{_SINK}.namespace.mapping.FieldPathNamespaceMapper"


class JsonFormatter(Enum):
    """The form of documents as JSON."""

    DEFAULT = f"{_SOURCE}.json.formatter.DefaultJson"
    EXTENDED = f"{_SOURCE}.json.formatter.ExtendedJson"
    SIMPLIFIED = f"{_SOURCE}.json.formatter.SimplifiedJson"


class TopicMapperClass(Enum):
    """The topic of a change event."""

    DEFAULT = f"{_SOURCE}.topic.mapping.DefaultTopicMapper"


def _by_name(kind: type[Enum]) -> Mapping[str, Enum]:
    full = {member.value: member for member in kind}
    names = [member.value.rpartition(".")[2] for member in kind]
    short = {
        member.value.rpartition(".")[2]: member
        for member in kind
        if names.count(member.value.rpartition(".")[2]) == 1
    }
    return {**full, **short}


def named(kind: type[K], name: str) -> K:
    """The member of a class name; raises KeyError for an unknown class."""
    return kind(_by_name(kind)[name.strip()].value)


def known(kind: type[Enum], *, empty: bool = False) -> Check:
    """Accepts one of these classes' names or, with `empty`, no value."""

    def problem(value: str | None) -> str | None:
        return _unknown(kind, (value or "").strip(), empty)

    return checking("one of the JVM connector's classes", problem)


def all_known(kind: type[Enum]) -> Check:
    """Accepts names of these classes."""

    def first_problem(value: tuple[str, ...] | None) -> str | None:
        problems = [_unknown(kind, name.strip(), False) for name in value or ()]
        return next((problem for problem in problems if problem), None)

    return checking("some of the JVM connector's classes", first_problem)


def _unknown(kind: type[Enum], name: str, empty: bool) -> str | None:
    if name in _by_name(kind) or (empty and not name):
        return None
    names = ", ".join(member.value for member in kind)
    return f"Classes other than the connector's are not supported; use {names}"
