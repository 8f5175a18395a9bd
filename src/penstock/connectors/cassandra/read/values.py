"""Values of CQL types as record values, like Lenses' connector (connectors.md §7.2)."""

from __future__ import annotations

import base64
import ipaddress
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import orjson

from penstock.api import ConfigInvalid, DataError
from penstock.api.schema import (
    DATE,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT8,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    TIMESTAMP,
    Schema,
    array,
    days_to_date,
    decimal,
    decimal_text,
    double_text,
    map_of,
    struct,
    timestamp_to_ms,
)
from penstock.connectors.cassandra.text.types import is_user_type, is_vector

Convert = Callable[[Any], Any]

_SCALE: Final = 18
_UNIT: Final = Decimal(1).scaleb(-_SCALE)
_MAX_DIGITS: Final = 1_000
_HALF_MS: Final = timedelta(microseconds=500)
_UUID_EPOCH: Final = 0x01B21DD213814000  # 1970, in the hundreds of nanoseconds of UUIDs
_DECIMAL: Final = decimal(_SCALE, optional=True)


def _same(value: Any) -> Any:
    return value


def _decimal(value: Decimal) -> Decimal:
    return value.quantize(_UNIT, ROUND_HALF_UP, Context(prec=_MAX_DIGITS))


def _long(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise DataError(f"{value} is out of range for INT64")
    return value


def _timestamp(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise DataError(f"{value} is not a timestamp of the years 1 to 9999")
    # The driver computes in floats of seconds, so values may be off by some microseconds.
    moment = value.replace(tzinfo=UTC) + _HALF_MS
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def moment_ms(value: Any) -> int:
    """A timestamp or timeuuid of the driver, in ms since the epoch."""
    if isinstance(value, uuid.UUID):
        return (value.time - _UUID_EPOCH) // 10_000
    return timestamp_to_ms(_timestamp(value))


def _date(value: Any) -> date:
    return days_to_date(value.days_from_epoch)


def _nanos(value: Any) -> int:
    return int(value.nanosecond_time)


def _inet(value: str) -> str:
    """An address as Java prints it: after a slash, unabbreviated."""
    address = ipaddress.ip_address(value)
    if isinstance(address, ipaddress.IPv4Address):
        return f"/{address}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


TYPES: Final[Mapping[str, tuple[Schema, Convert]]] = {
    "ascii": (OPTIONAL_STRING, _same),
    "text": (OPTIONAL_STRING, _same),
    "varchar": (OPTIONAL_STRING, _same),
    "boolean": (OPTIONAL_BOOLEAN, _same),
    "tinyint": (OPTIONAL_INT8, _same),
    "smallint": (OPTIONAL_INT16, _same),
    "int": (OPTIONAL_INT32, _same),
    "bigint": (OPTIONAL_INT64, _same),
    "counter": (OPTIONAL_INT64, _same),
    "varint": (OPTIONAL_INT64, _long),
    "float": (OPTIONAL_FLOAT32, _same),
    "double": (OPTIONAL_FLOAT64, _same),
    "decimal": (_DECIMAL, _decimal),
    "date": (DATE.as_optional(), _date),
    "time": (OPTIONAL_INT64, _nanos),
    "timestamp": (TIMESTAMP.as_optional(), _timestamp),
    "uuid": (OPTIONAL_STRING, str),
    "timeuuid": (OPTIONAL_STRING, str),
    "inet": (OPTIONAL_STRING, _inet),
    "blob": (OPTIONAL_BYTES, _same),
    "duration": (OPTIONAL_STRING, str),
}
"""The schema of each simple type, and the conversion from the driver's values."""


def reading(kind: Any, *, as_json: bool) -> tuple[Schema, Convert]:
    """The schema for columns of a driver type, and the conversion of their values; `as_json`:
    collections become strings."""
    simple = TYPES.get(kind.typename)
    if simple is not None:
        return simple
    if is_user_type(kind) or kind.typename == "tuple":
        return OPTIONAL_STRING, lambda value: literal(kind, value)
    if kind.typename not in ("list", "set", "map") and not is_vector(kind):
        raise ConfigInvalid([f"Unsupported Cassandra type {kind.typename}."])
    if as_json:
        return OPTIONAL_STRING, lambda value: json_of(kind, value)
    if kind.typename == "map":
        (key_schema, of_key), (schema, of_value) = (
            reading(subtype, as_json=False) for subtype in kind.subtypes
        )
        return map_of(key_schema, schema, optional=True), lambda value: {
            _or_none(of_key, key): _or_none(of_value, item) for key, item in value.items()
        }
    inner = kind.subtype if is_vector(kind) else kind.subtypes[0]
    schema, convert = reading(inner, as_json=False)
    return array(schema, optional=True), lambda value: [_or_none(convert, item) for item in value]


def _or_none(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def rows_as(
    names: Sequence[str], kinds: Sequence[Any], ignored: Iterable[str], name: str, *, as_json: bool
) -> tuple[Schema, Callable[[Sequence[Any]], dict[str, Any]]]:
    """The schema of rows with these columns, and the conversion of a row."""
    ignored_columns = set(ignored)
    columns = [
        (index, column, *reading(kind, as_json=as_json))
        for index, (column, kind) in enumerate(zip(names, kinds, strict=True))
        if column not in ignored_columns
    ]
    schema = struct({column: field for _, column, field, _ in columns}, name=name)

    def value_of(row: Sequence[Any]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for index, column, _, convert in columns:
            cell = row[index]
            value[column] = cell if cell is None or convert is _same else convert(cell)
        return value

    return schema, value_of


def json_of(kind: Any, value: Any) -> str:
    """A collection in JSON."""
    return orjson.dumps(_json_value(kind, value), option=orjson.OPT_NON_STR_KEYS).decode()


def _json_value(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    name = kind.typename
    if name == "map":
        return {
            _json_key(kind.subtypes[0], key): _json_value(kind.subtypes[1], item)
            for key, item in value.items()
        }
    if name in ("list", "set"):
        return [_json_value(kind.subtypes[0], item) for item in value]
    if is_vector(kind):
        return [_json_value(kind.subtype, item) for item in value]
    return _json_cell(kind, value)


def _json_cell(kind: Any, value: Any) -> Any:
    match kind.typename:
        case "decimal":
            return orjson.Fragment(decimal_text(value))
        case "varint":
            return orjson.Fragment(str(value))
        case "timestamp":
            return timestamp_to_ms(_timestamp(value))
        case "time":
            return _nanos(value)
        case "blob":
            return base64.b64encode(value).decode()
        case "tinyint" | "smallint" | "int" | "bigint" | "boolean" | "float" | "double":
            return value
        case "inet":
            return str(value)
    if is_user_type(kind) or kind.typename == "tuple":
        return literal(kind, value)
    return str(value)


def _json_key(kind: Any, value: Any) -> str:
    converted = _json_value(kind, value)
    return converted if isinstance(converted, str) else orjson.dumps(converted).decode()


def literal(kind: Any, value: Any) -> str:
    """A value as a CQL literal."""
    if value is None:
        return "NULL"
    name = kind.typename
    if is_user_type(kind):
        fields = zip(kind.fieldnames, kind.subtypes, value, strict=True)
        return (
            "{" + ",".join(f"{field}:{literal(inner, cell)}" for field, inner, cell in fields) + "}"
        )
    if name == "tuple":
        cells = zip(kind.subtypes, value, strict=True)
        return "(" + ",".join(literal(inner, cell) for inner, cell in cells) + ")"
    if name == "map":
        of_key, of_value = kind.subtypes
        pairs = (f"{literal(of_key, key)}:{literal(of_value, item)}" for key, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if name in ("list", "set") or is_vector(kind):
        inner = kind.subtype if is_vector(kind) else kind.subtypes[0]
        opening, closing = "{}" if name == "set" else "[]"
        return opening + ",".join(literal(inner, item) for item in value) + closing
    match name:
        case "ascii" | "text" | "varchar":
            return "'" + str(value).replace("'", "''") + "'"
        case "boolean":
            return "true" if value else "false"
        case "blob":
            return f"0x{value.hex()}"
        case "decimal":
            return decimal_text(value)
        case "float" | "double":
            return double_text(value)
        case "timestamp":
            moment = _timestamp(value)
            return f"'{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z'"
        case "date" | "time" | "inet":
            return f"'{value}'"
    return str(value)
