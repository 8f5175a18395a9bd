"""The JDBC sink: its settings under the names of Confluent's connector and of Aiven's, and what
they come to (reference §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api import VERSION, Finding, Plugin, Props, SinkConnector, SinkContext, SinkWriter
from penstock.api.settings import (
    Config,
)
from penstock.connectors.jdbc.dialect import Dialect, TableName, Write
from penstock.connectors.jdbc.dialect_generic import Generic
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.drivers.products import product_of
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.mysql import MySql
from penstock.connectors.jdbc.postgresql import PostgreSql
from penstock.connectors.jdbc.settings.connection import (
    DB_TIMEZONE,
    database_of,
    quotes,
)
from penstock.connectors.jdbc.settings.sink import (
    AUTO_CREATE,
    AUTO_EVOLVE,
    BATCH_SIZE,
    DELETE_ENABLED,
    EXACTLY_ONCE,
    FIELDS_WHITELIST,
    INSERT_MODE,
    JDBC_SINK,
    MAX_RETRIES,
    MERGE_HOLDLOCK,
    OFFSETS_TABLE,
    PK_FIELDS,
    PK_MODE,
    REPLACE_NULL,
    RETRY_BACKOFF_MS,
    STRING_COLUMN,
    TABLE_NAME_FORMAT,
    TABLE_NAME_NORMALIZE,
    TABLE_TYPES,
    TIMESTAMP_FIELDS_LIST,
    TIMESTAMP_PRECISION_MODE,
    TOPICS_TO_TABLES,
    TRIM_SENSITIVE_LOG,
)
from penstock.connectors.jdbc.sqlite import Sqlite
from penstock.connectors.jdbc.writing import (
    JdbcWriter,
    KeyMode,
    Settings,
    next_offsets,
    store_offsets,
)

DIALECTS: Final[Mapping[Kind, type[Dialect]]] = {
    Kind.POSTGRESQL: PostgreSql,
    Kind.MYSQL: MySql,
    Kind.SQLITE: Sqlite,
}


class JdbcSink(SinkConnector):
    """Writes records into tables of a relational database."""

    plugin = Plugin(
        class_name="io.confluent.connect.jdbc.JdbcSinkConnector",
        version=VERSION,
        config=JDBC_SINK,
        task_class="io.confluent.connect.jdbc.sink.JdbcSinkTask",
        also=("io.aiven.connect.jdbc.JdbcSinkConnector",),
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        from penstock.connectors.jdbc.live import sink_findings  # it looks by what is here

        return sink_findings(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        if not config[EXACTLY_ONCE]:
            return True
        # The table says what was written, whatever Kafka says.
        dialect, table = dialect_of(config), TableName.parse(config[OFFSETS_TABLE])
        reached = {place: at or 0 for place, at in offsets.items()}
        with database_of(config).connect() as connection:
            if dialect.table(connection, table) is None:
                return True
            name = config.props.get("name", "")
            with connection.transaction():
                next_offsets(connection, dialect, table, name, reached)
                store_offsets(connection, dialect, table, name, reached)
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return JdbcWriter(database_of(config), dialect_of(config), settings_of(config), context)


def dialect_of(config: Config) -> Dialect:
    """The dialect that a configuration asks for."""
    url, at = database_of(config).url, zone(config[DB_TIMEZONE])
    if url.kind is Kind.OTHER:
        return Generic(
            at, product_of(url), quoting=quotes(config), holds_lock=config[MERGE_HOLDLOCK]
        )
    return DIALECTS[url.kind](at, quoting=quotes(config))


class _Tables:
    """The table of each topic; the same names mean the same tables when it is made again."""

    def __init__(self, config: Config) -> None:
        self._format = config[TABLE_NAME_FORMAT]
        self._normalizes = config[TABLE_NAME_NORMALIZE]
        pairs = (entry.partition(":") for entry in config[TOPICS_TO_TABLES])
        self._mapped = {topic: table for topic, _, table in pairs}
        self._known: dict[str, TableName] = {}

    def __call__(self, topic: str) -> TableName:
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = self._table(topic)
        return found

    def _table(self, topic: str) -> TableName:
        if topic in self._mapped:
            return TableName.parse(self._mapped[topic])
        text = self._format.replace("${topic}", topic)
        if self._normalizes:
            text = "".join(c if c.isalnum() or c in "_." else "_" for c in text)
        return TableName.parse(text)


def settings_of(config: Config) -> Settings:
    """What writing has to know of a configuration."""
    write = config[INSERT_MODE].lower()
    key_mode = KeyMode(config[PK_MODE].lower())
    return Settings(
        connector=config.props.get("name", ""),
        write=Write("insert" if write == "multi" else write),
        key_mode=key_mode,
        key_fields=config[PK_FIELDS],
        table_of=_Tables(config),
        whitelist=frozenset(config[FIELDS_WHITELIST]),
        auto_create=config[AUTO_CREATE],
        auto_evolve=config[AUTO_EVOLVE],
        deletes=config[DELETE_ENABLED],
        batch_rows=config[BATCH_SIZE] or 1 if BATCH_SIZE in config else None,
        max_retries=config[MAX_RETRIES],
        retry_backoff_ms=config[RETRY_BACKOFF_MS],
        table_types=frozenset(kind.upper() for kind in config[TABLE_TYPES]),
        defaults=config[REPLACE_NULL],
        string_column=config[STRING_COLUMN],
        timestamp_fields=frozenset(config[TIMESTAMP_FIELDS_LIST]),
        nanoseconds=config[TIMESTAMP_PRECISION_MODE].lower() == "nanoseconds",
        trims_errors=config[TRIM_SENSITIVE_LOG],
        offsets=TableName.parse(config[OFFSETS_TABLE]) if config[EXACTLY_ONCE] else None,
        tolerates=config.props.get("errors.tolerance", "none").lower() == "all",
    )
