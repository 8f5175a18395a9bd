"""The times that RecordField extracts from values.

Text is a number of ms, or one of the forms of ISO 8601 that Joda-Time's
ISODateTimeFormat.dateTimeParser reads:

    2023   2023-11   2023-11-14   2023-318   2023-W46-2   2023-11-14T22:13:20.5+01:00   T22:13

`2023` is a number.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Final

from penstock.api import DataError
from penstock.api.schema import EPOCH, Value

_MS: Final = timedelta(milliseconds=1)
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_LONG: Final = range(-(2**63), 2**63)
_TIME: Final = (
    r"(?P<hour>\d\d?)(?:[.,](?P<of_hour>\d{1,9})"
    r"|:(?P<minute>\d\d?)(?:[.,](?P<of_minute>\d{1,9})"
    r"|:(?P<second>\d\d?)(?:[.,](?P<of_second>\d{1,9}))?)?)?"
)
_ZONE: Final = (
    r"(?P<zone>[Zz]|[+-]\d\d(?::\d\d(?::\d\d(?:[.,]\d{1,3})?)?|\d\d(?:\d\d(?:\d{1,3})?)?)?)"
)
_DATE: Final = (
    r"(?P<year>[+-]?\d{1,9})(?:-(?P<day_of_year>\d{3})|-(?P<month>\d\d?)(?:-(?P<day>\d\d?))?"
    r"|-[Ww](?P<week>\d\d?)(?:-(?P<weekday>\d))?)?"
)
_MOMENT: Final = re.compile(
    rf"(?:{_DATE}(?:[Tt](?:{_TIME})?{_ZONE}?)?)"
    rf"|(?:[Tt]{_TIME.replace('?P<', '?P<t_')}{_ZONE.replace('?P<', '?P<t_')}?)",
    re.ASCII,
)
_UNITS_MS: Final = {"of_hour": 3_600_000, "of_minute": 60_000, "of_second": 1000}


def time_of(value: Value, field: str) -> int:
    """The time (ms) in a field: a number, a Timestamp, or a text; in UTC if it has no zone. Raises
    DataError, which names the field."""
    if isinstance(value, datetime):
        return (value - EPOCH) // _MS
    if isinstance(value, str):
        return _parsed(value, field)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return int(value)
    found = "null" if value is None else type(value).__name__
    if isinstance(value, float):
        found = str(value)
    raise DataError(
        f"Field '{field}' (timestamp.field) contains {found}; it must be a number, a Timestamp or "
        "a string"
    )


def _parsed(text: str, field: str) -> int:
    if _NUMBER.fullmatch(text) and int(text) in _LONG:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return parse_iso(text)
        except (ValueError, OverflowError) as cause:
            raise DataError(
                f"Field '{field}' (timestamp.field) contains {text!r}, which is neither a number "
                f"of ms nor an ISO 8601 time ({cause})"
            ) from cause
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // _MS


def parse_iso(text: str) -> int:
    """The time (ms) of an ISO 8601 text, as Joda-Time's dateTimeParser reads it.

    >>> parse_iso("2023-11") == parse_iso("2023-11-01T00:00Z"), parse_iso("T01:00")
    (True, 3600000)

    Raises ValueError or OverflowError.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("unknown format")
    parts = match.groupdict()
    if parts["year"] is None:
        parts = {name: parts.get(f"t_{name}") for name in parts}
    day = _day(parts)
    clock = time(int(parts["hour"] or 0), int(parts["minute"] or 0), int(parts["second"] or 0))
    moment = datetime.combine(day, clock, UTC)
    rest = sum(_fraction(parts[name] or "", unit) for name, unit in _UNITS_MS.items())
    return (moment - EPOCH) // _MS + rest - _offset_ms(parts["zone"] or "Z")


def _day(parts: dict[str, str | None]) -> date:
    if parts["year"] is None:
        return EPOCH.date()
    year = int(parts["year"])
    if parts["week"] is not None:
        return date.fromisocalendar(year, int(parts["week"]), int(parts["weekday"] or 1))
    if parts["day_of_year"] is not None:
        day = date(year, 1, 1) + timedelta(int(parts["day_of_year"]) - 1)
        if day.year != year:
            raise ValueError("the year has no such day")
        return day
    return date(year, int(parts["month"] or 1), int(parts["day"] or 1))


def _fraction(digits: str, unit_ms: int) -> int:
    """Digits after the decimal point of a unit, in ms; each digit is truncated separately."""
    total, share = 0, unit_ms * 10
    for digit in digits:
        share //= 10
        total += int(digit) * share
    return total // 10


def _offset_ms(zone: str) -> int:
    if zone in "Zz":
        return 0
    sign = -1 if zone[0] == "-" else 1
    digits = re.sub(r"[:.,]", "", zone[1:])
    hours, minutes, seconds = (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("the offset of its zone is out of range")
    milliseconds = int(digits[6:].ljust(3, "0"))
    return sign * (((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds)
