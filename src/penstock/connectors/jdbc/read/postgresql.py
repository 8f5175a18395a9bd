"""PostgreSQL: COPY writes rows as CSV, which Arrow reads a thousand rows at once."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.api import DataError
from penstock.connectors.jdbc.drivers.moments import moment, wall_us
from penstock.connectors.jdbc.drivers.types import ARROW, Sql
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Blocks, Reading, block

_COPY_OVER: Final = -1  # where libpq tells the size of a row
_BLOCK_BYTES: Final = 1 << 18  # what a processor's cache holds: a megabyte took a tenth longer

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
        self.connection.execute(
            "SELECT set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false), "
            "set_config('bytea_output', 'hex', false), set_config('extra_float_digits', '1', false)"
        )

    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        kinds = "".join(_KINDS.get(each, "") for each in types)
        wanted = f"c.relkind = ANY (string_to_array('{','.join(kinds)}', ',')::\"char\"[])"
        chosen = f"({wanted} AND NOT {_SYSTEM})"
        if "SYSTEM TABLE" in types:
            chosen = f"({chosen} OR (c.relkind = 'r' AND {_SYSTEM}))"
        rows = self.connection.rows(
            "SELECT current_database(), n.nspname, c.relname FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE {chosen} AND n.nspname NOT LIKE 'pg\\_t%%temp\\_%%' "
            "AND n.nspname LIKE %s AND current_database() LIKE %s ORDER BY 2, 3",
            ("%" if schema is None else schema, "%" if catalog is None else catalog),
        )
        return [TableId(*row) for row in rows]

    def columns(self, source: str, table: TableId | None) -> tuple[list[SqlColumn], list[str]]:
        with self.connection.errors(), self.connection.raw.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {source} LIMIT 0")
            described = list(cursor.description or ())
            result = cursor.pgresult
            origins = [(result.ftable(at), result.ftablecol(at)) for at in range(len(described))]
        types = self._types({each.type_code for each in described})
        facts = self._facts({table for table, _ in origins if table})
        found: list[SqlColumn] = []
        left_out: list[str] = []
        for each, origin in zip(described, origins, strict=True):
            told, kind, category, base = types[each.type_code]
            required, counts = facts.get(origin, (False, False))
            sql_type = Sql.STRING if kind == "e" else _TYPES.get(base)
            bits = 0
            if base in ("bit", "varbit"):
                bits = each.display_size or (1 if base == "bit" else 0)
                sql_type = _bits(bits)
            if sql_type is None:
                what = "an array" if category == "A" else f"of type {told}"
                left_out.append(f"column '{each.name}' is {what}")
                continue
            found.append(
                SqlColumn(
                    each.name,
                    sql_type,
                    told,
                    nullable=not required,
                    precision=each.precision or 0 if sql_type is Sql.NUMERIC else bits,
                    scale=each.scale or 0 if sql_type is Sql.NUMERIC else 0,
                    zoned=base in _ZONED,
                    counts=counts,
                    sql=_expression(base, sql_type, bits),
                )
            )
        return found, left_out

    def _types(self, oids: set[int]) -> dict[int, tuple[str, str, str, str]]:
        """Of each type: its name, what it is, its category, and the name of what it is based on."""
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

    def _facts(self, tables: set[int]) -> dict[tuple[int, int], tuple[bool, bool]]:
        """Of each column of tables: whether it must be given, and whether it counts by itself."""
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
        ((found,),) = self.connection.rows(
            "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        )
        return int(found)

    def literal(self, at_us: int, column: SqlColumn, zone: ZoneInfo) -> str:
        if column.zoned:
            return f"TIMESTAMPTZ '{moment(at_us):%Y-%m-%d %H:%M:%S.%f}+00'"
        return f"TIMESTAMP '{moment(wall_us(at_us, zone)):%Y-%m-%d %H:%M:%S.%f}'"

    def stripe(self, key: str, keys: int, parts: int) -> str:
        return f"MOD(DIV({key}, {keys}), {parts})"

    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        read = _csv(columns)
        with (
            self.connection.errors(),
            self.connection.raw.cursor() as cursor,
            cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv)"),
        ):
            yield from map(read, _received(self.connection.raw.pgconn))


def _received(libpq: Any) -> Iterator[bytes]:
    """What a COPY sends, in blocks of whole rows. psycopg hands over one row after the other, and
    looks each time whether it has to wait; that took three times as long as asking libpq does."""
    from psycopg import errors, pq

    rows: list[bytes] = []
    left = _BLOCK_BYTES
    receive = libpq.get_copy_data
    while True:
        size, row = receive(0)
        if size <= 0:
            break
        rows.append(row)
        left -= size
        if left <= 0:
            yield b"".join(rows)
            rows, left = [], _BLOCK_BYTES
    if size != _COPY_OVER:
        raise errors.OperationalError(pq.error_message(libpq))
    failed = None
    while (result := libpq.get_result()) is not None:  # to the end: the status is known only then
        if result.status != pq.ExecStatus.COMMAND_OK:
            failed = failed or result
    if failed is not None:
        raise errors.error_from_result(failed)
    if rows:
        yield b"".join(rows)


def _bits(bits: int) -> Sql:
    """pgjdbc calls them all BIT, and the JVM's connector goes by how many there are."""
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
            # As a signed byte, which is what Connect has.
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
    """What reads a block of rows; a column of values that Arrow does not read is read as texts."""
    from pyarrow import csv  # only those who have such a database wait for it

    names = [f"c{at}" for at in range(len(columns))]
    parse = csv.ParseOptions(newlines_in_values=True)
    direct = {
        name: pa.string() if each.sql_type in (Sql.BYTES, Sql.TIME) else ARROW[each.sql_type]
        for name, each in zip(names, columns, strict=True)
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
        return csv.read_csv(
            io.BytesIO(data),
            # One block: the data is one, and a row of it may be larger than any fixed size.
            csv.ReadOptions(
                use_threads=False, column_names=names, block_size=max(len(data) + 1, 1 << 16)
            ),
            parse,
            options(types),
        )

    def read(data: bytes) -> pa.RecordBatch:
        if not columns:
            raise DataError("There is no column of a type that Connect has.")
        try:
            found = table(data, direct)
        except pa.ArrowInvalid:
            found = table(data, dict.fromkeys(names, pa.string()))
        cells = [each.combine_chunks() for each in found.columns]
        return block(columns, [_bytes(c, a) for c, a in zip(columns, cells, strict=True)])

    return read


def _bytes(column: SqlColumn, cells: pa.Array) -> pa.Array:
    if isinstance(cells, pa.ChunkedArray):
        cells = pa.concat_arrays(cells.chunks) if cells.num_chunks else pa.array([], cells.type)
    if column.sql_type is not Sql.BYTES:
        return cells
    read = _from_hex if column.sql == "%" else _packed  # bits are asked for as texts of their own
    return pa.array(
        [None if each is None else read(each) for each in cells.to_pylist()], pa.binary()
    )


def _from_hex(text: str) -> bytes:
    return bytes.fromhex(text[2:])  # without the \x before it


def _packed(bits: str) -> bytes:
    """Bits as bytes, the first one highest; filled up with zeros at the end.

    >>> _packed("101000001")
    b'\\xa0\\x80'
    """
    size = -(-len(bits) // 8)
    return int(bits.ljust(size * 8, "0") or "0", 2).to_bytes(size, "big")
