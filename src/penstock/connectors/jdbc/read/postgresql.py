"""PostgreSQL: COPY sends rows as CSV, which Arrow reads a thousand rows at a time."""

from __future__ import annotations

import contextlib
import io
from codecs import BOM_UTF8
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.api import DataError
from penstock.connectors.jdbc.drivers.moments import digits
from penstock.connectors.jdbc.drivers.types import ARROW, Sql
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.postgresql_texts import from_hex, packed, plain_rows
from penstock.connectors.jdbc.read.reading import Blocks, Columns, Reading, block

_HEADER: Final = 4  # bytes that a type's modifier includes
_COPY_OVER: Final = -1  # libpq returns it in place of the size of a row
_BLOCK_BYTES: Final = 1 << 18  # fits a processor's cache: a megabyte took a tenth longer

_TYPES: Final = {
    "bool": Sql.BOOLEAN,
    "int2": Sql.SMALLINT,
    "int4": Sql.INTEGER,
    "int8": Sql.BIGINT,
    "oid": Sql.BIGINT,
    "float4": Sql.REAL,
    "float8": Sql.DOUBLE,
    "money": Sql.DOUBLE,
    "numeric": Sql.NUMERIC,
    "text": Sql.STRING,
    "varchar": Sql.STRING,
    "bpchar": Sql.STRING,
    "char": Sql.STRING,
    "name": Sql.STRING,
    "citext": Sql.STRING,
    "xml": Sql.STRING,
    "json": Sql.STRING,
    "jsonb": Sql.STRING,
    "uuid": Sql.STRING,
    "bytea": Sql.BYTES,
    "date": Sql.DATE,
    "time": Sql.TIME,
    "timetz": Sql.TIME,
    "timestamp": Sql.TIMESTAMP,
    "timestamptz": Sql.TIMESTAMP,
}
_KINDS: Final = {
    "TABLE": "r",
    "PARTITIONED TABLE": "p",
    "VIEW": "v",
    "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
}
_SYSTEM: Final = "n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast')"
_ZONED: Final = ("timestamptz", "timetz")


class PostgresqlReading(Reading):
    """Tables of PostgreSQL."""

    def prepare(self) -> None:
        settings = {"datestyle": "ISO", "bytea_output": "hex", "extra_float_digits": "1"}
        if "timezone" not in str(self.connection.url.options.get("options", "")).lower():
            settings["timezone"] = "UTC"  # pgjdbc sets that of the JVM
        calls = (f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        self.connection.execute(f"SELECT {', '.join(calls)}")

    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        kinds = "".join(_KINDS.get(type, "") for type in types)
        of_kinds = f"c.relkind = ANY (string_to_array('{','.join(kinds)}', ',')::\"char\"[])"
        condition = f"({of_kinds} AND NOT {_SYSTEM})"
        if "SYSTEM TABLE" in types:
            condition = f"({condition} OR (c.relkind = 'r' AND {_SYSTEM}))"
        rows = self.connection.rows(
            "SELECT current_database(), n.nspname, c.relname FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE {condition} AND n.nspname NOT LIKE 'pg\\_t%%temp\\_%%' "
            "AND n.nspname LIKE %s AND current_database() LIKE %s ORDER BY 2, 3",
            ("%" if schema is None else schema, "%" if catalog is None else catalog),
        )
        return [TableId(*row) for row in rows]

    def columns(self, source: str, table: TableId | None) -> Columns:
        with self.connection.errors(), self.connection.raw.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {source} LIMIT 0")
            result = cursor.pgresult
        places, unsupported = self._columns_of(result)
        return list(places.values()), unsupported

    def _columns_of(self, result: Any) -> tuple[dict[int, SqlColumn], list[str]]:
        """The columns of a result by their places, and descriptions of the others."""
        places = range(result.nfields)
        origins = [(result.ftable(at), result.ftablecol(at)) for at in places]
        types = self._types({result.ftype(at) for at in places})
        attributes = self._attributes({table for table, _ in origins if table})
        columns: dict[int, SqlColumn] = {}
        unsupported: list[str] = []
        for at in places:
            name = result.fname(at).decode()
            type_name, kind, category, base = types[result.ftype(at)]
            required, auto_increment = attributes.get(origins[at], (False, False))
            sql_type = Sql.STRING if kind == "e" else _TYPES.get(base)
            precision, scale = _limits(base, result.fmod(at))
            if base in ("bit", "varbit"):
                sql_type = _bits(precision)
            if sql_type is None:
                shown = "an array" if category == "A" else f"of type {type_name}"
                unsupported.append(f"column '{name}' is {shown}")
                continue
            columns[at] = SqlColumn(
                name,
                sql_type,
                type_name,
                nullable=not required,
                precision=precision,
                scale=scale,
                zoned=base in _ZONED,
                auto_increment=auto_increment,
                resolution_us=_resolution_us(base, result.fmod(at)),
                sql=_expression(base, sql_type, precision),
            )
        return columns, unsupported

    def described(self, statement: str) -> Columns:
        from psycopg import errors

        places, unsupported = self._columns_of(self._described(statement))
        inner = statement.strip().rstrip(";")
        # Only a statement that runs is checked for privileges.
        with (
            self.connection.errors(),
            self.connection.raw.cursor() as cursor,
            contextlib.suppress(errors.SyntaxError, errors.FeatureNotSupported),
        ):
            cursor.execute(f"SELECT 1 FROM (\n{inner}\n) penstock_query LIMIT 0")
        return list(places.values()), unsupported

    def _described(self, statement: str) -> Any:
        """libpq's description of a statement's result; it is not run."""
        from psycopg import errors, pq

        libpq = self.connection.raw.pgconn
        with self.connection.errors():
            for result in (
                libpq.prepare(b"", statement.encode()),
                libpq.describe_prepared(b""),
            ):
                if result.status != pq.ExecStatus.COMMAND_OK:
                    raise errors.error_from_result(result)
        return result

    def _run(self, statement: str) -> Generator[Columns | pa.RecordBatch, None, None]:
        from psycopg import errors

        places, unsupported = self._columns_of(self._described(statement))
        columns = list(places.values())
        yield columns, unsupported
        names = [f"c{at}" for at in range(max(places, default=0) + 1)]
        selected = ", ".join(column.sql.replace("%", names[at]) for at, column in places.items())
        inner = statement.strip().rstrip(";")
        sql = f"SELECT {selected} FROM (\n{inner}\n) penstock_query ({', '.join(names)})"
        with self.connection.errors():
            try:
                rows = self._copied(sql, columns)
                first = next(rows, None)
            except (errors.SyntaxError, errors.FeatureNotSupported):
                # Not a query that another may contain: SHOW, CALL, EXPLAIN.
                yield from plain_rows(self.connection.raw.pgconn, statement, places)
                return
            if first is not None:
                yield first
                yield from rows

    def _types(self, oids: set[int]) -> dict[int, tuple[str, str, str, str]]:
        """The name, kind and category of each type, and the name of its base type."""
        rows = self.connection.rows(
            "WITH RECURSIVE based (oid, base) AS ("
            "SELECT oid, oid FROM pg_type WHERE oid = ANY (%s) "
            "UNION SELECT b.oid, t.typbasetype FROM based b JOIN pg_type t ON t.oid = b.base "
            "WHERE t.typtype = 'd') "
            "SELECT b.oid, f.typname, t.typtype, t.typcategory, t.typname FROM based b "
            "JOIN pg_type t ON t.oid = b.base AND t.typtype <> 'd' JOIN pg_type f ON f.oid = b.oid",
            (sorted(oids),),
        )
        return {row[0]: (row[1], _text(row[2]), _text(row[3]), row[4]) for row in rows}

    def _attributes(self, tables: set[int]) -> dict[tuple[int, int], tuple[bool, bool]]:
        """Whether each column of the tables is NOT NULL, and whether the database numbers it."""
        if not tables:
            return {}
        rows = self.connection.rows(
            "SELECT a.attrelid, a.attnum, a.attnotnull, a.attidentity <> '' OR "
            "COALESCE(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false) "
            "FROM pg_attribute a LEFT JOIN pg_attrdef d "
            "ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = ANY (%s)",
            (sorted(tables),),
        )
        return {(row[0], row[1]): (row[2], row[3]) for row in rows}

    def now_us(self) -> int:
        ((now,),) = self.connection.rows(
            "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        )
        return int(now)

    def literal(self, at_ns: int, column: SqlColumn) -> str:
        if column.zoned:
            return f"TIMESTAMPTZ '{digits(at_ns)}+00'"
        return f"TIMESTAMP '{digits(at_ns)}'"

    def stripe(self, key: str, keys: int, parts: int) -> str:
        return f"MOD(DIV({key}, {keys}), {parts})"

    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        with self.connection.errors():
            yield from self._copied(sql, columns)

    def _copied(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        read = _csv(columns)
        with (
            self.connection.raw.cursor() as cursor,
            cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv)"),
        ):
            yield from map(read, _received(self.connection.raw.pgconn))


def _received(libpq: Any) -> Iterator[bytes]:
    """The output of a COPY, in blocks of whole rows. psycopg returns single rows and checks each
    time whether it must wait; that took three times as long as reading from libpq."""
    from psycopg import errors, pq

    rows: list[bytes] = []
    remaining_bytes = _BLOCK_BYTES
    receive = libpq.get_copy_data
    while True:
        size, row = receive(0)
        if size <= 0:
            break
        rows.append(row)
        remaining_bytes -= size
        if remaining_bytes <= 0:
            yield b"".join(rows)
            rows, remaining_bytes = [], _BLOCK_BYTES
    if size != _COPY_OVER:
        raise errors.OperationalError(pq.error_message(libpq))
    failed = None
    while (result := libpq.get_result()) is not None:  # to the end: only then is the status known
        if result.status != pq.ExecStatus.COMMAND_OK:
            failed = failed or result
    if failed is not None:
        raise errors.error_from_result(failed)
    if rows:
        yield b"".join(rows)


def _limits(base: str, modifier: int) -> tuple[int, int]:
    """The precision and scale of a number, or the length of a bit string; 0 without limits."""
    if base in ("bit", "varbit"):
        return (modifier, 0) if modifier > 0 else (1 if base == "bit" else 0, 0)
    if base != "numeric" or modifier < _HEADER:
        return 0, 0
    scale = (modifier - _HEADER) & 0x7FF
    return (modifier - _HEADER) >> 16 & 0xFFFF, scale - 0x800 if scale >= 0x400 else scale


def _resolution_us(base: str, modifier: int) -> int:
    """The unit in which a timestamp type counts, which may be declared: `timestamp(0)`."""
    declared = base in ("timestamp", "timestamptz") and modifier >= 0
    return int(10 ** (6 - modifier)) if declared else 1


def _bits(bits: int) -> Sql:
    """The type of a bit string: pgjdbc reports BIT, and the JVM's connector goes by the length."""
    if bits == 1:
        return Sql.BOOLEAN
    return Sql.BIT if 1 < bits <= 8 else Sql.BYTES


def _expression(base: str, sql_type: Sql, bits: int) -> str:
    match base:
        case "money":
            return "CAST(CAST(% AS numeric) AS float8)"
        case "bit" | "varbit" if sql_type is Sql.BOOLEAN:
            return "(CAST(% AS text) = '1')"
        case "bit" | "varbit" if sql_type is Sql.BIT:
            # As a signed byte, like Connect's INT8.
            return f"((CAST(CAST(% AS bit({bits})) AS integer) + 128) & 255) - 128"
        case "bit" | "varbit":
            return "CAST(% AS text)"
        case "timetz":
            return "CAST(% AT TIME ZONE 'UTC' AS time)"
        case "timestamptz":
            return "(% AT TIME ZONE 'UTC')"
    return "%"


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _csv(columns: Sequence[SqlColumn]):  # type: ignore[no-untyped-def]
    """Reads a block of rows; all columns as texts if Arrow cannot parse one."""
    from pyarrow import csv  # here, so that only sources of PostgreSQL load it

    names = [f"c{at}" for at in range(len(columns))]
    # The row of a single column that is null is an empty line.
    parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
    direct = {
        name: pa.string() if column.sql_type in (Sql.BYTES, Sql.TIME) else ARROW[column.sql_type]
        for name, column in zip(names, columns, strict=True)
    }

    def options(types: dict[str, pa.DataType]) -> csv.ConvertOptions:
        return csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def table(data: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        if data.startswith(BOM_UTF8):  # of the first cell: Arrow would drop it
            data = BOM_UTF8 + data
        return csv.read_csv(
            io.BytesIO(data),
            # All in one block, since a row may be larger than any fixed size.
            csv.ReadOptions(
                use_threads=False, column_names=names, block_size=max(len(data) + 1, 1 << 16)
            ),
            parse,
            options(types),
        )

    def read(data: bytes) -> pa.RecordBatch:
        if not columns:
            raise DataError("There is no column of a supported type.")
        try:
            parsed = table(data, direct)
        except pa.ArrowInvalid:
            parsed = table(data, dict.fromkeys(names, pa.string()))
        cells = [chunks.combine_chunks() for chunks in parsed.columns]
        return block(columns, [_bytes(c, a) for c, a in zip(columns, cells, strict=True)])

    return read


def _bytes(column: SqlColumn, cells: pa.Array) -> pa.Array:
    if isinstance(cells, pa.ChunkedArray):
        cells = pa.concat_arrays(cells.chunks) if cells.num_chunks else pa.array([], cells.type)
    if column.sql_type is not Sql.BYTES:
        return cells
    read = from_hex if column.sql == "%" else packed  # a bit string is selected as text
    return pa.array(
        [None if text is None else read(text) for text in cells.to_pylist()], pa.binary()
    )
