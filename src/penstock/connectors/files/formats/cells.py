"""Converts CSV cells to values of Connect's schemas, and infers schemas from cells.

Decimals are digits, dates and times ISO 8601, bytes base64; nested values are JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Any, Final

from penstock.api import DataError
from penstock.api.schema import (
    DATE,
    INT64,
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    TIMESTAMP,
    Logical,
    Schema,
    Type,
    Value,
    float32,
    int_range,
)
from penstock.connectors.files.formats.json_read import parse_exactly
from penstock.connectors.files.formats.json_values import from_base64, scaled
from penstock.connectors.files.formats.json_values import reader as node_reader

Read = Callable[[Any], Value]

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}


@lru_cache(maxsize=1024)
def reader(schema: Schema, null: str, is_strict: bool = False) -> Read | None:
    """The function that converts a cell (a string, None, or a value that Arrow has converted) to a
    value. It raises DataError. None: the cell is the value. `is_strict`: null is never an empty
    string or bytes."""
    make = _reader(schema)
    default, optional, kind = schema.default, schema.optional, schema.type.name
    if make is None and optional and default is None:
        return None
    # An empty cell is an empty string or bytes if those cannot be null; other types are null.
    may_be_empty = schema.logical is None and schema.type in (Type.STRING, Type.BYTES)
    stands_for_empty = may_be_empty and not null and not is_strict
    empty = ("" if make is None else make("")) if stands_for_empty else None

    def read(cell: Any) -> Value:
        if cell is None or (cell == "" and not may_be_empty):
            if default is not None or optional:
                return default
            if empty is None:
                raise DataError(f"it is empty, and {kind} is required")
            return empty
        return cell if make is None or type(cell) is not str else make(cell)

    return read


def _reader(schema: Schema) -> Read | None:
    match schema.logical:
        case Logical.DECIMAL:
            scale = schema.scale
            return lambda cell: scaled(cell.strip(), scale)
        case Logical.DATE:
            return _date
        case Logical.TIME:
            return _time
        case Logical.TIMESTAMP:
            return timestamp
    match schema.type:
        case Type.STRING:
            return None
        case Type.BYTES:
            return from_base64
        case Type.BOOLEAN:
            return _boolean
        case Type.FLOAT32 | Type.FLOAT64:
            return _float(schema.type)
        case Type.ARRAY | Type.MAP | Type.STRUCT:
            return _nested(schema)
    return _integer(schema.type)


def _nested(schema: Schema) -> Read:
    convert = node_reader(schema.as_required())

    def read(cell: str) -> Value:
        try:
            return convert(parse_exactly(cell))
        except ValueError as error:
            raise DataError(f"{cell!r} is not JSON: {error}") from error

    return read


def _integer(kind: Type) -> Read:
    low, high = int_range(kind)

    def read(cell: str) -> int:
        text = cell.strip()
        if not _INTEGER.fullmatch(text) or len(text) > 20 or not low <= int(text) <= high:
            raise DataError(f"{cell!r} is not of type {kind.name}")
        return int(text)

    return read


def _float(kind: Type) -> Read:
    def read(cell: str) -> float:
        try:
            value = float(cell.replace("_", "x"))
        except ValueError as error:
            raise DataError(f"{cell!r} is not of type {kind.name}") from error
        return float32(value) if kind is Type.FLOAT32 else value

    return read


def _boolean(cell: str) -> bool:
    value = _BOOLEANS.get(cell.strip().lower())
    if value is None:
        raise DataError(f"{cell!r} is not a BOOLEAN")
    return value


def _date(cell: str) -> date:
    try:
        return date.fromisoformat(cell.strip())
    except ValueError as error:
        raise DataError(f"{cell!r} is not a Date: {error}") from error


def _time(cell: str) -> time:
    try:
        value = time.fromisoformat(cell.strip())
    except ValueError as error:
        raise DataError(f"{cell!r} is not a Time: {error}") from error
    if value.tzinfo is not None:
        raise DataError(f"{cell!r} is not a Time: it has a zone")
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def timestamp(cell: str) -> datetime:
    """A Timestamp; in UTC if it has no zone. Raises DataError."""
    try:
        value = datetime.fromisoformat(cell.strip())
        if value.tzinfo is not UTC:
            value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{cell!r} is not a Timestamp: {error}") from error
    rest = value.microsecond % 1000
    return value.replace(microsecond=value.microsecond - rest) if rest else value


_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_NATURAL: Final = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*", re.ASCII)


def inferred(cells: Iterable[str | None]) -> Schema:
    """The optional schema of a column, inferred from some of its cells: INT64, FLOAT64, BOOLEAN,
    Date, Timestamp or STRING. Numbers with leading zeros are strings.

    >>> inferred(["1", None, "-2"]).type, inferred(["1", "2.5"]).type, inferred(["007"]).type
    (<Type.INT64: 'INT64'>, <Type.FLOAT64: 'FLOAT64'>, <Type.STRING: 'STRING'>)
    """
    filled = [cell for cell in cells if cell is not None]
    if filled:
        for fits, schema in _CANDIDATES:
            if all(map(fits, filled)):
                return schema
    return OPTIONAL_STRING


def _reads(pattern: re.Pattern[str], schema: Schema) -> Callable[[str], bool]:
    read = _reader(schema)
    assert read is not None, "not for texts"

    def fits(cell: str) -> bool:
        if pattern.fullmatch(cell) is None:
            return False
        try:
            read(cell)
        except DataError:
            return False
        return True

    return fits


_CANDIDATES: Final[tuple[tuple[Callable[[str], bool], Schema], ...]] = (
    (_reads(_NATURAL, INT64), OPTIONAL_INT64),
    (_reads(_NUMBER, OPTIONAL_FLOAT64), OPTIONAL_FLOAT64),
    (lambda cell: cell.lower() in ("true", "false"), OPTIONAL_BOOLEAN),
    (_reads(_DAY, DATE), DATE.as_optional()),
    (_reads(_MOMENT, TIMESTAMP), TIMESTAMP.as_optional()),
)
