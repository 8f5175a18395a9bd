"""Logical values as Avro encodes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final

from penstock.convert.shapes import Convert
from penstock.data.logical import date_to_days, decimal_to_bytes, time_to_ms, timestamp_to_ms
from penstock.data.schema import Logical, Schema, Value, java_class
from penstock.errors import DataError


def decimal_writer(schema: Schema, size: int | None = None) -> Convert:
    scale = schema.scale

    def prepare(value: Value) -> Value:
        if not isinstance(value, Decimal):
            raise DataError(
                f"Invalid type for Decimal, expected BigDecimal but was {java_class(value)}"
            )
        data = decimal_to_bytes(value, scale)
        if size is None:
            return data
        if len(data) > size:
            raise DataError(f"{value} does not fit the {size} bytes of {schema.name}")
        return (b"\xff" if data[0] & 0x80 else b"\0") * (size - len(data)) + data

    return prepare


def _prepare_date(value: Value) -> Value:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _not_date("Date", value)
    return date_to_days(value)


def _prepare_time(value: Value) -> Value:
    if not isinstance(value, time):
        raise _not_date("Time", value)
    return time_to_ms(value)


def _prepare_timestamp(value: Value) -> Value:
    if not isinstance(value, datetime):
        raise _not_date("Timestamp", value)
    return timestamp_to_ms(value)


def _not_date(logical: str, value: Value) -> DataError:
    return DataError(f"Invalid type for {logical}, expected Date but was {java_class(value)}")


LOGICAL_WRITERS: Final[Mapping[Logical | None, Convert]] = {
    Logical.DATE: _prepare_date,
    Logical.TIME: _prepare_time,
    Logical.TIMESTAMP: _prepare_timestamp,
}
