"""The parameters of writing, from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from zoneinfo import ZoneInfo

from penstock.api import ConfigInvalid
from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.drivers.products import product_of
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.settings import sink as k
from penstock.connectors.jdbc.settings.connection import DB_TIMEZONE, database_of, quotes
from penstock.connectors.jdbc.write.dialect import Dialect, ExistingTable, TableName, Write
from penstock.connectors.jdbc.write.driver import Generic
from penstock.connectors.jdbc.write.mysql import MySql
from penstock.connectors.jdbc.write.postgresql import PostgreSql
from penstock.connectors.jdbc.write.sqlite import Sqlite

KAFKA_KEYS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")


class KeyMode(Enum):
    """Where primary keys come from; the value is that of `pk.mode`."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The settings of the sink that writing needs."""

    connector: str  # its name
    write: Write
    key_mode: KeyMode
    key_fields: tuple[str, ...]
    table_of: Callable[[str], TableName]  # by topic
    whitelist: frozenset[str] = frozenset()  # empty: every field
    auto_create: bool = False
    auto_evolve: bool = False
    deletes: bool = False
    batch_rows: int | None = None  # of a statement; None: no limit
    max_retries: int = 10
    retry_backoff_ms: int = 3000
    table_types: frozenset[str] = frozenset({"TABLE"})
    defaults: bool = True  # a null becomes its field's default
    string_column: str = "record_value"
    timestamp_fields: frozenset[str] = frozenset()
    nanoseconds: bool = False  # unit of numbers in timestamp fields; else microseconds
    date_zone: ZoneInfo | None = None  # dates are those of a clock there at midnight UTC
    trims_errors: bool = False
    offsets: TableName | None = None  # of `penstock.exactly.once`

    @property
    def key_names(self) -> tuple[str, ...] | None:
        """The names of the key's columns; None: the fields of the records."""
        if self.key_mode is KeyMode.NONE:
            return ()
        if self.key_mode is KeyMode.KAFKA:
            return self.key_fields or KAFKA_KEYS
        return self.key_fields or None

    def refusal(self, table: TableName, existing: ExistingTable) -> str | None:
        """Why `table.types` forbids writing to a table; None if allowed."""
        if existing.type in self.table_types:
            return None
        allowed = ", ".join(sorted(self.table_types))
        return f"Table {table} is of type {existing.type}, but table.types allows only {allowed}"


DIALECTS: Final[Mapping[Kind, type[Dialect]]] = {
    Kind.POSTGRESQL: PostgreSql,
    Kind.MYSQL: MySql,
    Kind.SQLITE: Sqlite,
}


def dialect_of(config: Config) -> Dialect:
    """The dialect of a configuration's database."""
    url, db_zone = database_of(config).url, zone(config[DB_TIMEZONE])
    if url.kind is Kind.OTHER:
        return Generic(
            db_zone, product_of(url), quoting=quotes(config), holds_lock=config[k.MERGE_HOLDLOCK]
        )
    return DIALECTS[url.kind](db_zone, quoting=quotes(config))


def settings_of(config: Config, connector: str = "") -> WriteSettings:
    """The parameters of writing for a configuration and the name of its connector."""
    write = config[k.INSERT_MODE].lower()
    key_mode = KeyMode(config[k.PK_MODE].lower())
    return WriteSettings(
        connector=connector,
        write=Write("insert" if write == "multi" else write),
        key_mode=key_mode,
        key_fields=config[k.PK_FIELDS],
        table_of=_Tables(config),
        whitelist=frozenset(config[k.FIELDS_WHITELIST]),
        auto_create=config[k.AUTO_CREATE],
        auto_evolve=config[k.AUTO_EVOLVE],
        deletes=config[k.DELETE_ENABLED],
        batch_rows=config[k.BATCH_SIZE] or 1 if k.BATCH_SIZE in config else None,
        max_retries=config[k.MAX_RETRIES],
        retry_backoff_ms=config[k.RETRY_BACKOFF_MS],
        table_types=frozenset(kind.upper() for kind in config[k.TABLE_TYPES]),
        defaults=config[k.REPLACE_NULL],
        string_column=config[k.STRING_COLUMN],
        timestamp_fields=frozenset(config[k.TIMESTAMP_FIELDS_LIST]),
        nanoseconds=config[k.TIMESTAMP_PRECISION_MODE].lower() == "nanoseconds",
        date_zone=_date_zone(config),
        trims_errors=config[k.TRIM_SENSITIVE_LOG],
        offsets=TableName.parse(config[k.OFFSETS_TABLE]) if config[k.EXACTLY_ONCE] else None,
    )


def _date_zone(config: Config) -> ZoneInfo | None:
    if config[k.DATE_TIMEZONE].upper() == "UTC":
        return None
    db_zone = zone(config[DB_TIMEZONE])
    return None if db_zone.key == "UTC" else db_zone


class _Tables:
    """Maps topics to tables; a new instance for the same configuration maps them alike."""

    def __init__(self, config: Config) -> None:
        self._format = config[k.TABLE_NAME_FORMAT]
        self._normalizes = config[k.TABLE_NAME_NORMALIZE]
        pairs = (entry.partition(":") for entry in config[k.TOPICS_TO_TABLES])
        self._mapped = {topic: table for topic, _, table in pairs}
        self._replaces = config[k.INSERT_MODE].lower() != "insert" or config[k.DELETE_ENABLED]
        self._known: dict[str, TableName] = {}
        self._normalized: dict[str, str] = {}  # the names before, by those after

    def __call__(self, topic: str) -> TableName:
        table = self._known.get(topic)
        if table is None:
            table = self._known[topic] = self._table(topic)
        return table

    def _table(self, topic: str) -> TableName:
        if topic in self._mapped:
            return TableName.parse(self._mapped[topic])
        text = self._format.replace("${topic}", topic)
        if not self._normalizes:
            return TableName.parse(text)
        normal = "".join(c if c.isalnum() or c in "_." else "_" for c in text)
        other = self._normalized.setdefault(normal, text)
        if other != text and self._replaces:
            raise ConfigInvalid(
                [
                    f"With {k.TABLE_NAME_NORMALIZE.name}=true the tables '{other}' and '{text}' of "
                    f"two topics are both '{normal}', and rows with the same key would replace "
                    f"each other. Map one of the topics to another table with "
                    f"{k.TOPICS_TO_TABLES.name}."
                ]
            )
        return TableName.parse(normal)
