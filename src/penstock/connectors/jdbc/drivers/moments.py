"""Conversion between instants and wall clock times, which most columns of databases hold."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

_OFFSET: Final = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")


def zone(name: str) -> ZoneInfo:
    """The time zone of that name, as Java reads it (`GMT+2` too); ValueError if unknown.

    >>> zone("GMT+2").key
    'Etc/GMT-2'
    """
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):  # LookupError: zoneinfo does not know the name
        offset = _OFFSET.fullmatch(name)
        if offset is None or offset[3] not in (None, "00"):
            raise ValueError(f"not a time zone: {name!r}") from None
    hours = int(offset[2])
    if hours > 12:
        raise ValueError(f"not a time zone: {name!r}")
    # POSIX names have the opposite sign.
    return ZoneInfo(f"Etc/GMT{'-' if offset[1] == '+' else '+'}{hours}" if hours else "UTC")


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(us: int) -> datetime:
    """The instant `us` microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=us)


def digits(ns: int, count: int = 6) -> str:
    """A moment in nanoseconds since 1970 in SQL's form, with at most `count` digits of a second;
    the others are cut off.

    >>> digits(1_500_250_123, 9)
    '1970-01-01 00:00:01.500250123'
    """
    us, rest = divmod(ns, 1000)
    at = moment(us)
    text = f"{at.year:04}-{at:%m-%d %H:%M:%S}.{at.microsecond:06}{rest:03}"
    return text[: len(text) - 9 + count].rstrip(".")


def instant_us(wall_us: int, zone: ZoneInfo) -> int:
    """The instant at which a wall clock in the zone shows `wall_us` microseconds since 1970. Like
    Java, it takes the later of two, and reads a skipped time as if it existed.

    >>> instant_us(0, ZoneInfo("Europe/Berlin"))
    -3600000000
    """
    wall = (_EPOCH + timedelta(microseconds=wall_us)).replace(tzinfo=zone)
    early, late = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    assert early is not None
    assert late is not None
    # With a gap, the offset before it is the smaller one; with a repetition, the one after it.
    return wall_us - min(early, late) // timedelta(microseconds=1)


def wall_us(instant: int, zone: ZoneInfo) -> int:
    """The wall clock time of an instant in the zone, in microseconds since 1970."""
    shift = moment(instant).astimezone(zone).utcoffset()
    assert shift is not None
    return instant + shift // timedelta(microseconds=1)


@cache
def clock_shift(zone: ZoneInfo) -> timedelta:
    """How far a clock in the zone is ahead of UTC for times without a date: Java places them on
    1970-01-01 and keeps their time in UTC."""
    return timedelta(microseconds=wall_us(0, zone))
