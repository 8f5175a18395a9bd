"""Converts record values to CQL types, like DataStax's codecs (connectors.md §7.1): lenient, but
never silently lossy.

A `converter` returns values for the driver to serialize, an `encoder` bytes. A value that does not
fit raises DataError. Null stays null.
"""

from __future__ import annotations

import ipaddress
import math
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import orjson

from penstock.api import DataError
from penstock.api.schema import (
    date_to_days,
    decimal_text,
    double_text,
    float32,
    timestamp_to_ms,
)
from penstock.connectors.cassandra.text.types import is_user_type, is_vector, type_name
from penstock.connectors.cassandra.text.values import (
    UNITS,
    Texts,
    blob_of,
    duration_of,
)

Convert = Callable[[Any], Any]
Encode = Callable[[Any], bytes | None]

_INTEGERS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "counter": 64}
_PACKS: Final = {
    "tinyint": struct.Struct(">b").pack,
    "smallint": struct.Struct(">h").pack,
    "int": struct.Struct(">i").pack,
    "bigint": struct.Struct(">q").pack,
    "counter": struct.Struct(">q").pack,
}
_PACK_DOUBLE: Final = struct.Struct(">d").pack
_TEXTS: Final = ("ascii", "text", "varchar")
_DAY_ZERO: Final = 1 << 31  # CQL's number of 1 January 1970
_MICROS_NS: Final = 1_000
_UNENCODABLE: Final = (struct.error, TypeError, ValueError, OverflowError, AttributeError)


def encoder(kind: Any, texts: Texts, protocol: int) -> Encode:
    """The encoder of a driver type: it serializes values for a column."""
    convert, serialize = converter(kind, texts), kind.serialize

    def encode(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            converted = convert(value)
            return None if converted is None else bytes(serialize(converted, protocol))
        except DataError:
            raise
        except _UNENCODABLE as error:
            raise DataError(f"{_shown(value)} is not of type {type_name(kind)}: {error}") from error

    name = kind.typename
    if name in _TEXTS:

        def encode_text(value: Any) -> bytes | None:
            return value.encode() if type(value) is str and name != "ascii" else encode(value)

        return encode_text
    if name in _PACKS:
        pack, bound = _PACKS[name], 1 << (_INTEGERS[name] - 1)

        def encode_integer(value: Any) -> bytes | None:
            if type(value) is int and -bound <= value < bound:
                return pack(value)
            return encode(value)

        return encode_integer
    if name == "double":

        def encode_double(value: Any) -> bytes | None:
            return _PACK_DOUBLE(value) if type(value) is float else encode(value)

        return encode_double
    return encode


def converter(kind: Any, texts: Texts) -> Convert:
    """The converter of a driver type, to the driver's values."""
    name = kind.typename
    if name in _TEXTS:
        return _ascii if name == "ascii" else _text
    if name in _INTEGERS:
        return _integer(name, _INTEGERS[name], texts)
    simple: dict[str, Callable[[Texts], Convert]] = {
        "boolean": _boolean,
        "varint": lambda texts: _integer("varint", None, texts),
        "float": _float,
        "double": _double,
        "decimal": _decimal,
        "date": _date,
        "time": _time,
        "timestamp": _timestamp,
        "uuid": lambda texts: _uuid("uuid", texts),
        "timeuuid": lambda texts: _uuid("timeuuid", texts),
        "inet": lambda texts: _inet,
        "blob": lambda texts: _blob,
        "duration": lambda texts: _duration,
    }
    if name in simple:
        return simple[name](texts)
    if name in ("list", "set"):
        return _many(kind, converter(kind.subtypes[0], texts))
    if name == "map":
        return _map(kind, converter(kind.subtypes[0], texts), converter(kind.subtypes[1], texts))
    if is_vector(kind):
        return _vector(kind, converter(kind.subtype, texts))
    if is_user_type(kind):
        return _struct(kind, [converter(subtype, texts) for subtype in kind.subtypes])
    if name == "tuple":
        return _tuple(kind, [converter(subtype, texts) for subtype in kind.subtypes])
    raise DataError(f"Columns of type {type_name(kind)} are not supported")


def _shown(value: Any) -> str:
    text = str(value) if not isinstance(value, str) else f"'{value}'"
    return text if len(text) <= 60 else f"{text[:57]}…"


def _misfit(value: Any, name: str) -> DataError:
    return DataError(f"{_shown(value)} ({type(value).__name__}) cannot be stored as {name}")


def _ascii(value: Any) -> Any:
    text = _text(value)
    if not text.isascii():
        raise DataError(f"{_shown(value)} is not ASCII")
    return text


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return double_text(value)
        case Decimal():
            return decimal_text(value)
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case list() | dict():
            return json_of(value)
    raise _misfit(value, "text")


def json_of(value: Any) -> str:
    """A value without a schema, in JSON."""
    return orjson.dumps(
        value, default=_json_part, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
    ).decode()


def _json_part(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(decimal_text(value))
    if isinstance(value, bytes):
        return "0x" + value.hex()
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def _number(value: Any, name: str, texts: Texts) -> int | Decimal | float | None:
    """A value as a number; None for an empty text."""
    match value:
        case bool():
            return int(value)
        case int() | float() | Decimal():
            return value
        case str():
            if not value.strip():
                return None
            try:
                return texts.number(value)
            except DataError:
                try:
                    return _in_units(texts.timestamp_ms(value), texts)
                except DataError:
                    pass
                raise
        case datetime():
            return _in_units(timestamp_to_ms(value), texts)
        case date():
            return _in_units(date_to_days(value) * 86_400_000, texts)
    raise _misfit(value, name)


def _in_units(ms: int, texts: Texts) -> int:
    return ms * 1_000_000 // UNITS[texts.unit]


def _integer(name: str, bits: int | None, texts: Texts) -> Convert:
    bound = None if bits is None else 1 << (bits - 1)

    def convert(value: Any) -> Any:
        number = _number(value, name, texts)
        if number is None:
            return None
        if not isinstance(number, int):
            if not math.isfinite(number) or number != int(number):
                raise DataError(f"{_shown(value)} is not an integer, as required for {name}")
            number = int(number)
        if bound is not None and not -bound <= number < bound:
            raise DataError(f"{_shown(value)} is out of range for {name}")
        return number

    return convert


def _boolean(texts: Texts) -> Convert:
    def convert(value: Any) -> Any:
        match value:
            case bool():
                return value
            case int() | float() | Decimal() if value in (0, 1):
                return bool(value)
            case str():
                return texts.boolean(value) if value.strip() else None
        raise _misfit(value, "boolean")

    return convert


def _float(texts: Texts) -> Convert:
    double = _double(texts)

    def convert(value: Any) -> Any:
        number = double(value)
        if number is None or not math.isfinite(number):
            return number
        single = float32(number)
        if math.isinf(single):
            raise DataError(f"{_shown(value)} is out of range for float")
        return single

    return convert


_SPECIAL: Final = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}


def _double(texts: Texts) -> Convert:
    def convert(value: Any) -> Any:
        if isinstance(value, str) and value.strip().lower() in _SPECIAL:
            return _SPECIAL[value.strip().lower()]
        number = _number(value, "double", texts)
        if number is None:
            return None
        double = float(number)
        if math.isinf(double) and not isinstance(number, float):
            raise DataError(f"{_shown(value)} is out of range for double")
        return double

    return convert


def _decimal(texts: Texts) -> Convert:
    def convert(value: Any) -> Any:
        number = _number(value, "decimal", texts)
        if number is None or isinstance(number, Decimal):
            converted = number
        else:
            converted = Decimal(number) if isinstance(number, int) else Decimal(double_text(number))
        if converted is not None and not converted.is_finite():
            raise DataError(f"{_shown(value)} is not a decimal")
        return converted

    return convert


def _timestamp(texts: Texts) -> Convert:
    def convert(value: Any) -> Any:
        match value:
            case datetime():
                return timestamp_to_ms(value)
            case date():
                return date_to_days(value) * 86_400_000
            case str():
                return texts.timestamp_ms(value) if value.strip() else None
            case bool():
                pass
            case int() | float() | Decimal():
                return texts.units_ms(value)
        raise _misfit(value, "timestamp")

    return convert


def _date(texts: Texts) -> Convert:
    def convert(value: Any) -> Any:
        match value:
            case datetime():
                days = timestamp_to_ms(value) // 86_400_000
            case date():
                days = date_to_days(value)
            case str():
                if not value.strip():
                    return None
                days = texts.days(value)
            case bool():
                raise _misfit(value, "date")
            case int() | float() | Decimal():
                days = texts.units_ms(value) // 86_400_000
            case _:
                raise _misfit(value, "date")
        if not -_DAY_ZERO <= days < _DAY_ZERO:
            raise DataError(f"{_shown(value)} is out of range for date")
        return days + _DAY_ZERO

    return convert


def _time(texts: Texts) -> Convert:
    from cassandra.util import Time

    def convert(value: Any) -> Any:
        match value:
            case datetime():
                return Time(_day_ns(value.astimezone(UTC).time()))
            case time():
                return Time(_day_ns(value))
            case str():
                return Time(texts.day_ns(value)) if value.strip() else None
            case bool():
                pass
            case int() | float() | Decimal():
                return Time(texts.units_day_ns(value))
        raise _misfit(value, "time")

    return convert


def _day_ns(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * _MICROS_NS


def _uuid(name: str, texts: Texts) -> Convert:
    from cassandra.util import uuid_from_time

    timestamp = _timestamp(texts)

    def convert(value: Any) -> Any:
        converted: uuid.UUID | None = None
        match value:
            case uuid.UUID():
                converted = value
            case bytes() if len(value) == 16:
                converted = uuid.UUID(bytes=value)
            case str():
                if not value.strip():
                    return None
                try:
                    converted = uuid.UUID(value.strip())
                except ValueError:
                    converted = None
        if converted is None:
            try:
                converted = uuid_from_time(timestamp(value) / 1000)
            except DataError as error:
                raise DataError(f"{_shown(value)} is not of type {name}") from error
        if name == "timeuuid" and converted.version != 1:
            raise DataError(f"{_shown(value)} is not a timeuuid: its version is not 1")
        return converted

    return convert


def _inet(value: Any) -> Any:
    try:
        if isinstance(value, str):
            return str(ipaddress.ip_address(value.strip())) if value.strip() else None
        if isinstance(value, bytes):
            return str(ipaddress.ip_address(value))
    except ValueError as error:
        raise DataError(f"{_shown(value)} is not an IP address") from error
    raise _misfit(value, "inet")


def _blob(value: Any) -> Any:
    match value:
        case bytes():
            return value
        case str():
            return blob_of(value)
        case uuid.UUID():
            return value.bytes
    raise _misfit(value, "blob")


def _duration(value: Any) -> Any:
    from cassandra.util import Duration

    if isinstance(value, str):
        return Duration(*duration_of(value)) if value.strip() else None
    raise _misfit(value, "duration")


def _parsed(value: Any, name: str) -> Any:
    """Parses JSON from a string; None if it is empty. Returns other values unchanged."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{_shown(value)} is not JSON, as required for {name}: {error}") from error


def _items(value: Any, name: str) -> Sequence[Any] | None:
    parsed = _parsed(value, name)
    if parsed is None or isinstance(parsed, (list, tuple)):
        return parsed
    if isinstance(parsed, (set, frozenset)):
        return list(parsed)
    raise _misfit(value, name)


def _element(convert: Convert, value: Any, name: str) -> Any:
    converted = None if value is None else convert(value)
    if converted is None:
        raise DataError(f"null cannot be stored in {name}")
    return converted


def _many(kind: Any, convert: Convert) -> Convert:
    name = type_name(kind)
    is_set = kind.typename == "set"

    def convert_all(value: Any) -> Any:
        items = _items(value, name)
        if items is None:
            return None
        converted = [_element(convert, item, name) for item in items]
        return _distinct(converted) if is_set else converted

    return convert_all


def _distinct(items: list[Any]) -> list[Any]:
    try:
        return list(dict.fromkeys(items))
    except TypeError:  # unhashable, such as lists
        return [item for index, item in enumerate(items) if item not in items[:index]]


class _Pairs(list[tuple[Any, Any]]):
    """Entries of a map with keys that may be unhashable."""

    def items(self) -> list[tuple[Any, Any]]:
        return self


def _map(kind: Any, of_key: Convert, of_value: Convert) -> Convert:
    name = type_name(kind)

    def convert(value: Any) -> Any:
        parsed = _parsed(value, name)
        if parsed is None:
            return None
        if isinstance(parsed, Mapping):
            pairs: Any = parsed.items()
        elif isinstance(parsed, list) and all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in parsed
        ):
            pairs = parsed
        else:
            raise _misfit(value, name)
        return _Pairs(
            (_element(of_key, key, name), _element(of_value, item, name)) for key, item in pairs
        )

    return convert


def _vector(kind: Any, convert: Convert) -> Convert:
    name, size = type_name(kind), kind.vector_size

    def convert_all(value: Any) -> Any:
        items = _items(value, name)
        if items is None:
            return None
        if len(items) != size:
            raise DataError(f"{_shown(value)} has {len(items)} elements, but {name} has {size}")
        return [_element(convert, item, name) for item in items]

    return convert_all


def _tuple(kind: Any, converts: Sequence[Convert]) -> Convert:
    name = type_name(kind)

    def convert(value: Any) -> Any:
        items = _items(value, name)
        return None if items is None else _converted(items, converts, value, name)

    return convert


def _struct(kind: Any, converts: Sequence[Convert]) -> Convert:
    name, fields = type_name(kind), list(kind.fieldnames)

    def convert(value: Any) -> Any:
        parsed = _parsed(value, name)
        if parsed is None:
            return None
        if isinstance(parsed, Mapping):
            if set(parsed) != set(fields):
                missing = [field for field in fields if field not in parsed]
                extra = [str(field) for field in parsed if field not in fields]
                problem = "; ".join(
                    f"{problem_kind}: {', '.join(names)}"
                    for problem_kind, names in (("missing", missing), ("unknown", extra))
                    if names
                )
                raise DataError(f"The fields do not match {name}: {problem}")
            parsed = [parsed[field] for field in fields]
        if not isinstance(parsed, (list, tuple)):
            raise _misfit(value, name)
        return _converted(parsed, converts, value, name)

    return convert


def _converted(
    items: Sequence[Any], converts: Sequence[Convert], value: Any, name: str
) -> tuple[Any, ...]:
    if len(items) != len(converts):
        raise DataError(f"{_shown(value)} has {len(items)} fields, but {name} has {len(converts)}")
    return tuple(
        None if item is None else convert(item)
        for item, convert in zip(items, converts, strict=True)
    )
