"""Validates a sink's configuration against the database."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from penstock.api import Finding
from penstock.api.settings import LIST, Config
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.read.pool import READINGS
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import sink as s
from penstock.connectors.jdbc.settings import source as k
from penstock.connectors.jdbc.validation.connecting import look_at
from penstock.connectors.jdbc.validation.privileges import Privileges
from penstock.connectors.jdbc.validation.words import capital, hidden, near, user, user_setting
from penstock.connectors.jdbc.write.dialect import Dialect, ExistingTable, TableName, Write
from penstock.connectors.jdbc.write.settings import KeyMode, WriteSettings, dialect_of, settings_of


def sink_findings(config: Config) -> Iterator[Finding]:
    """The findings about a sink's configuration."""
    yield from _primitive_keys(config)
    yield from look_at(config, _sink)


_PRIMITIVE: Final = frozenset(
    """
    BooleanConverter ByteArrayConverter DoubleConverter FloatConverter IntegerConverter
    LongConverter ShortConverter StringConverter
    """.split()
)
"""Converters that only produce primitive values."""


def _primitive_keys(config: Config) -> Iterator[Finding]:
    """A converter's primitive keys fill one column, which `pk.fields` must name."""
    mode, names = str(config[s.PK_MODE]).lower(), config[s.PK_FIELDS]
    side = {"record_key": "key", "record_value": "value"}.get(mode)
    if side is None or len(names) == 1 or config.props.get("transforms", "").strip():
        return
    converter = _simple(config.props.get(f"{side}.converter", ""))
    if converter in _PRIMITIVE:
        yield Finding(
            s.PK_FIELDS.name,
            f"With pk.mode={mode} and {converter}, pk.fields must name exactly one column, for "
            f"the whole {side}; it names {len(names)}",
        )


_KEEP_TOPICS: Final = frozenset(
    """
    Cast DropHeaders ExtractField Filter Flatten HeaderFrom HoistField InsertField InsertHeader
    MaskField ReplaceField SetSchemaMetadata TimestampConverter ValueToKey
    """.split()
)
"""Transforms that keep a record's topic, and so its table."""


def _sink(config: Config, connection: Connection, until: float) -> Iterator[Finding]:
    dialect, settings = dialect_of(config), settings_of(config)
    try:
        dialect.session(connection)
    except DatabaseRefused as error:
        yield Finding(keys.DB_TIMEZONE.name, str(error))
    look = _SinkLook(config, connection, dialect, settings)
    if settings.offsets is not None:
        yield from look.offsets(settings.offsets)
    for table, name_setting in look.tables():
        if time.monotonic() > until:
            return
        try:
            yield from look.at(table, name_setting)
        except DatabaseRefused as error:
            yield Finding(
                user_setting(config),
                f"Table {table} cannot be inspected: {error}. Grant {user(connection)} the "
                "necessary privileges, or use another table.",
            )


class _SinkLook:
    """Checks the tables that a sink would write to."""

    def __init__(
        self, config: Config, connection: Connection, dialect: Dialect, settings: WriteSettings
    ) -> None:
        self._config = config
        self._connection = connection
        self._dialect = dialect
        self._settings = settings
        self._who = user(connection)
        self._privileges = Privileges(config, connection, dialect, settings)

    def tables(self) -> Iterator[tuple[TableName, str]]:
        """The tables of the topics in `topics`, each with the setting that selects it."""
        props = self._config.props
        transforms = LIST.read(props.get("transforms", "").strip())
        kinds = (props.get(f"transforms.{alias}.type", "") for alias in transforms)
        if any(_simple(kind) not in _KEEP_TOPICS for kind in kinds):
            return
        mapped = {entry.partition(":")[0] for entry in self._config[s.TOPICS_TO_TABLES]}
        tables: dict[TableName, str] = {}
        for topic in LIST.read(props.get("topics", "").strip()):
            key = s.TOPICS_TO_TABLES if topic in mapped else s.TABLE_NAME_FORMAT
            if topic:
                tables.setdefault(self._settings.table_of(topic), key.name)
        yield from tables.items()

    def at(self, table: TableName, name_setting: str) -> Iterator[Finding]:
        existing = self._dialect.table(self._connection, table)
        if existing is None:
            yield from self._missing(table, name_setting)
            return
        refusal = self._settings.refusal(table, existing)
        if refusal is not None:
            yield Finding(s.TABLE_TYPES.name, refusal)
            return
        missing = self._privileges.missing(table, existing, self._privileges.needs(existing))
        if missing:
            yield Finding(
                user_setting(self._config),
                f"{capital(self._who)} lacks privileges on table {table} that insert.mode="
                f"{self._settings.write.value}"
                f"{' and delete.enabled' if self._settings.deletes else ''} need: grant it "
                f"{', '.join(missing)}.",
            )
        yield from self._keys(table, existing)

    def offsets(self, table: TableName) -> Iterator[Finding]:
        """The findings about the table of `penstock.exactly.once`."""
        name = s.OFFSETS_TABLE.name
        try:
            existing = self._dialect.table(self._connection, table)
            if existing is None:
                text = self._privileges.not_creatable(table)
                if text is not None:
                    yield Finding(name, f"{text} ({name})")
                return
            missing = self._privileges.missing(table, existing, ("SELECT", "INSERT", "UPDATE"))
        except DatabaseRefused as error:
            yield Finding(name, f"Table {table} cannot be inspected: {error}")
            return
        if missing:
            yield Finding(
                name,
                f"{capital(self._who)} may not store offsets in table {table}: grant it "
                f"{', '.join(missing)} on the table.",
            )

    def _missing(self, table: TableName, name_setting: str) -> Iterator[Finding]:
        if self._settings.auto_create:
            text = self._privileges.not_creatable(table)
            if text is not None:
                yield Finding(
                    s.AUTO_CREATE.name,
                    f"{text}. Grant the privilege, or create the table.",
                )
            return
        reading = READINGS[self._connection.kind](self._connection, keys.quotes(self._config))
        kinds = [kind for kind in k.KINDS if kind in self._settings.table_types]
        names = [other.name for other in reading.tables(kinds, None, None)]
        yield Finding(
            name_setting,
            f"Table {table} is missing{hidden(self._connection)}, and auto-creation is disabled: "
            f"create it, set auto.create, or set {name_setting} to an existing table"
            f"{near(table.name, names)}",
        )

    def _keys(self, table: TableName, existing: ExistingTable) -> Iterator[Finding]:
        settings, names = self._settings, self._settings.key_names
        setting = (s.PK_FIELDS if settings.key_fields else s.PK_MODE).name
        if settings.key_mode is KeyMode.NONE:
            return
        missing = [name for name in names or () if existing.column(name) is None]
        # Auto-evolution adds columns only for optional fields. Fields of records may be optional,
        # Kafka's coordinates never are.
        evolves = settings.auto_evolve and existing.type != "VIEW"
        if missing and (settings.key_mode is KeyMode.KAFKA or not evolves):
            present = ", ".join(f"'{column.name}'" for column in existing.columns)
            yield Finding(
                setting,
                f"Table {table} has no column {', '.join(map(repr, missing))} ({setting}); it has "
                f"{present}.",
            )
            return
        if settings.write is not Write.UPSERT or missing or existing.type == "VIEW":
            return
        indexes = self._unique(table, existing)
        if indexes is None:
            return
        if names is None:
            needed, fits = "any columns", bool(indexes)
        else:
            keys = {column.name for name in names if (column := existing.column(name))}
            needed = f"({', '.join(sorted(keys))})"
            exact = self._connection.kind is Kind.POSTGRESQL  # ON CONFLICT needs exactly these
            fits = any(index == keys if exact else index <= keys for index in indexes)
        if not fits:
            has = ", ".join(f"({', '.join(sorted(index))})" for index in indexes) or "none"
            yield Finding(
                setting,
                f"insert.mode=upsert needs a primary key or a unique index of table {table} over "
                f"{needed}; it has {has}.",
            )

    def _unique(self, table: TableName, existing: ExistingTable) -> list[frozenset[str]] | None:
        """The columns of each unique index of a table; None: unknown."""
        connection, name = self._connection, self._dialect.qualified(table)
        rows: Iterable[tuple[Any, ...]]
        match connection.kind:
            case Kind.POSTGRESQL:
                rows = connection.rows(_POSTGRESQL_UNIQUE, (name,))
            case Kind.MYSQL:
                rows = connection.rows(_MYSQL_UNIQUE, (table.schema, table.name))
            case Kind.SQLITE:
                rows = connection.rows(_SQLITE_UNIQUE, (table.name,))
            case _:
                return None
        indexes: dict[Any, set[str | None]] = {}
        for index, column in rows:
            indexes.setdefault(index, set()).add(column)
        # In SQLite, a primary key that is the row's number has no index of its own.
        unique = [frozenset(column.name for column in existing.columns if column.key)]
        for columns in indexes.values():
            named = frozenset(name for name in columns if name is not None)
            if len(named) == len(columns):  # otherwise the index has an expression
                unique.append(named)
        return [index for index in dict.fromkeys(unique) if index]


_POSTGRESQL_UNIQUE: Final = """\
SELECT i.indexrelid, a.attname FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS part (attnum, place)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = part.attnum
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indimmediate AND i.indisvalid
AND i.indpred IS NULL AND part.place <= i.indnkeyatts"""

_MYSQL_UNIQUE: Final = """\
SELECT index_name, column_name FROM information_schema.statistics
WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s AND non_unique = 0"""

_SQLITE_UNIQUE: Final = """\
SELECT l.name, i.name FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i
WHERE l."unique" = 1 AND l.partial = 0"""


def _simple(name: str) -> str:
    """A transform's name without package and nested class.

    >>> _simple("org.apache.kafka.connect.transforms.Cast$Value")
    'Cast'
    """
    return name.strip().rpartition(".")[2].partition("$")[0]
