"""Headers as text, whose schema is inferred when they are read (kafka-connect.md §9.4).

A value that is written and read again may have another type: the STRING `12` becomes INT8, a struct
a MAP. See `penstock.data.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from penstock import KAFKA_VERSION
from penstock.api.converter import HeaderConverter, Use
from penstock.api.plugin import Plugin
from penstock.config.define import Config, ConfigDef
from penstock.convert.text import decode_utf8
from penstock.data.records import Column, Failed
from penstock.data.schema import BYTES, Schema, Value
from penstock.data.value_text import text_of
from penstock.data.values import Parsed, parse
from penstock.errors import DataError

_MOST: Final = 4096
_LONGEST: Final = 256
"""The longest text that is cached, in bytes; texts that repeat are short."""

_NULL: Final[Parsed] = None, None


class SimpleHeaderConverter(HeaderConverter):
    """Reads text with an inferred schema, and writes text.

    Malformed UTF-8 is read with U+FFFD. A null has no schema. Values of equal texts are the same
    objects.
    """

    plugin = Plugin(
        class_name="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        version=KAFKA_VERSION,
        config=ConfigDef(),
    )

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use)
        self._read: dict[bytes | None, Parsed] = {None: _NULL}

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        values: list[Value] = []
        schemas: list[Schema | None] = []
        read = self._read
        for cell in cells:
            parsed = read.get(cell)
            if parsed is None:
                assert cell is not None  # null was handled before
                parsed = self._parsed(cell)
            schema, value = parsed
            values.append(value)
            schemas.append(schema)
        return Column.gather(values, schemas)

    def _parsed(self, cell: bytes) -> Parsed:
        """Parses a cell, and caches the result."""
        parsed: Parsed
        try:
            parsed = parse(decode_utf8(cell))
        except RecursionError:
            # Nested too deeply: BYTES, as in Kafka Connect when its stack overflows.
            parsed = BYTES, cell
        if len(cell) <= _LONGEST:
            if len(self._read) > _MOST:
                self._read.clear()
                self._read[None] = _NULL
            self._read[cell] = parsed
        return parsed

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        cells: list[bytes | None] = []
        for schema, start, stop in column.slices():
            text = text_of(schema)
            for row in range(start, stop):
                value = column.values[row]
                try:
                    cells.append(None if value is None else _encoded(text, value))
                except Exception as cause:
                    failed[row] = _data_error(cause)
                    cells.append(None)
        return cells


def _encoded(text: Callable[[Value], str], value: Value) -> bytes:
    return text(value).encode("utf-8", "replace")


def _data_error(cause: Exception) -> DataError:
    if isinstance(cause, DataError):
        return cause
    error = DataError(f"The value cannot be converted to a string: {cause}")
    error.__cause__ = cause
    return error
