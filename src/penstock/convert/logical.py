"""Logical values as the numbers that encode them. Values of another type raise DataError, worded
as in Kafka Connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Final

from penstock.data.logical import date_to_days, time_to_ms, timestamp_to_ms
from penstock.data.schema import Logical, Value, java_class
from penstock.errors import DataError


def _write_date(value: Value) -> int:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise not_date("Date", value)
    return date_to_days(value)


def _write_time(value: Value) -> int:
    if not isinstance(value, time):
        raise not_date("Time", value)
    return time_to_ms(value)


def _write_timestamp(value: Value) -> int:
    if not isinstance(value, datetime):
        raise not_date("Timestamp", value)
    return timestamp_to_ms(value)


TEMPORAL_WRITERS: Final[Mapping[Logical | None, Callable[[Value], int]]] = {
    Logical.DATE: _write_date,
    Logical.TIME: _write_time,
    Logical.TIMESTAMP: _write_timestamp,
}


def not_date(logical: str, value: Value) -> DataError:
    """The error for a value that is not a Date, Time or Timestamp."""
    return DataError(f"Invalid type for {logical}, expected Date but was {java_class(value)}")


def not_decimal(value: Value) -> DataError:
    """The error for a value that is not a Decimal."""
    return DataError(f"Invalid type for Decimal, expected BigDecimal but was {java_class(value)}")
