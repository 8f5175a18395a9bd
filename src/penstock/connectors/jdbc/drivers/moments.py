"""Moments, and what wall clocks show of them: most columns of databases hold the latter."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

_OFFSET: Final = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")


def zone(name: str) -> ZoneInfo:
    """The time zone of that name, as Java understands it (`GMT+2` too); ValueError for none.

    >>> zone("GMT+2").key
    'Etc/GMT-2'
    """
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):  # LookupError: what zoneinfo raises for none
        found = _OFFSET.fullmatch(name)
        if found is None or found[3] not in (None, "00"):
            raise ValueError(f"no time zone: {name!r}") from None
    hours = int(found[2])
    if hours > 12:
        raise ValueError(f"no time zone: {name!r}")
    # POSIX counts the other way round.
    return ZoneInfo(f"Etc/GMT{'-' if found[1] == '+' else '+'}{hours}" if hours else "UTC")


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(us: int) -> datetime:
    """So many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=us)


def instant_us(wall_us: int, zone: ZoneInfo) -> int:
    """When a wall clock in the zone shows so many microseconds since 1970, as Java reads it: the
    later of two such instants, and for a time that is skipped as if it were not.

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
    """What a wall clock in the zone shows then, in microseconds since 1970."""
    at = moment(instant).astimezone(zone)
    shift = at.utcoffset()
    assert shift is not None
    return instant + shift // timedelta(microseconds=1)


@cache
def clock_shift(zone: ZoneInfo) -> timedelta:
    """What a clock in the zone is ahead of UTC for times without a date: Java takes them to be of
    1970-01-01, and keeps the time of it in UTC."""
    return timedelta(microseconds=wall_us(0, zone))
