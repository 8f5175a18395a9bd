"""Columnar files: Parquet and ORC."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.api import Column, DataError, Failed
from penstock.api.schema import Schema
from penstock.connectors.files.formats.arrow import batch_of, file_schema
from penstock.connectors.files.formats.avro import PLAIN, AvroOptions, avro_schema
from penstock.connectors.files.formats.codecs import Handle
from penstock.connectors.files.formats.format import Encoder, Format, Out
from penstock.connectors.files.formats.scrub import scrubbed_column, scrubbed_schema

AVRO_SCHEMA: Final = b"parquet.avro.schema"
"""The metadata key under which Confluent's connectors and other Avro writers store the schema."""

_GROUP_ROWS: Final = 1 << 17
_GROUP_BYTES: Final = 16 << 20  # as Arrow measures them
_BATCHES: Final = 256  # kept separately: small ones are mostly overhead

PARQUET_CODECS: Final[Mapping[str, tuple[str, str]]] = {
    "none": ("none", ""),
    "uncompressed": ("none", ""),
    "snappy": ("snappy", ".snappy"),
    "gzip": ("gzip", ".gz"),
    "zstd": ("zstd", ".zstd"),
    "lz4": ("lz4", ".lz4"),
    "brotli": ("brotli", ".br"),
}
"""Codecs by their names in settings: Arrow's name, and the suffix of file names."""


class _ColumnEncoder(Encoder[Any]):
    """Collects batches, and writes them in row groups."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._columns = file_schema(schema)
        self._batches: list[Any] = []
        self._rows = 0
        self.held_bytes = 0

    def encode(self, column: Column) -> Any | Failed:
        return batch_of(self._schema, column)

    def append(self, encoded: Any) -> None:
        # A group ends at the same row for any batches, unless it reaches its byte limit.
        while self._rows + len(encoded) >= _GROUP_ROWS:
            room = _GROUP_ROWS - self._rows
            self._hold(encoded.slice(0, room))
            self._write_group()
            encoded = encoded.slice(room)
        self._hold(encoded)
        if self.held_bytes >= _GROUP_BYTES:
            self._write_group()

    def relieve(self) -> None:
        if self._rows:
            self._write_group()

    def finish(self) -> None:
        self.relieve()
        self.end()

    def _hold(self, batch: Any) -> None:
        if len(batch):
            self._batches.append(batch)
            self._rows += len(batch)
            self.held_bytes += batch.nbytes
            if len(self._batches) >= _BATCHES:
                self._batches = self._table().to_batches()

    def _write_group(self) -> None:
        table = self._table()
        self._batches = []
        self._rows = 0
        self.held_bytes = 0
        self.write(table)

    def _table(self) -> Any:
        return pa.Table.from_batches(self._batches, self._columns).combine_chunks()

    @abstractmethod
    def write(self, table: Any) -> None:
        """Writes a row group."""

    @abstractmethod
    def end(self) -> None:
        """Writes the end of the file."""


class Parquet(Format):
    """Parquet files."""

    needs_schema = True
    structs_only = True

    def __init__(
        self, codec: str = "snappy", options: AvroOptions = PLAIN, *, bare: bool = False
    ) -> None:
        """`bare`: file names lack the codec's suffix."""
        self._codec, ending = PARQUET_CODECS[codec]
        self._options = options
        self._ending = "" if bare else ending

    @property
    def ending(self) -> str:
        return f"{self._ending}.parquet"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _ParquetEncoder(self.require(schema, "Parquet"), self._options, self._codec, out)


class _ParquetEncoder(_ColumnEncoder):
    def __init__(self, schema: Schema, options: AvroOptions, codec: str, out: Out) -> None:
        self._scrubs = schema if options.scrub else None
        if options.scrub:
            schema = scrubbed_schema(schema)
        super().__init__(schema)
        target = pa.PythonFile(Handle(out), "w")
        self._writer = pq.ParquetWriter(target, self._columns, compression=codec)
        declared = _in_avro(schema, options)
        if declared is not None:
            self._writer.add_key_value_metadata({AVRO_SCHEMA: declared})

    def encode(self, column: Column) -> Any | Failed:
        if self._scrubs is not None:
            column = scrubbed_column(self._scrubs, column)
        return super().encode(column)

    def write(self, table: Any) -> None:
        self._writer.write_table(table, row_group_size=_GROUP_ROWS)

    def end(self) -> None:
        self._writer.close()


@lru_cache(maxsize=256)
def _in_avro(schema: Schema, options: AvroOptions) -> bytes | None:
    """The schema as Kafka Connect's readers expect it; None if Avro cannot express it."""
    try:
        return json.dumps(avro_schema(schema, options), separators=(",", ":")).encode()
    except DataError:
        return None


class Orc(Format):
    """ORC files. ORC has no type for times of day: they are written as ms of the day."""

    needs_schema = True

    @property
    def ending(self) -> str:
        return ".orc"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _OrcEncoder(self.require(schema, "ORC"), out)


class _OrcEncoder(_ColumnEncoder):
    def __init__(self, schema: Schema, out: Out) -> None:
        from pyarrow import orc  # some 10 MB that only ORC needs

        super().__init__(schema)
        self._writer = orc.ORCWriter(pa.PythonFile(Handle(out), "w"), compression="zlib")

    def write(self, table: Any) -> None:
        for at, field in enumerate(table.schema):
            if pa.types.is_time(field.type):
                days = table.column(at).cast(pa.int32())
                table = table.set_column(at, pa.field(field.name, pa.int32()), days)
        self._writer.write(table)

    def end(self) -> None:
        self._writer.close()
