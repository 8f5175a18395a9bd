"""Text in any of Java's character sets (kafka-connect.md §9.3).

This converter never fails: malformed bytes are read as U+FFFD, characters that the character set
lacks are written as `?`, and every value has a Java text (`penstock.data.text`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock import KAFKA_VERSION
from penstock.api.converter import Converter, Use
from penstock.api.plugin import Plugin
from penstock.config.declare import text
from penstock.config.define import HIGH, Config, ConfigDef, Width, invalid
from penstock.convert.settings import CONVERTER_TYPE
from penstock.data.records import Column, Failed
from penstock.data.schema import OPTIONAL_STRING, Schema, Type, Value
from penstock.data.text import text_of
from penstock.errors import DataError

# Text encodings of Python that Java lacks.
_NOT_CHARSETS: Final = frozenset(
    ("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7", "utf_8_sig")
)
# A surrogate encoded as UTF-8: one malformed sequence to Java, two or three to Python.
_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set by its Java name, which reads and writes as `java.lang.String` does."""

    name: str

    @property
    def codec(self) -> str:
        """Python's name of the encoding. Raises LookupError."""
        # x-windows-949, x-MacRoman: Java's prefix for sets without an official name.
        name = self.name.strip().lower().removeprefix("x-").replace("-", "_")
        if name in _NOT_CHARSETS:
            raise LookupError(f"unknown encoding: {self.name}")
        "".encode(name)
        return name

    def decoder(self) -> Callable[[bytes], str]:
        """Bytes to text; never fails."""
        codec = self.codec
        if codec in ("utf8", "utf_8"):
            return decode_utf8
        if codec in _BYTE_ORDERS:
            return _marked_decoder(*_BYTE_ORDERS[codec])
        return lambda data: data.decode(codec, "replace")

    def encoder(self) -> Callable[[str], bytes]:
        """Text to bytes; never fails."""
        codec = self.codec
        if codec in ("utf8", "utf_8"):
            return lambda text: text.encode("utf-8", "replace")
        if codec in ("utf_16", "utf16"):
            # Java writes the big-endian byte order mark, except for empty text.
            return lambda text: (text and b"\xfe\xff" + text.encode("utf-16-be", "replace")) or b""
        if codec in _BYTE_ORDERS:
            return lambda text: text.encode(_BYTE_ORDERS[codec][0], "replace")
        return lambda text: text.encode(codec, "replace")

    @property
    def is_utf8(self) -> bool:
        return self.codec in ("utf8", "utf_8")


# Big endian unless a byte order mark says otherwise: (big, its mark, little, its mark).
_BYTE_ORDERS: Final = {
    "utf16": ("utf-16-be", b"\xfe\xff", "utf-16-le", b"\xff\xfe"),
    "utf_16": ("utf-16-be", b"\xfe\xff", "utf-16-le", b"\xff\xfe"),
    "utf32": ("utf-32-be", b"\0\0\xfe\xff", "utf-32-le", b"\xff\xfe\0\0"),
    "utf_32": ("utf-32-be", b"\0\0\xfe\xff", "utf-32-le", b"\xff\xfe\0\0"),
}


def decode_utf8(data: bytes) -> str:
    """UTF-8 as Java reads it, with U+FFFD for malformed bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


def _marked_decoder(
    big: str, big_mark: bytes, little: str, little_mark: bytes
) -> Callable[[bytes], str]:
    def decode(data: bytes) -> str:
        if data.startswith(little_mark):
            return data[len(little_mark) :].decode(little, "replace")
        return data.removeprefix(big_mark).decode(big, "replace")

    return decode


@dataclass(frozen=True, slots=True)
class _KnownCharset:
    """A `Check`: the character set exists. Kafka Connect fails with the first record."""

    def problem(self, name: str, value: Any) -> str | None:
        try:
            _ = Charset(value).codec
        except (LookupError, ValueError):
            return invalid(name, value, "Unknown character set")
        return None

    def __str__(self) -> str:
        return "a Java character set name"


# fmt: off
ENCODING: Final = text("converter.encoding", "UTF-8",
    "The name of the Java character set to use for encoding strings as byte arrays.",
    check=_KnownCharset(), importance=HIGH, width=Width.MEDIUM, label="Encoding")
# fmt: on

STRING_CONVERTER: Final = ConfigDef(CONVERTER_TYPE, ENCODING)


class StringConverter(Converter):
    """Writes the Java text of any value; reads text as optional STRING."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.storage.StringConverter",
        version=KAFKA_VERSION,
        config=STRING_CONVERTER,
    )

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use)
        charset = Charset(config[ENCODING])
        self._utf8 = charset.is_utf8
        self._decode = charset.decoder()
        self._encode = charset.encoder()

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        return Column.of(self._texts(cells), OPTIONAL_STRING)

    def _texts(self, cells: Sequence[bytes | None]) -> list[Value]:
        decode = self._decode
        if self._utf8:
            try:
                return [None if cell is None else cell.decode() for cell in cells]
            except UnicodeDecodeError:
                pass  # one is malformed: row by row
        return [None if cell is None else decode(cell) for cell in cells]

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        cells: list[bytes | None] = []
        for schema, start, stop in column.slices():
            values = column.values if stop - start == len(column) else column.values[start:stop]
            if self._utf8 and (schema is None or schema.type is Type.STRING):
                try:
                    cells += [None if value is None else str.encode(value) for value in values]
                    continue
                except (TypeError, UnicodeEncodeError):
                    pass  # not all are plain text
            self._write_each(schema, values, start, cells, failed)
        return cells

    def _write_each(
        self,
        schema: Schema | None,
        values: Sequence[Value],
        start: int,
        cells: list[bytes | None],
        failed: Failed,
    ) -> None:
        text, encode = text_of(schema), self._encode
        for row, value in enumerate(values, start):
            try:
                cells.append(None if value is None else encode(text(value)))
            except Exception as cause:
                error = DataError(f"The value cannot be converted to a string: {cause}")
                error.__cause__ = cause
                failed[row] = error
                cells.append(None)
