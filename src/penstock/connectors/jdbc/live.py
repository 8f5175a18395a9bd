"""What a validation finds in the database itself (see `SourceConnector.validate_live`).

It connects once, and nothing is changed: columns are asked for without rows, and privileges are
looked up, or asked for by preparing a statement that is never run. What the tasks would refuse is
found by the code that makes them refuse it. What cannot be known from here is no error: what the
database does not say in time, tables that appear later, topics that a transform renames.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.api import ConfigInvalid, DataError, Finding, PenstockError
from penstock.api.settings import LIST, Config, invalid
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import DatabaseAway, DatabaseBusy, DatabaseRefused
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.drivers.url import Kind, Url
from penstock.connectors.jdbc.read import columns as c
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.pool import READINGS
from penstock.connectors.jdbc.read.reading import Reading
from penstock.connectors.jdbc.read.shapes import Shapes, Unfit, Unit, table_names
from penstock.connectors.jdbc.read.tables import refuse_same_names, selected, tables_of
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import sink as s
from penstock.connectors.jdbc.settings import source as k
from penstock.connectors.jdbc.write.dialect import Dialect, TableFound, TableName, Write
from penstock.connectors.jdbc.write.settings import (
    KAFKA_KEYS,
    KeyMode,
    WriteSettings,
    dialect_of,
    settings_of,
)

log = logging.getLogger(__name__)

_CONNECT_S: Final = 3  # for each host
_STATEMENT_S: Final = 5
_LOOK_S: Final = 8.0  # after which no further table is looked at
_MOST_OFFERED: Final = 1000  # names of tables
_MOST_NAMED: Final = 5  # in a message


def source_findings(config: Config) -> Iterator[Finding]:
    """What there is to say of a source's configuration."""
    yield from _connected(config, _source)


def sink_findings(config: Config) -> Iterator[Finding]:
    """What there is to say of a sink's configuration."""
    yield from _connected(config, _sink)


Look = Callable[[Config, Connection, float], Iterator[Finding]]
"""Looks at a database until a moment of the monotonic clock."""


def _connected(config: Config, look: Look) -> Iterator[Finding]:
    url = keys.database_of(config).url
    try:
        try:
            connection = Database(_quick(url), attempts=1).connect()
        except (DatabaseAway, DatabaseRefused, ConfigInvalid) as error:
            yield from _unconnected(config, url, error)
            return
        with connection:
            until = time.monotonic() + _LOOK_S
            _bound(connection, until)
            yield from look(config, connection, until)
    except DatabaseBusy as error:
        log.info("the database was not asked everything about a configuration: %s", error)
    except DatabaseAway as error:
        yield Finding(keys.CONNECTION_URL.name, f"The database has gone: {error}")


# ── connecting ───────────────────────────────────────────────────────────────────────────────────


def _quick(url: Url) -> Url:
    """The same database, for somebody who waits for an answer, and who leaves no file behind."""
    options = dict(url.options)
    match url.kind:
        case Kind.POSTGRESQL | Kind.MYSQL:
            options.pop("create_database", None)
            given = int(options.get("connect_timeout", _CONNECT_S))
            return replace(url, options={**options, "connect_timeout": min(given, _CONNECT_S)})
        case Kind.SQLITE:
            url = replace(url, options={"busy_timeout": _STATEMENT_S * 1000})
            file = url.database
            there = file.startswith("file:") or os.path.exists(file)
            if not there and os.path.isdir(os.path.dirname(file) or "."):
                # Whoever opens it creates it, with nothing in it.
                return replace(url, database="file::memory:")
        case Kind.OTHER:
            options = {**options, "login_s": _CONNECT_S, "statement_s": _STATEMENT_S}
            return replace(url, options=options)
    return url


def _bound(connection: Connection, until: float) -> None:
    """Has the database give up statements that take long."""
    match connection.kind:
        case Kind.POSTGRESQL:
            connection.execute(f"SET statement_timeout = '{_STATEMENT_S}s'")
        case Kind.MYSQL:
            for name, limit in (
                ("max_statement_time", _STATEMENT_S),  # MariaDB
                ("max_execution_time", _STATEMENT_S * 1000),
            ):
                with contextlib.suppress(DatabaseRefused):  # it has the other one
                    connection.execute(f"SET SESSION {name} = {limit}")
        case Kind.SQLITE:
            connection.raw.set_progress_handler(lambda: time.monotonic() > until, 10_000)


_LOGIN_WORDS: Final = (
    "authentication failed",
    "no password supplied",
    "requires a password",
    "(sqlstate 28",  # invalid authorization, in what drivers of the JVM say
    "invalid username",
)
_USER_WORDS: Final = (
    'role "',
    "is not permitted to log in",
    "no pg_hba.conf entry",
    "permission denied for database",
)
_LOGIN_CODES: Final = frozenset({1045, 1698, 1862, 2059, 3118, 4151})
_USER_CODES: Final = frozenset({1044, 1130})
_NO_DATABASE: Final = 1049


def _unconnected(config: Config, url: Url, error: PenstockError) -> Iterator[Finding]:
    """Why there is no connection, said of the settings that can change it."""
    text = " ".join(str(error).split())
    if isinstance(error, DatabaseRefused):
        words, code = text.lower(), _code(error)
        if code == _NO_DATABASE and url.options.get("create_database"):
            return  # the first task will create it
        if code in _LOGIN_CODES or any(each in words for each in _LOGIN_WORDS):
            yield from _wrong_login(config, url, text)
            return
        if code in _USER_CODES or any(each in words for each in _USER_WORDS):
            yield Finding(_user_setting(config), f"{text}. Name another user, or grant it that.")
            return
        yield Finding(keys.CONNECTION_URL.name, f"{text}. Is connection.url the right one?")
        return
    if isinstance(error, ConfigInvalid):  # a file that the URL names
        yield Finding(keys.CONNECTION_URL.name, text)
        return
    advice = "Is the database running, and are host and port the right ones?"
    if url.kind is Kind.SQLITE:
        advice = "Is the path the right one?"
    yield Finding(keys.CONNECTION_URL.name, f"{text}. {advice}")


def _wrong_login(config: Config, url: Url, text: str) -> Iterator[Finding]:
    """Databases do not tell whether it is the user or the password that is wrong."""
    if url.password is None and url.user is not None:
        yield Finding(
            keys.CONNECTION_PASSWORD.name,
            f"{text}. A password is asked for, and none is given (connection.password).",
        )
        return
    given = [
        each.name
        for each in (keys.CONNECTION_USER, keys.CONNECTION_PASSWORD)
        if config[each] is not None
    ]
    for name in given or [keys.CONNECTION_URL.name]:
        yield Finding(name, f"{text}. The user or the password is wrong.")


def _code(error: BaseException) -> int | None:
    """The number that MySQL's driver gave an error."""
    args = getattr(error.__cause__, "args", ())
    return args[0] if args and isinstance(args[0], int) else None


def _user_setting(config: Config) -> str:
    """The setting that says who connects."""
    return (keys.CONNECTION_USER if config[keys.CONNECTION_USER] else keys.CONNECTION_URL).name


def _user(connection: Connection) -> str:
    user = connection.url.user
    return f"the user '{user}'" if user else "the user"


def _hidden(connection: Connection) -> str:
    """What else may be the reason that a table is not found."""
    return f", or {_user(connection)} may not see it" if connection.url.user else ""


# ── a source ─────────────────────────────────────────────────────────────────────────────────────

_LISTS: Final = (k.TABLE_WHITELIST, k.TABLE_INCLUDE, k.TABLE_BLACKLIST)


def _source(config: Config, connection: Connection, until: float) -> Iterator[Finding]:
    reading = READINGS[connection.kind](connection, keys.quotes(config))
    shapes = Shapes(config)
    units = [Unit(None)]
    chooser = k.QUERY.name
    if not config[k.QUERY].strip():
        there = tables_of(config, reading)
        chooser = next((key.name for key in _LISTS if config[key]), k.TABLE_WHITELIST.name)
        yield from _offered_tables(there)
        yield from _missing_tables(config, reading, there)
        tables = selected(config, there)
        try:
            refuse_same_names(tables)
        except Unfit as error:
            yield Finding(chooser, str(error))
        units = [Unit(table) for table in tables]
    looked: list[Sequence[SqlColumn]] = []
    for unit in units:
        if time.monotonic() > until:
            log.info("only %d of %d tables were looked at in time", len(looked), len(units))
            break
        try:
            columns, _ = reading.columns(shapes.source(unit, reading), unit.table)
        except (DatabaseRefused, DataError) as error:
            if time.monotonic() > until:
                break  # it was cut off
            yield Finding(chooser, _unreadable(connection, unit, error))
            continue
        looked.append(columns)
        try:
            shapes.order(unit, columns, reading)
        except Unfit as error:
            setting = chooser if error.setting == k.TABLE_WHITELIST.name else error.setting
            yield Finding(setting, str(error))
    yield from _offered_columns(config, looked)


def _unreadable(connection: Connection, unit: Unit, error: PenstockError) -> str:
    if unit.table is None:
        return f"The database refuses the query: {error}"
    return (
        f"Table '{unit.table}' cannot be read: {error}. Grant {_user(connection)} SELECT on it, or "
        "do not choose it."
    )


def _offered_tables(there: Sequence[TableId]) -> Iterator[Finding]:
    """The tables as the lists name them: shortly where that is clear, and as regular expressions
    for whole names."""
    names = [table.name for table in there]
    plain = [
        table.name if names.count(table.name) == 1 else table_names(table)[1]
        for table in there[:_MOST_OFFERED]
    ]
    patterns = [_ESCAPED.sub(r"\\\g<0>", table_names(table)[1]) for table in there[:_MOST_OFFERED]]
    for key in (k.TABLE_WHITELIST, k.TABLE_BLACKLIST):
        yield Finding(key.name, recommended=[name for name in plain if "," not in name])
    for key in (k.TABLE_INCLUDE, k.TABLE_EXCLUDE):
        yield Finding(key.name, recommended=[name for name in patterns if "," not in name])


_ESCAPED: Final = re.compile(r"[\\^$|?*+()\[\]{}]")  # a dot matches itself


def _missing_tables(
    config: Config, reading: Reading, there: Sequence[TableId]
) -> Iterator[Finding]:
    known = {name for table in there for name in table_names(table)}
    missing = [name for name in config[k.TABLE_WHITELIST] if name not in known]
    for name in missing:
        yield Finding(
            k.TABLE_WHITELIST.name,
            invalid(k.TABLE_WHITELIST.name, name, _why_missing(config, reading, there, name)),
        )


def _why_missing(config: Config, reading: Reading, there: Sequence[TableId], name: str) -> str:
    for kind in k.KINDS:
        for table in reading.tables([kind], None, None):
            if name in table_names(table) and table not in there:
                return (
                    f"it is there as {table} ({kind}), which table.types, schema.pattern or "
                    "catalog.pattern leave out"
                )
    connection = reading.connection
    said = f"there is no such table in {connection.url.shown}{_hidden(connection)}"
    qualified = "." in name
    return said + _near(name, [table_names(each)[1 if qualified else 2] for each in there])


def _near(name: str, names: Sequence[str]) -> str:
    """What may be meant, as the end of a sentence."""
    by_lower = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=_MOST_NAMED)
    if near:
        return f"; near it: {', '.join(by_lower[each] for each in near)}"
    if not names:
        return ""
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f"; there: {', '.join(names[:_MOST_NAMED])}{more}"


def _offered_columns(config: Config, looked: Sequence[Sequence[SqlColumn]]) -> Iterator[Finding]:
    """The columns that every chosen table has and could be read by, those first that the database
    numbers itself."""
    if not looked:
        return
    strict = config[k.VALIDATE_NON_NULL] and not config[k.QUERY].strip()

    def fitting(fits: Callable[[SqlColumn], bool]) -> list[str]:
        common: list[SqlColumn] = [each for each in looked[0] if fits(each)]
        for columns in looked[1:]:
            others = {each.name for each in columns if fits(each)}
            common = [each for each in common if each.name in others]
        return [each.name for each in sorted(common, key=lambda each: not each.counts)]

    def is_number(column: SqlColumn) -> bool:
        return (
            column.sql_type in c.NUMBERS and column.scale <= 0 and not (strict and column.nullable)
        )

    def is_moment(column: SqlColumn) -> bool:
        return column.sql_type in (Sql.TIMESTAMP, Sql.DATE) and not (strict and column.nullable)

    yield Finding(k.INCREMENTING_COLUMN.name, recommended=fitting(is_number))
    yield Finding(k.TIMESTAMP_COLUMNS.name, recommended=fitting(is_moment))


# ── a sink ───────────────────────────────────────────────────────────────────────────────────────

_KEEP_TOPICS: Final = frozenset(
    """
    Cast DropHeaders ExtractField Filter Flatten HeaderFrom HoistField InsertField InsertHeader
    MaskField ReplaceField SetSchemaMetadata TimestampConverter ValueToKey
    """.split()
)
"""Transforms that leave a record's topic, and so its table, as it was."""


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
                _user_setting(config),
                f"Table {table} cannot be looked at: {error}. Grant {_user(connection)} what it "
                "needs, or name another table.",
            )


class _SinkLook:
    """Looks at the tables that a sink would write to."""

    def __init__(
        self, config: Config, connection: Connection, dialect: Dialect, settings: WriteSettings
    ) -> None:
        self._config = config
        self._connection = connection
        self._dialect = dialect
        self._settings = settings
        self._who = _user(connection)

    def tables(self) -> Iterator[tuple[TableName, str]]:
        """The tables of the topics that are named, each with the setting that chose it."""
        props = self._config.props
        transforms = LIST.read(props.get("transforms", "").strip())
        kinds = (props.get(f"transforms.{alias}.type", "") for alias in transforms)
        if any(_simple(kind) not in _KEEP_TOPICS for kind in kinds):
            return
        mapped = {each.partition(":")[0] for each in self._config[s.TOPICS_TO_TABLES]}
        found: dict[TableName, str] = {}
        for topic in LIST.read(props.get("topics", "").strip()):
            key = s.TOPICS_TO_TABLES if topic in mapped else s.TABLE_NAME_FORMAT
            if topic:
                found.setdefault(self._settings.table_of(topic), key.name)
        yield from found.items()

    def at(self, table: TableName, name_setting: str) -> Iterator[Finding]:
        found = self._dialect.table(self._connection, table)
        if found is None:
            yield from self._missing(table, name_setting)
            return
        unfit = self._settings.shut_out(table, found)
        if unfit is not None:
            yield Finding(s.TABLE_TYPES.name, unfit)
            return
        lacking = self._lacks(table, found, self._needs(found))
        if lacking:
            yield Finding(
                _user_setting(self._config),
                f"{_capital(self._who)} may not write to table {table} as insert.mode="
                f"{self._settings.write.value}"
                f"{' and delete.enabled' if self._settings.deletes else ''} need: grant it "
                f"{', '.join(lacking)}.",
            )
        yield from self._keys(table, found)

    def offsets(self, table: TableName) -> Iterator[Finding]:
        """What there is to say of the table of `penstock.exactly.once`."""
        name = s.OFFSETS_TABLE.name
        try:
            found = self._dialect.table(self._connection, table)
            if found is None:
                text = self._not_creatable(table)
                if text is not None:
                    yield Finding(name, f"{text} ({name})")
                return
            lacking = self._lacks(table, found, ("SELECT", "INSERT", "UPDATE"))
        except DatabaseRefused as error:
            yield Finding(name, f"Table {table} cannot be looked at: {error}")
            return
        if lacking:
            yield Finding(
                name,
                f"{_capital(self._who)} may not keep offsets in table {table}: grant it "
                f"{', '.join(lacking)} on it.",
            )

    # ── tables that are not there ────────────────────────────────────────────────────────────

    def _missing(self, table: TableName, name_setting: str) -> Iterator[Finding]:
        if self._settings.auto_create:
            text = self._not_creatable(table)
            if text is not None:
                yield Finding(
                    s.AUTO_CREATE.name,
                    f"{text}. Grant that, or create the table yourself.",
                )
            return
        reading = READINGS[self._connection.kind](self._connection, keys.quotes(self._config))
        kinds = [kind for kind in k.KINDS if kind in self._settings.table_types]
        names = [each.name for each in reading.tables(kinds, None, None)]
        yield Finding(
            name_setting,
            f"Table {table} is missing{_hidden(self._connection)}, and auto-creation is disabled: "
            f"create it, set auto.create, or say with {name_setting} which table it is"
            f"{_near(table.name, names)}",
        )

    def _not_creatable(self, table: TableName) -> str | None:
        """Why a table cannot be created; None: it can, as far as is known."""
        connection = self._connection
        match connection.kind:
            case Kind.POSTGRESQL:
                schema = table.schema
                if schema is not None and not self._dialect.quoting:
                    schema = schema.lower()
                rows = connection.rows(
                    "SELECT nspname, has_schema_privilege(oid, 'CREATE') FROM pg_namespace "
                    "WHERE nspname = COALESCE(%s, current_schema())",
                    (schema,),
                )
                if not rows:
                    where = f"schema '{schema}'" if schema else "schema in the search path"
                    return f"Table {table} cannot be created: there is no {where}"
                name, may = rows[0]
                if not may:
                    return f"{_capital(self._who)} may not create table {table} in schema '{name}'"
            case Kind.MYSQL:
                error = self._refusal(
                    f"CREATE TABLE IF NOT EXISTS {self._dialect.qualified(table)} (penstock INT)"
                )
                if error is not None:
                    return f"{_capital(self._who)} may not create table {table}: {error}"
            case Kind.SQLITE:
                path = self._read_only()
                if path is not None:
                    return f"Table {table} cannot be created: '{path}' may not be written to"
        return None

    # ── privileges ───────────────────────────────────────────────────────────────────────────

    def _needs(self, found: TableFound) -> list[str]:
        """The privileges that the dialects' ways to write need."""
        needs: list[str] = []
        match self._settings.write:
            case Write.INSERT:
                needs += ["INSERT"]
            case Write.UPSERT:
                needs += ["INSERT", "UPDATE", "SELECT"]
                if self._connection.kind is Kind.POSTGRESQL:
                    needs += ["TEMPORARY"]
                    names = self._key_names()
                    if names is not None and len(names) >= len(found.columns):
                        needs.remove("UPDATE")  # there is nothing but keys
            case Write.UPDATE:
                needs += ["UPDATE", "SELECT", "TEMPORARY"]
        if self._settings.deletes:
            needs += ["DELETE", "SELECT", "TEMPORARY"]
        return list(dict.fromkeys(needs))

    def _lacks(self, table: TableName, found: TableFound, needs: Sequence[str]) -> list[str]:
        """Those of the privileges that the user has not even for one column."""
        match self._connection.kind:
            case Kind.POSTGRESQL:
                return [each for each in needs if not self._granted(table, each)]
            case Kind.MYSQL:
                return [each for each in needs if self._denied(table, found, each)]
            case Kind.SQLITE:
                path = self._read_only()
                return [] if path is None else [f"write access to '{path}'"]
        return []

    def _granted(self, table: TableName, privilege: str) -> bool:
        """What PostgreSQL says itself."""
        qualified = self._dialect.qualified(table)
        match privilege:
            case "TEMPORARY":
                sql = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
                return bool(self._connection.rows(sql)[0][0])
            case "DELETE":
                function = "has_table_privilege"
            case _:
                function = "has_any_column_privilege"
        sql = f"SELECT {function}(to_regclass(%s), '{privilege}')"
        return bool(self._connection.rows(sql, (qualified,))[0][0])

    def _denied(self, table: TableName, found: TableFound, privilege: str) -> bool:
        """Whether MySQL will not prepare a statement for which the privilege is needed."""
        name = self._dialect.qualified(table)
        column = self._dialect.quoted(found.columns[0].name) if found.columns else "1"
        statement = {
            "INSERT": f"INSERT INTO {name} () VALUES ()",
            "UPDATE": f"UPDATE {name} SET {column} = NULL",
            "DELETE": f"DELETE FROM {name}",
            "SELECT": f"SELECT 1 FROM {name}",
            "TEMPORARY": "CREATE TEMPORARY TABLE penstock_look (penstock INT)",
        }[privilege]
        error = self._refusal(statement)
        return error is not None and _code(error) in _DENIED

    def _refusal(self, statement: str) -> PenstockError | None:
        """What MySQL has against a statement, by preparing it: privileges are checked by then."""
        connection = self._connection
        connection.execute("SET @penstock_look = %s", (statement,))
        try:
            connection.execute("PREPARE penstock_look FROM @penstock_look")
        except (DatabaseRefused, DataError) as error:
            return error
        connection.execute("DEALLOCATE PREPARE penstock_look")
        return None

    def _read_only(self) -> str | None:
        """What keeps an SQLite file from being written: itself or its folder; None: nothing."""
        file = keys.database_of(self._config).url.database
        if file.startswith("file:"):
            return None  # its parameters are SQLite's business
        folder = os.path.dirname(file) or "."
        for path in (folder, file):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                return path
        return None

    # ── keys ─────────────────────────────────────────────────────────────────────────────────

    def _key_names(self) -> tuple[str, ...] | None:
        """The names of the key's columns; None: the records say them."""
        settings = self._settings
        if settings.key_mode is KeyMode.NONE:
            return ()
        if settings.key_mode is KeyMode.KAFKA:
            return settings.key_fields or KAFKA_KEYS
        return settings.key_fields or None

    def _keys(self, table: TableName, found: TableFound) -> Iterator[Finding]:
        settings, names = self._settings, self._key_names()
        setting = (s.PK_FIELDS if settings.key_fields else s.PK_MODE).name
        if settings.key_mode is KeyMode.NONE:
            return
        missing = [name for name in names or () if found.column(name) is None]
        # Columns are added for fields that may be null, which may be so of a record's, and is
        # never so of Kafka's.
        added = settings.auto_evolve and found.type != "VIEW"
        if missing and (settings.key_mode is KeyMode.KAFKA or not added):
            there = ", ".join(f"'{each.name}'" for each in found.columns)
            yield Finding(
                setting,
                f"Table {table} has no column {', '.join(map(repr, missing))} ({setting}); it has "
                f"{there}.",
            )
            return
        if settings.write is not Write.UPSERT or missing or found.type == "VIEW":
            return
        unique = self._unique(table, found)
        if unique is None:
            return
        if names is None:
            wanted, fits = "any columns", bool(unique)
        else:
            columns = {column.name for name in names if (column := found.column(name))}
            wanted = f"({', '.join(sorted(columns))})"
            exact = self._connection.kind is Kind.POSTGRESQL  # ON CONFLICT wants just these
            fits = any(each == columns if exact else each <= columns for each in unique)
        if not fits:
            has = ", ".join(f"({', '.join(sorted(each))})" for each in unique) or "none"
            yield Finding(
                setting,
                f"insert.mode=upsert needs a primary key or a unique index of table {table} over "
                f"{wanted}; it has {has}.",
            )

    def _unique(self, table: TableName, found: TableFound) -> list[frozenset[str]] | None:
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
        # A primary key that is the row's number has no index of its own in SQLite.
        unique = [frozenset(each.name for each in found.columns if each.key)]
        for columns in indexes.values():
            named = frozenset(each for each in columns if each is not None)
            if len(named) == len(columns):  # else it is one over an expression
                unique.append(named)
        return [each for each in dict.fromkeys(unique) if each]


_DENIED: Final = frozenset({1044, 1142, 1370})
"""Errors of MySQL that say that a privilege is lacking altogether, not only for a column."""

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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
