"""Decimals as Avro encodes them."""

from __future__ import annotations

from decimal import Decimal

from penstock.convert.logical import not_decimal
from penstock.convert.shapes import Convert
from penstock.data.logical import decimal_to_bytes
from penstock.data.schema import Schema, Value
from penstock.errors import DataError


def decimal_writer(schema: Schema, size: int | None = None) -> Convert:
    """The function that writes a Decimal as bytes, or as a fixed of `size` bytes."""
    scale = schema.scale

    def prepare(value: Value) -> Value:
        if not isinstance(value, Decimal):
            raise not_decimal(value)
        data = decimal_to_bytes(value, scale)
        if size is None:
            return data
        if len(data) > size:
            raise DataError(f"{value} does not fit the {size} bytes of {schema.name}")
        return (b"\xff" if data[0] & 0x80 else b"\0") * (size - len(data)) + data

    return prepare
