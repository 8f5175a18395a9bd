"""The JDBC sink: its settings under the names of Confluent's connector and of Aiven's, and what
they come to (reference §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api import VERSION, Finding, Plugin, Props, SinkConnector, SinkContext, SinkWriter
from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    STRING,
    Config,
    ConfigDef,
    Key,
    at_least,
    invalid,
    non_empty,
    one_of,
)
from penstock.connectors.jdbc.dialect import Dialect, TableName, Write
from penstock.connectors.jdbc.dialect_generic import Generic
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.drivers.products import product_of
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.keys import (
    CONNECTION,
    DB_TIMEZONE,
    QUOTING,
    RULES,
    database_of,
    quotes,
)
from penstock.connectors.jdbc.mysql import MySql
from penstock.connectors.jdbc.postgresql import PostgreSql
from penstock.connectors.jdbc.sqlite import Sqlite
from penstock.connectors.jdbc.writing import (
    JdbcWriter,
    KeyMode,
    Settings,
    next_offsets,
    store_offsets,
)

_WRITES: Final = "Writes"
_MAPPING: Final = "Data Mapping"
_DDL: Final = "DDL Support"
_RETRIES: Final = "Retries"

INSERT_MODE: Final = Key(
    "insert.mode",
    STRING,
    default="insert",
    importance=HIGH,
    check=one_of("insert", "upsert", "update", "multi", ignore_case=True),
    doc="How records are written: insert, upsert (the row with that key is replaced) or update "
    "(only rows that are there are changed). `multi`, Aiven's, is insert: all are many at a time.",
    group=_WRITES,
    order=1,
)
BATCH_SIZE: Final = Key(
    "batch.size",
    INT,
    default=3000,
    importance=MEDIUM,
    check=at_least(0),
    doc="At most so many rows with one statement. Unless it is set, whole batches are written.",
    group=_WRITES,
    order=2,
)
DELETE_ENABLED: Final = Key(
    "delete.enabled",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether a record without a value deletes the row with its key; needs "
    "`pk.mode=record_key`.",
    group=_WRITES,
    order=3,
)
EXACTLY_ONCE: Final = Key(
    "penstock.exactly.once",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether what was written is noted in a table of the same database, in the same "
    "transaction, so that no record is written twice whatever fails.",
    group=_WRITES,
    order=4,
)
OFFSETS_TABLE: Final = Key(
    "penstock.offsets.table",
    STRING,
    default="penstock_offsets",
    importance=LOW,
    check=non_empty(),
    doc="The table of `penstock.exactly.once`; it is created if it is not there.",
    group=_WRITES,
    order=5,
)
TABLE_NAME_FORMAT: Final = Key(
    "table.name.format",
    STRING,
    default="${topic}",
    importance=MEDIUM,
    check=non_empty(),
    doc="The table of a topic's records; `${topic}` stands for the topic. May be qualified: "
    "`schema.${topic}`.",
    group=_MAPPING,
    order=1,
)
PK_MODE: Final = Key(
    "pk.mode",
    STRING,
    default="none",
    importance=HIGH,
    check=one_of("none", "kafka", "record_key", "record_value", ignore_case=True),
    doc="Where the primary key comes from: nowhere, topic, partition and offset, the record's key "
    "or fields of its value.",
    group=_MAPPING,
    order=2,
)
PK_FIELDS: Final = Key(
    "pk.fields",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Names of the key's columns. Empty: `__connect_topic`, `__connect_partition` and "
    "`__connect_offset` for `kafka`, else all fields. A key that is no struct needs one name.",
    group=_MAPPING,
    order=3,
)
FIELDS_WHITELIST: Final = Key(
    "fields.whitelist",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="The value's fields that are written, besides those of the key. Empty: all.",
    group=_MAPPING,
    order=4,
)
DATE_TIMEZONE: Final = Key(
    "date.timezone",
    STRING,
    default="DB_TIMEZONE",
    importance=MEDIUM,
    check=one_of("DB_TIMEZONE", "UTC", ignore_case=True),
    doc="Accepted for compatibility: a date is written as the day it is, whatever the time zone.",
    group=_MAPPING,
    order=6,
)
TABLE_TYPES: Final = Key(
    "table.types",
    LIST,
    default=("TABLE",),
    importance=LOW,
    doc="What may be written to: TABLE, VIEW, PARTITIONED TABLE.",
    group=_MAPPING,
    order=7,
)
TIMESTAMP_FIELDS_LIST: Final = Key(
    "timestamp.fields.list",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Fields with numbers or ISO 8601 texts that are written as timestamps.",
    group=_MAPPING,
    order=8,
)
TIMESTAMP_PRECISION_MODE: Final = Key(
    "timestamp.precision.mode",
    STRING,
    default="microseconds",
    importance=MEDIUM,
    check=one_of("microseconds", "nanoseconds", ignore_case=True),
    doc="What the numbers in `timestamp.fields.list` count, from the epoch on.",
    group=_MAPPING,
    order=9,
)
REPLACE_NULL: Final = Key(
    "replace.null.with.default",
    BOOLEAN,
    default=True,
    importance=MEDIUM,
    doc="Whether a field that is null and has a default is written as that.",
    group=_MAPPING,
    order=10,
)
STRING_COLUMN: Final = Key(
    "string.output.value.column.name",
    STRING,
    default="record_value",
    importance=LOW,
    check=non_empty(),
    doc="The column that values which are plain texts are written to.",
    group=_MAPPING,
    order=11,
)
TOPICS_TO_TABLES: Final = Key(
    "topics.to.tables.mapping",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Tables of single topics, as a list of `topic:table`; the others go by "
    "`table.name.format`.",
    group=_MAPPING,
    order=12,
)
TABLE_NAME_NORMALIZE: Final = Key(
    "table.name.normalize",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether what is neither a letter, a digit, an underscore nor a dot becomes an underscore "
    "in names of tables.",
    group=_MAPPING,
    order=13,
)
AUTO_CREATE: Final = Key(
    "auto.create",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether a table that is missing is created from the records' schema.",
    group=_DDL,
    order=1,
)
AUTO_EVOLVE: Final = Key(
    "auto.evolve",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether columns that a table lacks are added, if they may be null or have a default.",
    group=_DDL,
    order=2,
)
MAX_RETRIES: Final = Key(
    "max.retries",
    INT,
    default=10,
    importance=MEDIUM,
    check=at_least(0),
    doc="How often a batch is tried again, while the database is away or busy, before the task "
    "fails.",
    group=_RETRIES,
    order=1,
)
RETRY_BACKOFF_MS: Final = Key(
    "retry.backoff.ms",
    INT,
    default=3000,
    importance=MEDIUM,
    check=at_least(0),
    doc="Milliseconds between two tries, at least.",
    group=_RETRIES,
    order=2,
)
TRIM_SENSITIVE_LOG: Final = Key(
    "trim.sensitive.log",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether the database's words about a record are left out of errors: they may hold data.",
)
MERGE_HOLDLOCK: Final = Key(
    "mssql.use.merge.holdlock",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether an upsert locks keys that are not there yet, on SQL Server.",
)


def _key_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """`pk.mode` and `pk.fields` give the keys that deletes, upserts and updates need."""
    mode, write = (str(parsed.get(key.name) or "").lower() for key in (PK_MODE, INSERT_MODE))
    fields = parsed.get(PK_FIELDS.name)
    count = len(fields) if isinstance(fields, tuple) else 0
    if parsed.get(DELETE_ENABLED.name) and mode != "record_key":
        text = "Deletes are only supported for pk.mode record_key"
        yield DELETE_ENABLED.name, text
        yield PK_MODE.name, text
    if write in ("upsert", "update") and mode == "none":
        yield (
            PK_MODE.name,
            f"insert.mode={write} needs to know the rows' keys: set pk.mode to kafka, record_key "
            "or record_value",
        )
    if mode == "kafka" and count not in (0, 3):
        yield (
            PK_FIELDS.name,
            "For pk.mode=kafka, pk.fields has to be empty or name three columns, for topic, "
            f"partition and offset; it names {count}",
        )


def _mapping_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Every entry of the mapping is a topic and a table."""
    entries = parsed.get(TOPICS_TO_TABLES.name)
    for entry in entries if isinstance(entries, tuple) else ():
        topic, _, table = entry.partition(":")
        if not topic or not table:
            name = TOPICS_TO_TABLES.name
            yield name, invalid(name, entry, "it is not of the form topic:table")


JDBC_SINK: Final = ConfigDef(
    *CONNECTION,
    INSERT_MODE,
    BATCH_SIZE,
    DELETE_ENABLED,
    EXACTLY_ONCE,
    OFFSETS_TABLE,
    TABLE_NAME_FORMAT,
    PK_MODE,
    PK_FIELDS,
    FIELDS_WHITELIST,
    DB_TIMEZONE,
    DATE_TIMEZONE,
    TABLE_TYPES,
    TIMESTAMP_FIELDS_LIST,
    TIMESTAMP_PRECISION_MODE,
    REPLACE_NULL,
    STRING_COLUMN,
    TOPICS_TO_TABLES,
    TABLE_NAME_NORMALIZE,
    AUTO_CREATE,
    AUTO_EVOLVE,
    MAX_RETRIES,
    RETRY_BACKOFF_MS,
    *QUOTING,
    TRIM_SENSITIVE_LOG,
    MERGE_HOLDLOCK,
    rules=(*RULES, _key_rule, _mapping_rule),
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
