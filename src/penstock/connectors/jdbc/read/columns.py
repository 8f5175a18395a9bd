"""Maps columns of a database to fields of Connect structs.

A column's JDBC type decides its schema, as in the JVM's connector (connectors.md §2.3); each
database's module maps its own types to those. `drivers.types` lists the Arrow types of the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.api import DataError
from penstock.api import schema as s
from penstock.api.schema import Schema, Type, Value
from penstock.connectors.jdbc.drivers.moments import clock_shift, instant_us, moment
from penstock.connectors.jdbc.drivers.types import NANOS, Sql, arrow_of

NUMBERS: Final = frozenset(
    {Sql.TINYINT, Sql.SMALLINT, Sql.INTEGER, Sql.BIGINT, Sql.NUMERIC, Sql.DECIMAL}
)
"""Types that an incrementing column may have."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column as the database describes it.

    `precision` 0: a NUMERIC without limits. `type_name` is the type in the database's own words.
    `sql` is the expression that reads the column (`%` stands for the quoted name).
    """

    name: str
    sql_type: Sql
    type_name: str
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    signed: bool = True
    zoned: bool = False
    auto_increment: bool = False  # the database assigns increasing numbers
    sql: str = "%"
    resolution_us: int = 1  # of a timestamp
    digits: int = 6  # of a second that a timestamp may have
    zero_dates: str = ""  # MySQL: what '0000-00-00' is read as; empty: it cannot be read
    guessed: bool = False  # its type is not declared: a column of a query, in SQLite
    widens: bool = False  # may hold larger values than its type, as SQLite's INTEGER may


@dataclass(frozen=True, slots=True)
class Mapping:
    """The settings that affect the schemas and values of columns."""

    numeric: str = "none"
    granularity: str = "connect_logical"
    zone: ZoneInfo = ZoneInfo("UTC")  # noqa: RUF009 - it is immutable
    unlimited_scale: int = 0


_PRIMITIVE: Final = {
    Sql.BOOLEAN: s.BOOLEAN,
    Sql.BIT: s.INT8,
    Sql.BIGINT: s.INT64,
    Sql.REAL: s.FLOAT32,
    Sql.DOUBLE: s.FLOAT64,
    Sql.STRING: s.STRING,
    Sql.BYTES: s.BYTES,
    Sql.DATE: s.DATE,
    Sql.TIME: s.TIME,
}
_INTEGERS: Final = {  # signed, unsigned
    Sql.TINYINT: (s.INT8, s.INT16),
    Sql.SMALLINT: (s.INT16, s.INT32),
    Sql.INTEGER: (s.INT32, s.INT64),
}
_MAX_DIGITS: Final = 18  # that every INT64 holds
_LOWEST_SCALE: Final = -84


def schema_of(column: SqlColumn, mapping: Mapping) -> Schema:
    """The schema of a column's field."""
    schema = _required(column, mapping)
    return schema.as_optional() if column.nullable else schema


def _required(column: SqlColumn, mapping: Mapping) -> Schema:
    match column.sql_type:
        case Sql.TINYINT | Sql.SMALLINT | Sql.INTEGER:
            signed, unsigned = _INTEGERS[column.sql_type]
            return signed if column.signed else unsigned
        case Sql.NUMERIC:
            return _mapped(column, mapping)
        case Sql.DECIMAL:
            return s.decimal(column.scale)
        case Sql.TIMESTAMP:
            if mapping.granularity == "connect_logical":
                return s.TIMESTAMP
            return s.INT64 if mapping.granularity.endswith("_long") else s.STRING
    return _PRIMITIVE[column.sql_type]


def _mapped(column: SqlColumn, mapping: Mapping) -> Schema:
    """The schema of a NUMERIC according to `numeric.mapping`."""
    if not column.precision:  # the JVM's connector treats it as having no digits
        if mapping.numeric.startswith("best_fit") and not column.scale:
            return s.FLOAT64
        return s.decimal(mapping.unlimited_scale or column.scale)
    fits = column.precision <= _MAX_DIGITS
    whole = _LOWEST_SCALE <= column.scale < 1
    match mapping.numeric:
        case "precision_only" if fits and column.scale == 0:
            return _integer(column.precision)
        case "best_fit" if fits and whole:
            return _integer(column.precision)
        case "best_fit" if fits and column.scale > 0:
            return s.FLOAT64
        case "best_fit_eager_double" if fits and whole:
            return _integer(column.precision)
        case "best_fit_eager_double" if column.scale > 0:
            return s.FLOAT64
    return s.decimal(column.scale)


def _integer(digits: int) -> Schema:
    if digits > 9:
        return s.INT64
    if digits > 4:
        return s.INT32
    return s.INT16 if digits > 2 else s.INT8


class CellRefused(DataError):
    """A cell that its column's field cannot hold, so its row cannot become a record. `words` are
    the arguments to make it again."""

    def __init__(self, column: str, value: str, text: str) -> None:
        self.words = {"column": column, "value": value, "text": text}
        super().__init__(text)

    @classmethod
    def of(cls, column: SqlColumn, value: object, why: str) -> CellRefused:
        """The error for a value of a column, for this reason."""
        text = f"Column '{column.name}' ({column.type_name}) contains {value!r}: {why}."
        return cls(column.name, str(value), text)


Refused = dict[int, CellRefused]
"""Rows of a block that cannot become records, by their place in it."""

Cells = Callable[[pa.Array], list[Value]]
"""Converts Arrow's cells to Connect values."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MANY_DIGITS: Final = Context(prec=200_000, rounding=ROUND_HALF_UP)
_ISO: Final = "%Y-%m-%dT%H:%M:%S"
_DAY_MS: Final = 86_400_000
_UTC: Final = ("UTC", "Etc/UTC")


def cells_of(column: SqlColumn, schema: Schema, mapping: Mapping) -> Cells:
    """Converts the cells of a column to values of its schema. Raises CellRefused, OverflowError or
    ValueError if one of them cannot be converted."""
    match column.sql_type:
        case Sql.REAL:
            return lambda cells: objects(cells.cast(pa.float32(), safe=False).cast(pa.float64()))
        case Sql.NUMERIC | Sql.DECIMAL:
            return _numbers(column, schema, mapping)
        case Sql.TIME:
            return _times(column, mapping.zone)
        case Sql.TIMESTAMP:
            return _timestamps(column, mapping)
    if schema.type in s.INT_BITS and schema.logical is None:
        return _integers(column, schema)
    return objects


def objects(cells: pa.Array) -> list[Value]:
    """Cells as Python's values. Conversion by numpy takes a tenth of Arrow's own time."""
    kind = cells.type
    values: list[Value]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        values = cells.to_numpy(zero_copy_only=False).tolist()
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = cells.fill_null(0).to_numpy().tolist()
        if cells.null_count:
            for at in cells.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                values[at] = None
    elif pa.types.is_boolean(kind):  # with nulls, Arrow makes an array of objects
        values = cells.to_numpy(zero_copy_only=False).tolist()
    else:
        values = cells.to_pylist()
    return values


def _integers(column: SqlColumn, schema: Schema) -> Cells:
    def integers(cells: pa.Array) -> list[Value]:
        outside = not_within(cells, schema.type)
        if outside is not None:
            raise CellRefused.of(column, outside, f"out of range for {schema.type.name}")
        return objects(cells)

    return integers


def not_within(cells: pa.Array, kind: Type) -> int | None:
    """A cell outside the type's range; None if all are within."""
    if kind is Type.INT64 or cells.null_count == len(cells):
        return None
    numbers = cells.drop_null().to_numpy()
    low, high = s.int_range(kind)
    least, most = int(numbers.min()), int(numbers.max())
    if low <= least and most <= high:
        return None
    return least if least < low else most


def _numbers(column: SqlColumn, schema: Schema, mapping: Mapping) -> Cells:
    if schema.type is Type.FLOAT64:
        return lambda cells: [None if text is None else float(text) for text in objects(cells)]
    if schema.type in s.INT_BITS:
        low, high = s.int_range(schema.type)
        scale = 0
    else:
        scale = schema.scale
    unit = Decimal(1).scaleb(-scale)
    is_decimal = schema.logical is s.Logical.DECIMAL

    def number(text: str | None) -> Value:
        if text is None:
            return None
        try:
            exact = Decimal(text)
            scaled = exact.quantize(unit, context=_MANY_DIGITS)
        except InvalidOperation:
            exact = scaled = Decimal("NaN")
        if not scaled.is_finite():
            kind = "a Decimal" if is_decimal else schema.type.name
            raise CellRefused.of(
                column, text, f"{kind} must be finite{_as_double(column, mapping)}"
            )
        if scaled != exact:
            advice = ""
            if not column.precision:
                advice = f"; set penstock.numeric.scale{_as_double(column, mapping, ', or set')}"
            raise CellRefused.of(
                column, text, f"more than {scale} digits after the decimal point{advice}"
            )
        if is_decimal:
            return scaled
        whole = int(scaled)
        if not low <= whole <= high:
            raise CellRefused.of(column, text, f"out of range for {schema.type.name}")
        return whole

    return lambda cells: [number(text) for text in objects(cells)]


def _as_double(column: SqlColumn, mapping: Mapping, conjunction: str = "; set") -> str:
    """Advice to read a column as FLOAT64, if that is possible."""
    if column.sql_type is Sql.NUMERIC:
        for numeric in ("best_fit", "best_fit_eager_double"):
            if _mapped(column, replace(mapping, numeric=numeric)) == s.FLOAT64:
                return f"{conjunction} numeric.mapping={numeric}, which reads it as FLOAT64"
    return ""


def _times(column: SqlColumn, zone: ZoneInfo) -> Cells:
    shift_ms = 0 if column.zoned else clock_shift(zone) // timedelta(milliseconds=1)

    def time_of(us: int | None) -> time | None:
        if us is None:
            return None
        ms = (us // 1000 - shift_ms) % _DAY_MS
        return (_EPOCH + timedelta(milliseconds=ms)).time()

    return lambda cells: [time_of(us) for us in objects(cells.cast(pa.int64()))]


def _timestamps(column: SqlColumn, mapping: Mapping) -> Cells:
    is_instant = column.zoned or mapping.zone.key in _UTC

    def moments(cells: pa.Array) -> list[Value]:
        if cells.type == NANOS:
            cells = cells.flatten()[0]
        if cells.null_count or not is_instant:
            return one_by_one(cells)
        us = cells.cast(pa.int64()).to_numpy()
        return [_EPOCH + since for since in (us - us % 1000).astype("timedelta64[us]").tolist()]

    value_of = _timestamp_value(mapping)

    def one_by_one(cells: pa.Array) -> list[Value]:
        rests: Sequence[Any] = ()
        if cells.type == NANOS:
            cells, nanos = cells.flatten()  # with the nulls of the whole
            rests = nanos.to_pylist()
        times: list[int | None] = objects(cells.cast(pa.int64()))
        if not is_instant:
            times = [None if us is None else instant_us(us, mapping.zone) for us in times]
        if rests:
            return [
                None if us is None else value_of(us * 1000 + ns)
                for us, ns in zip(times, rests, strict=True)
            ]
        return [None if us is None else value_of(us * 1000) for us in times]

    return moments if mapping.granularity == "connect_logical" else one_by_one


def _timestamp_value(mapping: Mapping) -> Callable[[int], Value]:
    """Converts nanoseconds since the epoch."""
    match mapping.granularity:
        case "micros_long":
            return lambda ns: ns // 1000
        case "micros_string":
            return lambda ns: str(ns // 1000)
        case "micros_iso_datetime_string":
            return lambda ns: _iso(ns, mapping.zone, f"{ns % 1_000_000_000 // 1000:06}")
        case "nanos_long":
            return lambda ns: ns
        case "nanos_string":
            return str
        case "nanos_iso_datetime_string":
            return lambda ns: _iso(ns, mapping.zone, f"{ns % 1_000_000_000:09}")
    return lambda ns: _EPOCH + timedelta(milliseconds=ns // 1_000_000)


def _iso(ns: int, zone: ZoneInfo, fraction: str) -> str:
    at = moment(ns // 1_000_000_000 * 1_000_000).astimezone(zone)
    return f"{at.strftime(_ISO)}.{fraction}"


DATES: Final = "Connect's dates range from year 1 to 9999"
_ZERO_DATE: Final = "0000-00-00"
_ROUNDED: Final = "0001-01-01"
INT64: Final = range(-(1 << 63), 1 << 63)


def from_texts(column: SqlColumn, cells: pa.Array, refused: Refused) -> pa.Array:
    """Converts cells in a database's text form to Arrow's type of the column. A cell that cannot
    be converted is null, and its row is in `refused`."""
    arrow_type = arrow_of(column.sql_type, column.digits)
    if cells.type == arrow_type:
        return cells
    try:
        return cells.cast(arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array(each(_from_text, column, cells.to_pylist(), refused), arrow_type)


def each(
    convert: Callable[[SqlColumn, Any], Value],
    column: SqlColumn,
    cells: Sequence[Any],
    refused: Refused,
) -> list[Value]:
    """Converts cells one by one. One that cannot be converted is None, and its row is in
    `refused`."""
    values: list[Value] = []
    for row, cell in enumerate(cells):
        value: Value = None
        if cell is not None:
            try:
                value = convert(column, cell)
            except CellRefused as error:
                refused.setdefault(row, error)
        values.append(value)
    return values


def _from_text(column: SqlColumn, text: str) -> Value:
    why = "Connect cannot represent this value"
    try:
        match column.sql_type:
            case Sql.BOOLEAN:
                return {"t": True, "f": False, "1": True, "0": False}[text]
            case Sql.REAL | Sql.DOUBLE:
                return float(text)
            case Sql.DATE | Sql.TIMESTAMP:
                why = DATES
                if text.startswith(_ZERO_DATE):
                    if column.zero_dates == "null":
                        return None
                    why = (
                        "it is no date; in the URL, zeroDateTimeBehavior=CONVERT_TO_NULL reads it "
                        "as NULL, and ROUND as 0001-01-01"
                    )
                    text = text.replace(_ZERO_DATE, _ROUNDED if column.zero_dates else _ZERO_DATE)
                if column.sql_type is Sql.DATE:
                    return date.fromisoformat(text)
                return datetime.fromisoformat(text).replace(tzinfo=None)
            case Sql.TIME:
                why = "it is not a time of the day"
                return time.fromisoformat(text)
        number = int(text)
        if number in INT64:
            return number
        why = "out of range for INT64; convert it to a decimal in 'query'"
    except (ValueError, KeyError):
        pass
    raise CellRefused.of(column, text, why)


def names(columns: Sequence[SqlColumn]) -> str:
    """The names of columns, for messages."""
    return ", ".join(f"'{column.name}'" for column in columns)
