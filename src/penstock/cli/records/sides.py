"""Keys, values and headers: between Kafka's bytes and their form in a line.

With a converter a cell is the JSON of its Connect value, with the schema if the converter could not
restore it. Without one the bytes decide: JSON objects and arrays are JSON, other UTF-8 is a text,
and anything else is base64. Either way a cell that was read can be written again.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.convert.json_read import reader, schemaless
from penstock.convert.json_schema import read_schema, schema_node
from penstock.convert.json_write import DecimalFormat, dump, schemaless_bytes, writer
from penstock.data.records import Column, Failed
from penstock.data.schema import Schema, Type
from penstock.errors import DataError

if TYPE_CHECKING:
    from penstock.api import HeaderConverter
    from penstock.cli.records.settings import RecordsSettings

BASE64: Final = "base64"
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # not in texts
_REGISTRY_FRAME: Final = 5  # a zero byte and the id of a schema


@dataclass(frozen=True, slots=True)
class Cell:
    """A key, value or header as a line holds it: `node` is what `dump` writes as JSON."""

    node: Any
    schema: Any = None  # as JSON; None: there is none, or the converter knows it
    encoding: str | None = None  # base64: `node` holds the bytes as they are in Kafka
    error: str | None = None  # why the converter could not read them


NOTHING: Final = Cell(None)


class Unwritable(Exception):
    """A cell of a line cannot be written; the message says why, `advice` what to do."""

    def __init__(self, message: str, advice: str = "") -> None:
        self.advice = advice
        super().__init__(message)


class Guessed:
    """A side without a named converter."""

    named = False
    title = ""

    def __init__(self, *, json: bool = True) -> None:
        """`json`: whether what looks like JSON is JSON; otherwise it is a text."""
        self._json = json

    def read(self, topics: Sequence[str], cells: Sequence[bytes | None]) -> list[Cell]:
        return [self._cell(cell) for cell in cells]

    def _cell(self, cell: bytes | None) -> Cell:
        if cell is None:
            return NOTHING
        if self._json and cell.lstrip()[:1] in (b"{", b"["):
            try:
                orjson.loads(cell)
            except ValueError:
                pass
            else:
                # In JSON, line ends occur only between tokens.
                one_line = cell.strip().replace(b"\r", b" ").replace(b"\n", b" ")
                return Cell(orjson.Fragment(one_line))
        return raw(cell)

    def kind(self, cell: bytes | None) -> str:
        """The form in which the bytes are shown."""
        if cell is None:
            return ""
        shown = self._cell(cell)
        if shown.encoding is not None:
            return "bytes"
        return "text" if isinstance(shown.node, str) else "JSON"

    def write(self, topics: Sequence[str], cells: Sequence[Cell], failed: Failed) -> list[Any]:
        return [_bytes_of(cell, row, failed) for row, cell in enumerate(cells)]

    def parsed(self, text: str) -> Cell:
        """The cell that a line of text means."""
        return Cell(text)


def framed(cell: bytes | None) -> int | None:
    """The schema id, if the bytes look like a Schema Registry's format."""
    if cell is None or len(cell) < _REGISTRY_FRAME or cell[0]:
        return None
    return int.from_bytes(cell[1:_REGISTRY_FRAME], "big") or None


class ConvertedSide:
    """A side with a converter."""

    named = True

    def __init__(self, converter: HeaderConverter) -> None:
        self._converter = converter
        self.title = converter.plugin.class_name.rpartition(".")[2]
        implied = converter.to_connect(["-"], [None], {})
        self._implied = implied.schemas()[0] if len(implied) else None
        self._writers: dict[Schema | None, tuple[Any, Any]] = {}

    def read(self, topics: Sequence[str], cells: Sequence[bytes | None]) -> list[Cell]:
        failed: Failed = {}
        column = self._converter.to_connect(topics, cells, failed)
        shown: list[Cell] = []
        for row, (value, schema) in enumerate(zip(column.values, column.schemas(), strict=True)):
            cell = cells[row]
            if row in failed:
                shown.append(_failed(cell, failed[row]))
                continue
            try:
                shown.append(self._shown(schema, value))
            except (DataError, TypeError, ValueError) as error:
                shown.append(_failed(cell, error))
        return shown

    def _shown(self, schema: Schema | None, value: Any) -> Cell:
        if schema is None:
            return NOTHING if value is None else Cell(orjson.Fragment(schemaless_bytes(value)))
        if schema == self._implied and schema.name is None:
            if value is None:
                return NOTHING
            if schema.type is Type.STRING:
                return Cell(value)
            if schema.type is Type.BYTES:
                return _base64(bytes(value))
        if schema not in self._writers:
            self._writers[schema] = _writer(schema), described(schema)
        write, node = self._writers[schema]
        return Cell(write(value), node)

    def write(self, topics: Sequence[str], cells: Sequence[Cell], failed: Failed) -> list[Any]:
        values: list[Any] = []
        schemas: list[Schema | None] = []
        as_they_are: dict[int, bytes | None] = {}
        for row, cell in enumerate(cells):
            schema, value = self._implied, None
            try:
                if cell.encoding is not None:
                    as_they_are[row] = _bytes_of(cell, row, failed)
                else:
                    schema, value = self._value(cell)
            except (DataError, TypeError, ValueError) as error:
                failed[row] = error
            schemas.append(schema)
            values.append(value)
        column = Column.gather(values, schemas)
        badly: Failed = {}
        written = self._converter.from_connect(topics, column, badly)
        for row, problem in badly.items():
            if row not in as_they_are:
                failed.setdefault(row, problem)
        return [as_they_are.get(row, cell) for row, cell in enumerate(written)]

    def _value(self, cell: Cell) -> tuple[Schema | None, Any]:
        schema = self._implied if cell.schema is None else schema_of(cell.schema)
        if schema is None:
            return None, schemaless(cell.node)
        if cell.node is None:
            return schema, None
        if cell.schema is None and schema.type is Type.STRING and not isinstance(cell.node, str):
            return schema, dump(_numbers(cell.node)).decode()  # Kafka has texts there
        value = reader(schema, replace_null=False)(deepcopy(cell.node))  # it may reuse the node
        # Like Kafka Connect's, the reader reads a text instead of a number as 0.
        try:
            fits = _same(cell.node, parse_json(dump(_writer(schema)(value)).decode()))
        except DataError:  # and a null where none is allowed
            fits = False
        if not fits:
            shown = _short(dump(_numbers(cell.node)).decode())
            raise DataError(f"{shown} does not fit its schema, {schema.type.name}")
        return schema, value

    def parsed(self, text: str) -> Cell:
        """The cell that a line of text means: a text for a converter of texts, otherwise JSON."""
        if self._implied is not None and self._implied.type is Type.STRING:
            return Cell(text)
        if self._implied is not None and self._implied.type is Type.BYTES:
            return _base64(text.encode())
        try:
            return Cell(parse_json(text))
        except ValueError as error:
            raise Unwritable(
                f"{self.title} writes JSON, and '{_short(text)}' is not JSON: {error}",
                "StringConverter writes strings.",
            ) from error


Side = Guessed | ConvertedSide


def raw(cell: bytes) -> Cell:
    """Bytes without conversion: a text, or base64 if they are not a text."""
    if _CONTROL.search(cell):
        return _base64(cell)
    try:
        return Cell(cell.decode())
    except UnicodeDecodeError:
        return _base64(cell)


def text_of(cell: Cell) -> str:
    """A cell for people; bytes that are not a text have escapes."""
    if cell.encoding is not None:
        return repr(b64decode(cell.node))[2:-1]
    return cell.node if isinstance(cell.node, str) else dump(cell.node).decode()


def parse_json(text: str) -> Any:
    """JSON with exact numbers. Raises ValueError."""
    import json

    return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def described(schema: Schema) -> Any:
    """A schema as the JsonConverter writes it."""
    return schema_node(schema, lambda of, value: _writer(of)(value))


def schema_of(node: Any) -> Schema | None:
    """The schema that `described` wrote. Raises DataError."""
    return read_schema(node, lambda of, value: reader(of, replace_null=False)(value))


def _writer(schema: Schema) -> Any:
    return writer(schema, decimals=DecimalFormat.NUMERIC, replace_null=False)


def _base64(data: bytes) -> Cell:
    return Cell(b64encode(data).decode(), encoding=BASE64)


def _failed(cell: bytes | None, error: Exception) -> Cell:
    cause, message = error.__cause__, str(error)
    if cause is not None and str(cause) not in message:
        message = f"{message.rstrip(': ')}: {cause}"
    if cell is None:
        return Cell(None, error=message)
    return Cell(_base64(cell).node, encoding=BASE64, error=message)


def _bytes_of(cell: Cell, row: int, failed: Failed) -> bytes | None:
    """The bytes of a cell without a converter."""
    try:
        if cell.encoding is not None:
            if cell.encoding != BASE64 or not isinstance(cell.node, str):
                raise DataError(f"the encoding must be '{BASE64}', of a string")
            return b64decode(cell.node, validate=True)
        if cell.schema is not None:
            raise DataError("it has a schema, which only a converter can write")
        if cell.node is None:
            return None
        if isinstance(cell.node, str):
            return cell.node.encode()
        return dump(_numbers(cell.node))
    except (DataError, TypeError, ValueError) as error:
        failed[row] = error
        return None


def _numbers(node: Any) -> Any:
    """The node for `dump`, with the exact digits of every number."""
    if isinstance(node, Decimal):
        return orjson.Fragment(str(node).encode())
    if isinstance(node, int) and not isinstance(node, bool):
        return orjson.Fragment(str(node).encode())
    if isinstance(node, list):
        return [_numbers(item) for item in node]
    if isinstance(node, dict):
        return {name: _numbers(item) for name, item in node.items()}
    return node


def _same(node: Any, written: Any) -> bool:
    """Whether JSON is equal after writing and reading; fields may have been added."""
    if isinstance(node, dict):
        return isinstance(written, dict) and all(
            name in written and _same(item, written[name]) for name, item in node.items()
        )
    if isinstance(node, list):
        return (
            isinstance(written, list)
            and len(node) == len(written)
            and all(map(_same, node, written))
        )
    if _is_number(node) and _is_number(written):
        return bool(node == written or float(node) == float(written))
    return type(node) is type(written) and bool(node == written)


def _is_number(node: Any) -> bool:
    return isinstance(node, int | Decimal) and not isinstance(node, bool)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def side_of(settings: RecordsSettings, side: str) -> Side:
    """A side according to the settings; headers without a converter are texts."""
    converter = settings.converters.get(side)
    return Guessed(json=side != "header") if converter is None else ConvertedSide(converter)
