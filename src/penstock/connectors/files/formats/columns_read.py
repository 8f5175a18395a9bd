"""Reads columnar files: Parquet and ORC."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.api import Column, DataError, Failed
from penstock.api.avro import reads
from penstock.api.schema import INT_BITS, Logical, Schema, Type
from penstock.connectors.files.formats.arrow_read import (
    column_of,
    struct_schema,
    values_of,
)
from penstock.connectors.files.formats.codecs_read import Held
from penstock.connectors.files.formats.columns import AVRO_SCHEMA
from penstock.connectors.files.formats.decoder import (
    Chunk,
    Decoder,
    Input,
    NotThisFormat,
    Position,
    Reading,
    Truncated,
)

_BATCH_BYTES: Final = 1 << 22
_BATCH_ROWS: Final = 1 << 16


class ParquetReading(Reading):
    """Parquet files. A range has the row groups that begin in it.

    `only` names the single column whose values are the records: `key` and `headers` in the files
    of keys and headers.
    """

    splittable = True

    def __init__(self, only: str | None = None) -> None:
        self._only = only

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        return _ParquetDecoder(source, start, stop, self._only)


class OrcReading(Reading):
    """ORC files."""

    def __init__(self, only: str | None = None) -> None:
        self._only = only

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        return _OrcDecoder(source, start, self._only)


class _ColumnDecoder(Decoder):
    """Converts record batches to chunks."""

    name: str
    magic: bytes

    def __init__(self, source: Input, start: Position, only: str | None) -> None:
        self._source = source
        self._held = Held(source)
        self._start = start
        self._only = only
        self._record = 0
        self._skip = start.record
        self._batches: Iterator[Any] | None = None
        self._batch: Any = None
        self._schema: Schema | None = None
        self._value: str | None = None
        """The column whose values are the records."""

    def read(self, max_bytes: int) -> Chunk | None:
        try:
            if self._batches is None:
                self._begin()
            batch = self._rows(max_bytes)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if self._held.fault is not None:
                raise self._held.fault from None
            raise Truncated(f"The file is damaged or cut off: {error}") from error
        if batch is None:
            return None
        column, failed = self._column(batch)
        self._record += len(batch)
        failed = {
            row: DataError(f"Record {self._record - len(batch) + row + 1}: {error}")
            for row, error in failed.items()
        }
        after = Position(self._record, self._start.byte or None)
        return Chunk(column, None, after, failed)

    def close(self) -> None:
        self._batches = self._batch = None

    @abstractmethod
    def opened(self) -> tuple[Any, str | None, Iterator[Any]]:
        """Opens the file: returns its columns, its Avro schema if any, and its batches. It may skip
        some of the first `self._skip` rows."""

    def _begin(self) -> None:
        self._source.seek(0)
        head = self._source.read(len(self.magic))
        if not self.magic.startswith(head):
            raise NotThisFormat(f"The file is not in {self.name} format")
        columns, text, self._batches = self.opened()
        schema = struct_schema(columns)
        names = schema.field_names
        declared = _declared(text)
        if self._only is not None and names == (self._only,):
            self._value = self._only
        elif declared is not None and declared.type is not Type.STRUCT and names == ("value",):
            self._value = "value"
            declared = None if not _compatible(declared, schema.fields[0].schema) else declared
            self._schema = declared or schema.fields[0].schema
            return
        if declared is not None and _compatible(declared, schema):
            schema = declared
        self._schema = schema if self._value is None else schema.fields[0].schema

    def _rows(self, max_bytes: int) -> Any:
        """The next rows."""
        assert self._batches is not None, "it has begun"
        while self._batch is None or not len(self._batch):
            self._batch = next(self._batches, None)
            if self._batch is None:
                return None
            skipped = min(self._skip, len(self._batch))
            self._skip -= skipped
            self._record += skipped
            self._batch = self._batch.slice(skipped)
        size = max(1, self._batch.nbytes // len(self._batch))
        rows = max(1, min(len(self._batch), max_bytes // size))
        batch = self._batch.slice(0, rows)
        self._batch = self._batch.slice(rows)
        return batch

    def _column(self, batch: Any) -> tuple[Column, Failed]:
        assert self._schema is not None, "it has begun"
        if self._value is None:
            return column_of(self._schema, batch)
        array = batch.column(0)
        try:
            return Column.of(values_of(array), self._schema), {}
        except (DataError, ValueError, OverflowError):
            failed: Failed = {}
            values = []
            for row in range(len(array)):
                try:
                    values += values_of(array.slice(row, 1))
                except (DataError, ValueError, OverflowError) as error:
                    values.append(None)
                    failed[row] = error
            return Column.of(values, self._schema), failed


class _ParquetDecoder(_ColumnDecoder):
    name = "Parquet"
    magic = b"PAR1"

    def __init__(self, source: Input, start: Position, stop: int | None, only: str | None) -> None:
        super().__init__(source, start, only)
        self._stop = stop

    def opened(self) -> tuple[Any, str | None, Iterator[Any]]:
        source = pa.PythonFile(self._held, "r")
        file = pq.ParquetFile(source, page_checksum_verification=True)
        meta = file.metadata
        groups: list[int] = []
        rows = size = 0
        skipping = True
        for at in range(meta.num_row_groups):
            group = meta.row_group(at)
            if not self._is_in_range(group):
                continue
            if skipping and group.num_rows <= self._skip:
                self._skip -= group.num_rows
                self._record += group.num_rows
                continue
            skipping = False
            groups.append(at)
            rows += group.num_rows
            size += group.total_byte_size
        batch_rows = _BATCH_BYTES * max(rows, 1) // max(size, 1)
        batches = file.iter_batches(
            batch_size=max(1, min(_BATCH_ROWS, batch_rows)), row_groups=groups, use_threads=False
        )
        text = (meta.metadata or {}).get(AVRO_SCHEMA)
        return file.schema_arrow, None if text is None else text.decode("utf-8", "replace"), batches

    def _is_in_range(self, group: Any) -> bool:
        if not group.num_columns:
            return not self._start.byte
        first = group.column(0)
        byte = first.data_page_offset
        if first.has_dictionary_page and first.dictionary_page_offset:
            byte = min(byte, first.dictionary_page_offset)
        begin = self._start.byte or 0
        return bool(begin <= byte and (self._stop is None or byte < self._stop))


class _OrcDecoder(_ColumnDecoder):
    name = "ORC"
    magic = b"ORC"

    def opened(self) -> tuple[Any, str | None, Iterator[Any]]:
        from pyarrow import orc  # some 10 MB that only ORC needs

        file = orc.ORCFile(pa.PythonFile(self._held, "r"))
        return file.schema, None, (file.read_stripe(at) for at in range(file.nstripes))


def _declared(text: str | None) -> Schema | None:
    if text is None:
        return None
    try:
        return reads(text).schema
    except DataError:
        return None


def _compatible(declared: Schema | None, schema: Schema | None) -> bool:
    """Whether the values of a column fit the schema that the file declares for it."""
    if declared is None or schema is None:
        return False
    if declared.logical is not schema.logical or (schema.optional and not declared.optional):
        return False
    if declared.type is not schema.type:
        widths = INT_BITS.get(declared.type), INT_BITS.get(schema.type)
        return None not in widths and declared.logical is None
    if declared.logical is Logical.DECIMAL:
        return declared.scale == schema.scale
    match schema.type:
        case Type.ARRAY:
            return _compatible(declared.value_schema, schema.value_schema)
        case Type.MAP:
            return _compatible(declared.key_schema, schema.key_schema) and _compatible(
                declared.value_schema, schema.value_schema
            )
        case Type.STRUCT:
            return declared.field_names == schema.field_names and all(
                _compatible(expected.schema, field.schema)
                for expected, field in zip(declared.fields, schema.fields, strict=True)
            )
    return True
