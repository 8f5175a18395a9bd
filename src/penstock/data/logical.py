"""Logical values and the base values that encode them, both ways (kafka-connect.md §9.1).

    Decimal     unscaled value, two's complement, big endian, as few bytes as hold it
    Date        days since 1970-01-01
    Time        ms since midnight
    Timestamp   ms since the epoch, UTC

Python's dates are within the years 1 to 9999, unlike Java's; others raise DataError.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import Final

from penstock.errors import DataError

MS_PER_DAY: Final = 86_400_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_MS: Final = timedelta(milliseconds=1)
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation])
_UNIT: Final = Decimal(1)


def decimal_to_bytes(value: Decimal, scale: int) -> bytes:
    """The bytes of a finite value of a Decimal schema. Raises DataError for another scale."""
    unscaled = value.scaleb(scale, _EXACT)
    if not unscaled.same_quantum(_UNIT):
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {-int(value.as_tuple().exponent)}."
        )
    return int_to_bytes(int(unscaled))


def bytes_to_decimal(data: bytes, scale: int) -> Decimal:
    """The value of a Decimal schema with that scale. Raises DataError for empty bytes."""
    if not data:
        raise DataError("Zero length BigInteger")
    return unscaled_to_decimal(int.from_bytes(data, signed=True), scale)


def unscaled_to_decimal(unscaled: int, scale: int) -> Decimal:
    """`unscaled` · 10^-`scale`, exactly, with that scale."""
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def int_to_bytes(value: int) -> bytes:
    """Two's complement, big endian, as few bytes as hold it (Java's `BigInteger.toByteArray`)."""
    bits = (value if value >= 0 else ~value).bit_length()
    return value.to_bytes(bits // 8 + 1, signed=True)


def date_to_days(value: date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - _EPOCH_ORDINAL


def days_to_date(days: int) -> date:
    """The day that many days after 1970-01-01."""
    try:
        return date.fromordinal(_EPOCH_ORDINAL + days)
    except (ValueError, OverflowError) as cause:
        raise DataError(f"Date {days} is outside the years 1 to 9999") from cause


def time_to_ms(value: time) -> int:
    """Milliseconds since midnight, rounded down."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def ms_to_time(ms: int) -> time:
    """The time that many milliseconds after midnight.

    Java accepts 86400000, which a `datetime.time` cannot represent; here it raises DataError.
    """
    if not 0 <= ms < MS_PER_DAY:
        raise DataError(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    seconds, ms = divmod(ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, ms * 1000)


def timestamp_to_ms(value: datetime) -> int:
    """Milliseconds since the epoch, rounded down. Raises DataError without a time zone."""
    if value.tzinfo is None:
        raise DataError("Timestamp values must have a time zone")
    return (value - EPOCH) // _MS


def ms_to_timestamp(ms: int) -> datetime:
    """The moment that many milliseconds after the epoch, in UTC."""
    try:
        return EPOCH + timedelta(0, 0, 0, ms)
    except OverflowError as cause:
        raise DataError(f"Timestamp {ms} is outside the years 1 to 9999") from cause
