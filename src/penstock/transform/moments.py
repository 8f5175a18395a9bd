"""Lists of moments to and from ms since the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.data.logical import EPOCH, ms_to_timestamp, timestamp_to_ms

_MS: Final = timedelta(milliseconds=1)
_EXACT_MS: Final = 1 << 42  # until here, in 2109, a float of seconds is exact to the ms


def to_moments(ms: Sequence[int]) -> list[datetime]:
    """The moments, in UTC. Raises DataError if one is not in the years 1 to 9999."""
    if ms and min(ms) >= 0 and max(ms) < _EXACT_MS:
        at = datetime.fromtimestamp
        return [at(value / 1000, UTC) for value in ms]
    return list(map(ms_to_timestamp, ms))


def to_ms(moments: Sequence[datetime]) -> list[int]:
    """The ms since the epoch. Raises DataError if one has no time zone."""
    try:
        return [(moment - EPOCH) // _MS for moment in moments]
    except TypeError:
        return list(map(timestamp_to_ms, moments))
