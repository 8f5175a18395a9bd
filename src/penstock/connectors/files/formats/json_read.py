"""Reads JSON: a value on each line, or documents.

Values have no schema, like those of JsonConverter without schemas; with a schema, they are read as
JsonConverter writes them (`json_values`).
"""

from __future__ import annotations

import codecs
import json
import os
import re
from decimal import Decimal
from typing import Any, Final

import orjson

from penstock.api import Column, DataError, Failed
from penstock.api.schema import Schema, Value
from penstock.connectors.files.formats.codecs_read import (
    PIECE,
    DecompressedStream,
    Transcoded,
    decompressing,
)
from penstock.connectors.files.formats.decoder import (
    Chunk,
    Decoder,
    Input,
    NotThisFormat,
    Position,
    Reading,
    TooLarge,
    Truncated,
)
from penstock.connectors.files.formats.json_values import Read, has_decimals, reader
from penstock.connectors.files.formats.lines_read import (
    MOST,
    LineDecoder,
    Separated,
    separated,
)


class JsonReading(Reading):
    """JSON lines; or, with `documents`, JSON values in any layout: each element of an array is a
    record, and an object is one record."""

    def __init__(
        self,
        codec: str = "none",
        *,
        documents: bool = False,
        schema: Schema | None = None,
        encoding: str = "utf-8",
        most: int = MOST,
    ) -> None:
        self._codec = codec
        self._documents = documents
        self._schema = schema
        self._most = most
        plain = codecs.lookup(encoding).name in ("utf-8", "ascii", "utf-8-sig")
        self._encoding = None if plain else encoding
        self.splittable = codec == "none" and plain and not documents

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        if self._documents:
            source.seek(0)
            stream = decompressing(self._codec, source)
            text = Transcoded(stream, self._encoding or "utf-8-sig")
            return _DocumentDecoder(text, start.record, self._schema, self._most)
        lines, skip = separated(
            source,
            start,
            stop,
            growing=growing,
            codec=self._codec,
            most=self._most,
            encoding=self._encoding,
        )
        return _JsonDecoder(lines, skip, start, self.splittable, self._schema)


_SENTINEL: Final = int.from_bytes(os.urandom(7)) | 1 << 56  # 18 digits at most
_BETWEEN: Final = b",%d," % _SENTINEL
_FOLD_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_NINETEEN_DIGITS: Final = b"0" * 19
_WIDE: Final = re.compile(rb"(?:^|[\[:,\s])-?(?:9[2-9]\d{17}|\d{20})")


class _JsonDecoder(LineDecoder[bytes]):
    """Parses all lines of a block as one array if possible, with an unpredictable number between
    any two: so each line must be a complete value."""

    blanks = b" \t\r\n"
    shows_its_end = True

    def __init__(
        self,
        lines: Separated,
        skip: int,
        start: Position,
        in_bytes: bool,
        schema: Schema | None,
    ) -> None:
        super().__init__(lines, skip, start, in_bytes)
        self._schema = schema
        self._read = reader(schema)
        self._exact = has_decimals(schema)

    def values(self, lines: list[bytes], failed: Failed) -> Column:
        values = None if self._exact else _parse_all(lines)
        if values is None:
            values = []
            for row, line in enumerate(lines):
                try:
                    values.append(parse_exactly(line) if self._exact else parse(line))
                except ValueError as error:
                    values.append(None)
                    failed[row] = DataError(f"it is not JSON: {error}")
        return converted(values, self._schema, self._read, failed)


def converted(values: list[Value], schema: Schema | None, read: Read, failed: Failed) -> Column:
    """Converts JSON nodes to values of a schema; rows in `failed` are None."""
    if schema is None:
        return Column.of(values, None)
    for row, value in enumerate(values):
        if row not in failed:
            try:
                values[row] = read(value)
            except DataError as error:
                values[row] = None
                failed[row] = error
    return Column.of(values, schema)


def _parse_all(lines: list[bytes]) -> list[Value] | None:
    """The values of all lines; None if lines must be parsed one by one."""
    data = _BETWEEN.join(lines)
    if _NINETEEN_DIGITS in data.translate(_FOLD_DIGITS):
        return None
    try:
        nodes = orjson.loads(b"[" + data + b"]")
    except ValueError:
        return None
    values: list[Value] = nodes[::2]
    if len(nodes) != 2 * len(lines) - 1 or nodes[1::2] != [_SENTINEL] * (len(lines) - 1):
        return None
    return values


def parse(text: bytes) -> Value:
    """Parses a value; integers may have any size. Raises ValueError for invalid JSON."""
    node = orjson.loads(text)
    if _NINETEEN_DIGITS in text.translate(_FOLD_DIGITS) and _WIDE.search(text):
        return json.loads(text, parse_constant=_refuse)
    return node


def parse_exactly(text: str | bytes) -> Value:
    """Parses a value; numbers with a fraction become `Decimal`. Raises ValueError."""
    return json.loads(text, parse_constant=_refuse, parse_float=Decimal)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_SPACES: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
_EXACT: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=Decimal)
_BEGINS: Final = frozenset('[{"-0123456789tfn')
_CLOSING: Final = frozenset(']}"')
"""The last character of a complete value, unless it is a number or a literal."""


class _DocumentDecoder(Decoder):
    """Reads values one by one with Python's decoder, which reports where they end."""

    def __init__(
        self, stream: DecompressedStream, skip: int, schema: Schema | None, most: int
    ) -> None:
        self._stream = stream
        self._skip = skip
        self._record = 0
        self._schema = schema
        self._read = reader(schema)
        self._decode = (_EXACT if has_decimals(schema) else _DECODER).raw_decode
        self._most = most
        self._text = ""
        self._before = 0  # characters before the text
        self._at = 0
        self._ended = False
        self._is_json = False  # whether the file begins like JSON
        self._in_array = False
        self._needs_element = False  # whether an element must follow
        self._broken: DataError | None = None

    def read(self, max_bytes: int) -> Chunk | None:
        while True:
            values = self._values(max_bytes)
            if not values:
                return None
            skipped = min(self._skip, len(values))
            self._skip -= skipped
            self._record += len(values)
            if skipped < len(values):
                failed: Failed = {}
                column = converted(values[skipped:], self._schema, self._read, failed)
                first = self._record - len(column) + 1
                failed = {
                    row: DataError(f"Record {first + row}: {error}")
                    for row, error in failed.items()
                }
                return Chunk(column, None, Position(self._record, None), failed)

    def close(self) -> None:
        return None

    def _values(self, max_bytes: int) -> list[Value]:
        values: list[Value] = []
        if self._broken is not None:
            raise self._broken
        size = 0
        try:
            while size < max_bytes:
                begin = self._before + self._at
                if not self._next(values):
                    break
                size += self._before + self._at - begin
        except DataError as error:
            if not values:
                raise
            self._broken = error
        return values

    def _next(self, values: list[Value]) -> bool:
        """Appends a value; False at the end."""
        while True:
            char = self._peek()
            if not self._in_array:
                if not char:
                    return False
                if not self._is_json and char not in _BEGINS:
                    raise self._error(f"it begins with {char!r}")
                self._is_json = True
                if char != "[":
                    values.append(self._value())
                    return True
                self._at += 1
                self._in_array = True
                self._needs_element = False
                if self._peek() != "]":
                    self._needs_element = True
                continue
            if self._needs_element:
                values.append(self._value())
                # A number may be cut off, unless one of these characters follows.
                match self._peek():
                    case ",":
                        self._at += 1
                    case "]":
                        self._needs_element = False
                    case _:
                        values.pop()
                        raise self._error("',' or ']' is missing")
                return True
            if char != "]":
                raise self._error("an array ends with ']'")
            self._at += 1
            self._in_array = False

    def _peek(self) -> str:
        """The next character that is not whitespace; "" at the end."""
        while True:
            match = _SPACES.match(self._text, self._at)
            assert match is not None, "of nothing, at least"
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self) -> Value:
        if not self._peek():
            raise self._error("a value is missing")
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if self._ended or not self._more():
                    raise self._error(str(error)) from error
                continue
            # A number may continue after the text that was read.
            if self._text[end - 1] in _CLOSING or end < len(self._text) or not self._more():
                self._at = end
                return value

    def _more(self) -> bool:
        """Doubles the text, or reads at least a piece; False at the end."""
        if self._ended:
            return False
        held = self._text[self._at :]
        if len(held) > self._most:
            raise TooLarge(self._most)
        data = self._stream.read(max(PIECE, len(held)))
        self._ended = not data
        self._text = held + data.decode("utf-8", "surrogatepass")
        self._before += self._at
        self._at = 0
        return not self._ended

    def _error(self, why: str) -> DataError:
        if not self._is_json:
            return NotThisFormat(f"The file is not JSON: {why}")
        return Truncated(f"The file is damaged or cut off after record {self._record}: {why}")
