"""Text, CSV and raw bytes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from penstock.api import Column, DataError, Failed
from penstock.api.schema import Schema, Type, Value, column_texts, decimal_text, utf8
from penstock.connectors.files.formats.codecs import FILE_CODECS, compressing
from penstock.connectors.files.formats.format import Encoder, Format, Out
from penstock.connectors.files.formats.json import line, plain_of


class TextLines(Format):
    """The text of each value on a line, as Java prints it."""

    def __init__(self, codec: str = "none", level: int | None = None) -> None:
        self._codec = codec
        self._level = level

    @property
    def ending(self) -> str:
        return f".txt{FILE_CODECS[self._codec]}"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _TextEncoder(compressing(self._codec, self._level, out))


class _TextEncoder(Encoder[list[Any]]):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def encode(self, column: Column) -> list[Any]:
        return column_texts(column, end="\n")

    def append(self, encoded: list[Any]) -> None:
        for texts in encoded:
            self._stream.write(utf8(texts))

    def finish(self) -> None:
        self._stream.finish()


class RawBytes(Format):
    """Values that are bytes, unchanged, each followed by a separator."""

    def __init__(
        self,
        codec: str = "none",
        level: int | None = None,
        *,
        extension: str = ".bin",
        separator: bytes = b"\n",
    ) -> None:
        self._codec = codec
        self._level = level
        self._extension = extension
        self._separator = separator

    @property
    def ending(self) -> str:
        return f"{self._extension}{FILE_CODECS[self._codec]}"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _BytesEncoder(compressing(self._codec, self._level, out), self._separator)


class _BytesEncoder(Encoder[list[bytes]]):
    def __init__(self, stream: Any, separator: bytes) -> None:
        self._stream = stream
        self._separator = separator

    def encode(self, column: Column) -> list[bytes] | Failed:
        values = column.values
        failed: Failed = {}
        if set(map(type, values)) != {bytes}:
            for row, value in enumerate(values):
                if not isinstance(value, bytes):
                    failed[row] = DataError(
                        f"ByteArrayFormat writes bytes, but the value is {type(value).__name__}; "
                        "use "
                        "value.converter=org.apache.kafka.connect.converters.ByteArrayConverter"
                    )
        return failed or values

    def append(self, encoded: list[bytes]) -> None:
        if encoded:
            self._stream.write(self._separator.join([*encoded, b""]))

    def finish(self) -> None:
        self._stream.finish()


class Csv(Format):
    """A line with the names of the fields, and one for each record (RFC 4180): structs, or maps
    with the same members as the first one of the file. Strings are quoted if necessary; null is
    empty, and an empty string is `""`. Nested values are written as JSON."""

    def __init__(
        self,
        codec: str = "none",
        level: int | None = None,
        *,
        delimiter: str = ",",
        header: bool = True,
    ) -> None:
        self._codec = codec
        self._level = level
        self._delimiter = delimiter
        self._header = header

    @property
    def ending(self) -> str:
        return f".csv{FILE_CODECS[self._codec]}"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        if schema is not None and (schema.type is not Type.STRUCT or not schema.fields):
            raise DataError("CSV files need records with fields")
        stream = compressing(self._codec, self._level, out)
        return _CsvEncoder(schema, stream, self._delimiter, self._header)


class _CsvEncoder(Encoder[tuple[list[str], list[str]]]):
    """Encodes to names, for a file that has none yet, and lines."""

    def __init__(self, schema: Schema | None, stream: Any, delimiter: str, header: bool) -> None:
        self._schema = schema
        self._stream = stream
        self._delimiter = delimiter
        self._header = header
        self._special = re.compile(f'["\\r\\n{re.escape(delimiter)}]').search
        self._names = None if schema is None else list(schema.field_names)
        self._has_lines = False

    def encode(self, column: Column) -> tuple[list[str], list[str]] | Failed:
        failed: Failed = {}
        names = self._names
        lines: list[str] = []
        for row, value in enumerate(column.values):
            try:
                if not isinstance(value, dict):
                    raise DataError("CSV files need records with fields")
                if names is None:
                    names = list(map(str, value))
                elif self._schema is None and not (len(value) == len(names) >= 1):
                    raise DataError(f"The fields are not those of the file: {', '.join(names)}")
                text = self._line(self._cells(value, names))
                text.encode()
                lines.append(text)
            except (DataError, UnicodeEncodeError, KeyError, TypeError) as error:
                failed[row] = (
                    error
                    if isinstance(error, DataError)
                    else DataError(f"The value cannot be written as CSV: {error}")
                )
        return failed or (names or [], lines)

    def append(self, encoded: tuple[list[str], list[str]]) -> None:
        names, lines = encoded
        if not lines:
            return
        if not self._has_lines:
            self._has_lines = True
            self._names = names
            if self._header:
                self._stream.write(self._line(names).encode())
        self._stream.write("".join(lines).encode())

    def finish(self) -> None:
        self._stream.finish()

    def _line(self, cells: Sequence[object]) -> str:
        if len(cells) == 1 and cells[0] is None:
            return '""\n'  # an empty line is not a record
        parts = []
        for cell in cells:
            text = "" if cell is None else str(cell)
            if self._special(text) or text == cell == "":
                text = '"' + text.replace('"', '""') + '"'
            parts.append(text)
        return self._delimiter.join(parts) + "\n"

    def _cells(self, value: Value, names: list[str]) -> Sequence[object]:
        if self._schema is None:
            return [_cell(None, value[name]) for name in names]
        return [_cell(field.schema, value.get(field.name)) for field in self._schema.fields]


def _cell(schema: Schema | None, value: Value) -> object:
    if value is None and schema is not None:
        value = schema.default
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return b64encode(value).decode()
        case Decimal():
            return decimal_text(value)
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case list() | dict():
            plain = plain_of(schema, True)
            return line(value if plain is None else plain(value)).decode().removesuffix("\n")
    return value
