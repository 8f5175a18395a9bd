"""The classes of the JVM's connector that settings name, and what each is here.

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
    """Where the `_id` of a document comes from."""

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
    """What turns the change events of a source into writes."""

    DEBEZIUM_MONGODB = f"{_SINK}.cdc.debezium.mongodb.MongoDbHandler"
    DEBEZIUM_CHANGE_STREAM = f"{_SINK}.cdc.debezium.mongodb.ChangeStreamHandler"
    DEBEZIUM_RDBMS = f"{_SINK}.cdc.debezium.rdbms.RdbmsHandler"
    DEBEZIUM_MYSQL = f"{_SINK}.cdc.debezium.rdbms.mysql.MysqlHandler"
    DEBEZIUM_POSTGRES = f"{_SINK}.cdc.debezium.rdbms.postgres.PostgresHandler"
    CHANGE_STREAM = f"{_SINK}.cdc.mongodb.ChangeStreamHandler"
    QLIK_RDBMS = f"{_SINK}.cdc.qlik.rdbms.RdbmsHandler"


class NamespaceMapper(Enum):
    """Which database and collection a record goes to."""

    DEFAULT = f"{_SINK}.namespace.mapping.DefaultNamespaceMapper"
    FIELD_PATH = f"{_SINK}.namespace.mapping.FieldPathNamespaceMapper"


class JsonFormatter(Enum):
    """How documents are written as JSON."""

    DEFAULT = f"{_SOURCE}.json.formatter.DefaultJson"
    EXTENDED = f"{_SOURCE}.json.formatter.ExtendedJson"
    SIMPLIFIED = f"{_SOURCE}.json.formatter.SimplifiedJson"


class TopicMapper(Enum):
    """Which topic a change event goes to."""

    DEFAULT = f"{_SOURCE}.topic.mapping.DefaultTopicMapper"


def _by_name(kind: type[Enum]) -> Mapping[str, Enum]:
    full = {each.value: each for each in kind}
    names = [each.value.rpartition(".")[2] for each in kind]
    short = {
        each.value.rpartition(".")[2]: each
        for each in kind
        if names.count(each.value.rpartition(".")[2]) == 1
    }
    return {**full, **short}


def named(kind: type[K], name: str) -> K:
    """The member that a class name stands for; raises KeyError for another class."""
    return kind(_by_name(kind)[name.strip()].value)


def known(kind: type[Enum], *, empty: bool = False) -> Check:
    """The name of one of these classes; or nothing, with `empty`."""

    def find(value: str | None) -> str | None:
        return _unknown(kind, (value or "").strip(), empty)

    return checking("one of the JVM connector's classes", find)


def all_known(kind: type[Enum]) -> Check:
    """The names of such classes."""

    def find(value: tuple[str, ...] | None) -> str | None:
        problems = [_unknown(kind, each.strip(), False) for each in value or ()]
        return next((each for each in problems if each), None)

    return checking("some of the JVM connector's classes", find)


def _unknown(kind: type[Enum], name: str, empty: bool) -> str | None:
    if name in _by_name(kind) or (empty and not name):
        return None
    names = ", ".join(each.value for each in kind)
    return f"Classes of others than the connector's own do not run here; it has {names}"
