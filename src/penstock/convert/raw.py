"""Bytes as they are (kafka-connect.md §9.3)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import KAFKA_VERSION
from penstock.api.converter import Converter
from penstock.api.plugin import Plugin
from penstock.convert.settings import ANY_CONVERTER
from penstock.data.records import Column, Failed
from penstock.data.schema import OPTIONAL_BYTES, Type, java_class
from penstock.errors import DataError


class ByteArrayConverter(Converter):
    """Passes bytes through, as optional BYTES; refuses everything that is not bytes."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.converters.ByteArrayConverter",
        version=KAFKA_VERSION,
        config=ANY_CONVERTER,
    )

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        return Column.of(list(cells), OPTIONAL_BYTES)

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        cells: list[bytes | None] = []
        for schema, start, stop in column.slices():
            if schema is not None and schema.type is not Type.BYTES:
                message = f"Invalid schema type for ByteArrayConverter: {schema.type.name}"
                failed.update((row, DataError(message)) for row in range(start, stop))
                cells.extend([None] * (stop - start))
                continue
            for row in range(start, stop):
                value = column.values[row]
                if value is not None and type(value) is not bytes:
                    if isinstance(value, bytearray | memoryview):
                        value = bytes(value)
                    else:
                        failed[row] = DataError(
                            "ByteArrayConverter is not compatible with objects of type "
                            f"{java_class(value)}"
                        )
                        value = None
                cells.append(value)
        return cells
