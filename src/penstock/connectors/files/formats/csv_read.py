"""Reads CSV with Arrow, or with a Python parser if Arrow refuses the data: by RFC 4180, or by the
rules of opencsv.

Arrow reads a block of records into columns. If a cell is not of its column's type, all cells are
read as strings and converted one by one: only the rows of bad cells fail. Blocks with misplaced
quotes go to the Python parser.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from penstock.api import Column, DataError, Failed, Fields
from penstock.api.schema import (
    INT_BITS,
    OPTIONAL_STRING,
    Schema,
    Type,
    Value,
    int_range,
    struct,
    structs_of,
)
from penstock.connectors.files.formats.arrow_read import values_of
from penstock.connectors.files.formats.cells import inferred, reader
from penstock.connectors.files.formats.decoder import (
    Chunk,
    Decoder,
    Input,
    Position,
    Reading,
    Truncated,
)
from penstock.connectors.files.formats.lines_read import (
    BOM,
    MOST,
    NEWLINE,
    LineDecoder,
    Separated,
    separated,
)
from penstock.connectors.files.formats.opencsv import NullCells, Parser


@dataclass(frozen=True, slots=True)
class Dialect:
    """How cells are separated. Delimiter and quote are ASCII characters."""

    delimiter: str = ","
    quote: str | None = '"'
    newlines: bool = True
    """Whether quoted cells may contain newlines. If not, each line is a record: an unclosed quote
    costs one record, and files can be read in ranges."""
    nulls: NullCells = NullCells.EMPTY_SEPARATORS
    keeps_cr: bool = False
    """Whether a carriage return before a newline belongs to the cell."""
    joins_lines: bool = False
    """Whether line ends in cells become newlines, as in Java, which reads line by line."""
    opencsv: Parser | None = None
    """Parses records by the rules of opencsv instead of RFC 4180; it has the same settings."""

    @property
    def is_strict(self) -> bool:
        """Whether null is an error where the schema requires a string."""
        return self.opencsv is not None


RFC_4180: Final = Dialect()


class CsvReading(Reading):
    """CSV files.

    The header names the columns; without one `names`, the schema, or `column1` and so on. Columns
    that a schema lacks are left out. Without a schema, types are inferred from the first `infer`
    rows; with 0 all are strings. The dialect determines which empty cells are null; `null` is
    another text of unquoted cells that are. `skip` lines precede the header.
    `plain_names`: names of the header are not stripped, and others are `column01` and so on.
    """

    def __init__(
        self,
        codec: str = "none",
        *,
        dialect: Dialect = RFC_4180,
        header: bool = True,
        names: Sequence[str] = (),
        null: str = "",
        schema: Schema | None = None,
        infer: int = 0,
        encoding: str = "utf-8",
        most: int = MOST,
        skip: int = 0,
        plain_names: bool = False,
    ) -> None:
        self.codec = codec
        self.dialect = dialect
        self.header = header
        self.names = tuple(names)
        self.null = null
        self.schema = schema
        self.infer = infer
        self.most = most
        self.skip = skip
        self.plain_names = plain_names
        plain = codecs.lookup(encoding).name in ("utf-8", "ascii", "utf-8-sig")
        self.encoding = None if plain else encoding
        self.places = codec == "none" and plain
        self.splittable = self.places and not (dialect.newlines and dialect.quote)

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        return _HeaderDecoder(self, source, start, stop, growing)

    def records(
        self, source: Input, start: Position, stop: int | None, growing: bool
    ) -> tuple[Separated, int]:
        """Blocks of records from a position on, and how many records to skip."""
        is_multiline = self.dialect.newlines and self.dialect.quote
        return separated(
            source,
            start,
            stop,
            growing=growing,
            codec=self.codec,
            most=self.most,
            encoding=self.encoding,
            ends=(lambda data: scan(data, self.dialect)[0]) if is_multiline else None,
        )

    def beginning(self, source: Input, stop: int | None, growing: bool) -> Separated | None:
        """The records of a file from its header on; None if it is not complete yet."""
        lines, _ = self.records(source, Position(), stop, growing)
        return lines if lines.skip_lines(self.skip, keeps_cr=self.dialect.keeps_cr) else None


class _HeaderDecoder(Decoder):
    """Reads the header first, once it is complete."""

    def __init__(
        self, reading: CsvReading, source: Input, start: Position, stop: int | None, growing: bool
    ) -> None:
        self._arguments = (reading, source, start, stop, growing)
        self._decoder: _CsvDecoder | None = None

    def read(self, max_bytes: int) -> Chunk | None:
        if self._decoder is None:
            self._decoder = _open(*self._arguments)
        return None if self._decoder is None else self._decoder.read(max_bytes)

    def close(self) -> None:
        return None


def _open(
    reading: CsvReading, source: Input, start: Position, stop: int | None, growing: bool
) -> _CsvDecoder | None:
    """Reads the beginning of the file; None if it is not complete yet."""
    lines = reading.beginning(source, None, growing)
    if lines is None:
        return None
    data_begin = lines.begin
    rows: list[list[str | None]] = []
    first: int | None = None
    header: list[str | None] | None = None
    cut_off = False
    while (header is None or len(rows) < reading.infer) and (block := lines.block(1)):
        record = block.data.removeprefix(BOM) if block.begin == 0 else block.data
        if not record.strip(b"\r\n"):
            continue
        if header is None:
            cut_off = not block.complete
            try:
                header = _cells(record, reading, "")
            except DataError as error:
                if not reading.header and (reading.names or reading.schema):
                    header = []
                else:
                    kind = Truncated if cut_off else DataError
                    raise kind(f"The names of columns cannot be read: {error}") from error
            if reading.header:
                first = block.begin + len(block.data)
                continue
            first = data_begin
        try:
            cells = _cells(record, reading, reading.null)
            hides_nulls = reading.dialect.nulls is NullCells.NEITHER
            rows.append([cell or None for cell in cells] if hides_nulls else cells)
        except DataError:
            continue  # the record fails later, when it is read
    if header is None or first is None or (growing and reading.infer and not rows):
        return None
    try:
        names = _names(reading, header)
    except DataError as error:
        if cut_off:
            raise Truncated(f"The file ends in its header: {error}") from error
        raise
    complete = [row for row in rows[: reading.infer] if len(row) == len(names)]
    schema = reading.schema or _schema(names, complete)
    if start.byte is None or not reading.places or start == Position():
        lines = reading.beginning(source, stop, growing)
        assert lines is not None, "the header was read"
        return _CsvDecoder(reading, lines, start.record + reading.header, start, names, schema)
    begin = start
    if start.record == 0:
        begin = Position(0, max(start.byte, first))
    lines, _ = reading.records(source, begin, stop, growing)
    return _CsvDecoder(reading, lines, 0, start, names, schema)


def _names(reading: CsvReading, header: list[str | None]) -> list[str]:
    if reading.header:
        names = [
            _header_name(reading, name or "") or f"column{at + 1}" for at, name in enumerate(header)
        ]
    elif reading.names:
        names = list(reading.names)
    elif reading.schema is not None:
        names = list(reading.schema.field_names)
    else:
        digits = 2 if reading.plain_names else 1
        names = [f"column{at + 1:0{digits}}" for at in range(len(header))]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise DataError(f"The file has two columns named '{duplicate}'")
    if reading.schema is not None:
        for field in reading.schema.fields:
            is_required = not field.schema.optional and field.schema.default is None
            if is_required and field.name not in names:
                raise DataError(f"The file has no column '{field.name}', which the schema needs")
    return names


def _header_name(reading: CsvReading, name: str) -> str:
    stripped = name.strip()
    if not reading.plain_names:
        return stripped
    schema = reading.schema
    return stripped if schema is not None and schema.field(name) is None else name


def _schema(names: list[str], rows: list[list[str | None]]) -> Schema:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return struct(
        {
            name: inferred(cells) if rows else OPTIONAL_STRING
            for name, cells in zip(names, columns, strict=True)
        }
    )


def scan(data: bytes, dialect: Dialect) -> tuple[Any, bool]:
    """The ends of complete records in a block that begins with a record; and whether all quotes and
    line ends are regular, so that Arrow reads the same records."""
    parser = dialect.opencsv
    if parser is not None and not _is_plain(data, parser):
        return _parsed_ends(data, parser), False
    array = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(array == ord("\n"))
    returns = data.count(b"\r")
    regular = returns == (0 if dialect.keeps_cr else data.count(b"\r\n"))
    quote = dialect.quote
    if quote is None or quote.encode() not in data:
        return newlines + 1, regular
    regular = regular and dialect.nulls is not NullCells.EMPTY_QUOTES
    quotes = np.flatnonzero(array == ord(quote))
    opening, closing = quotes[0::2], quotes[1::2]
    adjacent = quotes[1:] == quotes[:-1] + 1
    second = np.concatenate(([False], adjacent))  # of a pair, which is an escaped quote
    first = np.concatenate((adjacent, [False]))
    before = array[np.maximum(opening - 1, 0)]
    opens = second[0::2] | (opening == 0) | (before == ord(dialect.delimiter))
    opens |= before == ord("\n")
    after = array[np.minimum(closing + 1, len(array) - 1)]
    closes = first[1::2] | (closing == len(array) - 1) | (after == ord(dialect.delimiter))
    closes |= (after == ord("\n")) | (after == ord("\r"))
    regular = regular and len(quotes) % 2 == 0
    inside = np.searchsorted(quotes, newlines) % 2 == 1
    if not dialect.newlines:
        return newlines + 1, bool(regular and opens.all() and closes.all() and not inside.any())
    if opens.all() and closes.all():
        if returns and dialect.joins_lines and inside.any():
            regular = False
        return newlines[~inside] + 1, regular
    if parser is not None:
        return _parsed_ends(data, parser), False
    pattern = _record(dialect)
    ends: list[int] = []
    at = 0
    while match := pattern.match(data, at):
        at = match.end()
        ends.append(at)
    return np.array(ends, np.int64), False


def _is_plain(data: bytes, parser: Parser) -> bool:
    """Whether data without misplaced quotes is read as by RFC 4180."""
    if parser.strict_quotes or parser.ignores_quotes:
        return False
    if parser.escape is not None and parser.escape.encode() in data:
        return False
    returns = data.count(b"\r")
    return not returns or (not parser.keeps_cr and returns == data.count(b"\r\n"))


def _parsed_ends(data: bytes, parser: Parser) -> Any:
    mark = len(BOM) if data.startswith(BOM) else 0
    return np.array(parser.ends(data[mark:]), np.int64) + mark


@lru_cache(maxsize=16)
def _record(dialect: Dialect) -> re.Pattern[bytes]:
    assert dialect.quote is not None, "without quotes every line is a record"
    quote, delimiter = (re.escape(char.encode()) for char in (dialect.quote, dialect.delimiter))
    cell = rb"(?:Q(?>(?:[^Q]++|QQ)*)Q[^D\n]*+|(?!Q)[^D\n]*+)"
    pattern = rb"(?:%b(?:D%b)*+)\n" % (cell, cell)
    return re.compile(pattern.replace(b"Q", quote).replace(b"D", delimiter))


def _cells(record: bytes, reading: CsvReading, null: str) -> list[str | None]:
    """Parses the cells of a record, without Arrow. Raises DataError."""
    dialect = reading.dialect
    if dialect.opencsv is not None:
        return dialect.opencsv.cells(record)
    try:
        text = record.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"it is not text in utf-8: {error}") from error
    if not dialect.keeps_cr:
        text = text.removesuffix("\r")
        if dialect.joins_lines and "\r" in text:
            text = text.replace("\r\n", "\n")
    delimiter, quote, nulls = dialect.delimiter, dialect.quote, dialect.nulls
    cells: list[str | None] = []
    at = 0
    while True:
        if quote is not None and text.startswith(quote, at):
            end = at + 1
            while True:
                end = text.find(quote, end)
                if end < 0:
                    raise DataError("a quote is not closed")
                if not text.startswith(quote, end + 1):
                    break
                end += 2
            cells.append(nulls.of(text[at + 1 : end].replace(quote * 2, quote), True))
            at = end + 1
            if at < len(text) and not text.startswith(delimiter, at):
                raise DataError("text follows a closing quote")
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            cell = text[at:end]
            if null:
                cells.append(None if cell == null else cell)
            else:
                cells.append(nulls.of(cell, False))
            at = end
        if at >= len(text):
            return cells
        at += 1


_ARROW: Final[Mapping[Type, Any]] = {
    Type.STRING: pa.large_string(),
    Type.BOOLEAN: pa.bool_(),
    Type.FLOAT64: pa.float64(),
    **dict.fromkeys(INT_BITS, pa.int64()),
}


class _CsvDecoder(LineDecoder[bytes]):
    blanks = b"\r\n"
    shows_its_end = True

    def __init__(
        self,
        reading: CsvReading,
        lines: Separated,
        skip: int,
        start: Position,
        names: list[str],
        schema: Schema,
    ) -> None:
        super().__init__(lines, skip, start, reading.places)
        self._reading = reading
        self._names = names
        self._schema = schema
        self._fields = [field for field in schema.fields if field.name in names]
        self._texts = {field.name: pa.large_string() for field in self._fields}
        self._types = {
            field.name: _ARROW.get(field.schema.type, pa.large_string())
            if field.schema.logical is None
            else pa.large_string()
            for field in self._fields
        }
        self._plain = len(self._fields) == len(schema.fields) and all(
            field.schema.logical is None and field.schema.type in _ARROW for field in schema.fields
        )
        self._regular = True

    def find(self, data: bytes) -> Any:
        ends, self._regular = scan(data, self._reading.dialect)
        return ends

    def split(self, data: bytes, ends: Any) -> list[bytes]:
        if self._regular and data.count(NEWLINE) <= len(ends):
            return super().split(data, ends)
        begins = [0, *ends.tolist()]
        return [data[begin:end].removesuffix(NEWLINE) for begin, end in pairwise(begins)]

    def values(self, lines: list[bytes], failed: Failed) -> Column:
        if not self._regular:
            return self._parse(lines, failed)
        members = self._by_arrow(lines, self._types, failed)
        if members is not None and self._plain and self._fits(members):
            members = {field.name: members[field.name] for field in self._schema.fields}
            if not failed:
                return Fields(self._schema, members, len(lines))
        if members is None or not self._fits(members):
            failed.clear()
            members = self._by_arrow(lines, self._texts, failed)
            if members is None:
                failed.clear()
                return self._parse(lines, failed)
        columns = {name: values_of(member) for name, member in members.items()}
        return self._converted(columns, len(lines), failed)

    def _by_arrow(
        self, lines: list[bytes], types: Mapping[str, Any], failed: Failed
    ) -> dict[str, Any] | None:
        """The columns of rows with one cell for each name; None if Arrow fails."""
        data = NEWLINE.join([*lines, b""])
        wrong: list[tuple[int | None, int]] = []

        def refuse(row: Any) -> str:
            wrong.append((row.number, row.actual_columns))
            return "skip"

        dialect = self._reading.dialect
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=self._names
                ),
                arrow_csv.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=dialect.quote or False,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=refuse,
                ),
                arrow_csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=[self._reading.null],
                    true_values=["true", "True", "TRUE", "1"],
                    false_values=["false", "False", "FALSE", "0"],
                    strings_can_be_null=bool(self._reading.null)
                    or dialect.nulls in (NullCells.EMPTY_SEPARATORS, NullCells.BOTH),
                    quoted_strings_can_be_null=dialect.nulls is NullCells.BOTH,
                ),
            )
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows + len(wrong) != len(lines):
            return None
        for number, cells in wrong:
            if number is None:
                return None
            failed[number - 1] = self._wrong_count(cells)
        members = {name: table.column(name).combine_chunks() for name in types}
        if not self._reading.null and not dialect.is_strict:
            for field in self._fields:
                schema = field.schema
                if schema.type is Type.STRING and not schema.optional and schema.default is None:
                    members[field.name] = members[field.name].fill_null("")
        return members

    def _wrong_count(self, cells: int) -> DataError:
        return DataError(f"it has {cells} cells, but the file has {len(self._names)} columns")

    def _fits(self, members: Mapping[str, Any]) -> bool:
        """Whether the cells that Arrow converted are valid for the schema."""
        for field in self._fields:
            schema, member = field.schema, members[field.name]
            if member.null_count and (not schema.optional or schema.default is not None):
                return False
            if schema.type in INT_BITS and schema.type is not Type.INT64 and not schema.logical:
                low, high = int_range(schema.type)
                ends = pc.min_max(member).as_py()
                if ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high:
                    return False
        return True

    def _parse(self, lines: list[bytes], failed: Failed) -> Column:
        rows: list[list[str | None]] = []
        for row, line in enumerate(lines):
            try:
                cells = _cells(line, self._reading, self._reading.null)
                if len(cells) != len(self._names):
                    raise self._wrong_count(len(cells))
                rows.append(cells)
            except DataError as error:
                failed[row] = error
        columns = dict(zip(self._names, zip(*rows, strict=True), strict=True)) if rows else {}
        return self._converted(columns, len(lines), failed)

    def _converted(
        self, columns: Mapping[str, Sequence[Any]], count: int, failed: Failed
    ) -> Column:
        """The values of columns with a cell for each row that is not in `failed`."""
        if len(failed) == count:
            return Column.of([None] * count, self._schema)
        rows = range(count) if not failed else [row for row in range(count) if row not in failed]
        converted: list[Sequence[Value]] = []
        for field in self._schema.fields:
            cells = columns.get(field.name)
            if cells is None:
                converted.append([field.schema.default] * len(rows))
                continue
            read = reader(field.schema, self._reading.null, self._reading.dialect.is_strict)
            if read is None:
                converted.append(cells)
                continue
            try:
                converted.append(list(map(read, cells)))
            except DataError:
                converted.append(self._one_by_one(field.name, read, cells, rows, failed))
        values = structs_of(self._schema.field_names)(converted)
        if len(rows) == count and not failed:
            return Column.of(values, self._schema)
        all_values: list[Value] = [None] * count
        for row, value in zip(rows, values, strict=True):
            if row not in failed:
                all_values[row] = value
        return Column.of(all_values, self._schema)

    def _one_by_one(
        self, name: str, read: Any, cells: Sequence[Any], rows: Sequence[int], failed: Failed
    ) -> list[Value]:
        values: list[Value] = []
        for row, cell in zip(rows, cells, strict=True):
            try:
                values.append(read(cell))
            except DataError as error:
                values.append(None)
                failed.setdefault(row, DataError(f"column '{name}': {error}"))
        return values
