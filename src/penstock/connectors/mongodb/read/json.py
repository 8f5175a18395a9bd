"""Documents as JSON, as MongoDB's driver for Java writes them (`output.json.formatter`).

    type        Default (strict)         Extended                    Simplified
    int32       1                        {"$numberInt": "1"}         1
    int64       {"$numberLong": "1"}     {"$numberLong": "1"}        1
    double      1.5                      {"$numberDouble": "1.5"}    1.5
    date        {"$date": 1}             {"$date": {"$numberLong": "1"}}   "1970-01-01T00:00:00Z"
    ObjectId    {"$oid": "…"}            {"$oid": "…"}               "…"
    Decimal128  {"$numberDecimal": "…"}  {"$numberDecimal": "…"}     "…"
    binary      {"$binary": "…", …}      {"$binary": {"base64": "…", "subType": "00"}}   "…"

Offsets hold resume tokens in `RELAXED`.
"""

from __future__ import annotations

import base64
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from penstock.api import DataError
from penstock.api.schema import EPOCH, double_text
from penstock.connectors.mongodb.settings.names import JsonFormatter

Write = Callable[[Any], str]

_PLAIN: Final = re.compile(r"[ !#-\[\]-~]*\Z")
_SHORT: Final = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"
}  # fmt: skip
_SHOWN: Final = frozenset("Lu Ll Lt Lo Nd Nl No Zs Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split())
_YEAR_10000_MS: Final = 253_402_300_800_000


class Mode(Enum):
    """The form of values that JSON has no type for."""

    STRICT = "strict"
    EXTENDED = "extended"
    RELAXED = "relaxed"
    SIMPLIFIED = "simplified"


MODES: Final[Mapping[JsonFormatter, Mode]] = {
    JsonFormatter.DEFAULT: Mode.STRICT,
    JsonFormatter.EXTENDED: Mode.EXTENDED,
    JsonFormatter.SIMPLIFIED: Mode.SIMPLIFIED,
}


def quoted(text: str) -> str:
    """A text in quotes; escapes all but letters, digits, signs and spaces, by UTF-16 units."""
    if _PLAIN.match(text):
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char <= "\uffff" and unicodedata.category(char) in _SHOWN:
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def text_of(value: Any, mode: Mode = Mode.RELAXED) -> str:
    """A value as JSON; raises DataError for a type that BSON does not have."""
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is dict:
        if not value:
            return "{}"
        members = [f"{quoted(name)}: {text_of(member, mode)}" for name, member in value.items()]
        return f"{{{', '.join(members)}}}"
    if kind is list:
        return f"[{', '.join([text_of(item, mode) for item in value])}]"
    writer = _WRITERS.get(kind)
    if writer is None:
        writer = next(
            (candidate for kind, candidate in _WRITERS.items() if isinstance(value, kind)), None
        )
        if writer is None:
            raise DataError(f"{kind.__name__} is not a type of BSON")
    return writer(value, mode)


def ms_of(value: datetime | DatetimeMS) -> int:
    """Milliseconds since the epoch."""
    if isinstance(value, DatetimeMS):
        return int(value)
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (moment - EPOCH) // (datetime(1970, 1, 1, 0, 0, 0, 1000, UTC) - EPOCH)


def iso(ms: int) -> str:
    """A moment in ISO 8601, without trailing zeros of the second's fraction."""
    seconds, rest = divmod(ms, 1000)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
    except (ValueError, OverflowError, OSError) as error:
        raise DataError(f"Timestamp {ms} is outside the years 1 to 9999") from error
    return f"{text}.{f'{rest:03}'.rstrip('0')}Z" if rest else f"{text}Z"


def _int32(value: int, mode: Mode) -> str:
    if not -(1 << 31) <= value < 1 << 31:
        return _int64(value, mode)
    return f'{{"$numberInt": "{value:d}"}}' if mode is Mode.EXTENDED else f"{value:d}"


def _int64(value: int, mode: Mode) -> str:
    if mode in (Mode.RELAXED, Mode.SIMPLIFIED):
        return f"{value:d}"
    return f'{{"$numberLong": "{value:d}"}}'


def _double(value: float, mode: Mode) -> str:
    text = double_text(value)
    if mode is Mode.EXTENDED or (mode is not Mode.STRICT and not math.isfinite(value)):
        return f'{{"$numberDouble": "{text}"}}'
    return text


def _date(value: datetime | DatetimeMS, mode: Mode) -> str:
    ms = ms_of(value)
    match mode:
        case Mode.STRICT:
            return f'{{"$date": {ms}}}'
        case Mode.SIMPLIFIED:
            return f'"{iso(ms)}"'
        case Mode.RELAXED if 0 <= ms < _YEAR_10000_MS:
            return f'{{"$date": "{iso(ms)}"}}'
    return f'{{"$date": {{"$numberLong": "{ms}"}}}}'


def _binary(value: bytes, mode: Mode) -> str:
    text = base64.b64encode(value).decode()
    subtype = f"{value.subtype if isinstance(value, Binary) else 0:02X}"
    match mode:
        case Mode.STRICT:
            return f'{{"$binary": "{text}", "$type": "{subtype}"}}'
        case Mode.SIMPLIFIED:
            return f'"{text}"'
    return f'{{"$binary": {{"base64": "{text}", "subType": "{subtype}"}}}}'


def _object_id(value: ObjectId, mode: Mode) -> str:
    return f'"{value}"' if mode is Mode.SIMPLIFIED else f'{{"$oid": "{value}"}}'


def _decimal(value: Decimal128, mode: Mode) -> str:
    return f'"{value}"' if mode is Mode.SIMPLIFIED else f'{{"$numberDecimal": "{value}"}}'


def _regex(value: Regex[str], mode: Mode) -> str:
    flags = {re.I: "i", re.L: "l", re.M: "m", re.S: "s", re.U: "u", re.X: "x"}
    options = "".join(sorted(name for flag, name in flags.items() if value.flags & flag))
    pattern = quoted(value.pattern)
    if mode is Mode.STRICT:
        return f'{{"$regex": {pattern}, "$options": "{options}"}}'
    return f'{{"$regularExpression": {{"pattern": {pattern}, "options": "{options}"}}}}'


def _code(value: Code, mode: Mode) -> str:
    scope = "" if value.scope is None else f', "$scope": {text_of({**value.scope}, mode)}'
    return f'{{"$code": {quoted(str(value))}{scope}}}'


def _timestamp(value: Timestamp, mode: Mode) -> str:
    return f'{{"$timestamp": {{"t": {value.time}, "i": {value.inc}}}}}'


_WRITERS: Final[Mapping[type, Callable[[Any, Mode], str]]] = {
    type(None): lambda value, mode: "null",
    bool: lambda value, mode: "true" if value else "false",
    Int64: _int64,
    int: _int32,
    float: _double,
    datetime: _date,
    DatetimeMS: _date,
    Binary: _binary,
    bytes: _binary,
    ObjectId: _object_id,
    Decimal128: _decimal,
    Timestamp: _timestamp,
    Regex: _regex,
    Code: _code,
    DBRef: lambda value, mode: text_of({**value.as_doc()}, mode),
    MinKey: lambda value, mode: '{"$minKey": 1}',
    MaxKey: lambda value, mode: '{"$maxKey": 1}',
    dict: text_of,
    list: text_of,
    str: lambda value, mode: quoted(str(value)),
}
