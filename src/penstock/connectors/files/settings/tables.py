"""The tables that settings name entries of: formats and partitioners, by the names of their Java
classes. A class may be given with any package, or none, and without what all names end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.schema import Schema
from penstock.api.settings import Check, checking
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.avro_read import AvroReading
from penstock.connectors.files.formats.codecs_read import codec_of
from penstock.connectors.files.formats.columns import Orc, Parquet
from penstock.connectors.files.formats.columns_read import OrcReading, ParquetReading
from penstock.connectors.files.formats.csv_read import RFC_4180, CsvReading, Dialect
from penstock.connectors.files.formats.decoder import Reading
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.json_read import JsonReading
from penstock.connectors.files.formats.lines import Csv, RawBytes, TextLines
from penstock.connectors.files.formats.lines_read import MOST, TextReading
from penstock.connectors.files.formats.raw_read import PiecesReading, SliceReading, WholeReading

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What settings say to formats."""

    compression: str = "none"
    level: int | None = None
    avro_codec: str = "null"
    parquet_codec: str = "snappy"
    bare_parquet: bool = False  # names of Parquet files do not tell the codec
    numeric_decimals: bool = False
    extension: str = ".bin"
    separator: bytes = b"\n"
    csv_delimiter: str = ","
    csv_header: bool = True


FORMATS: Final[Mapping[str, Callable[[FormatOptions], Format]]] = {
    "Avro": lambda its: Avro(its.avro_codec),
    "Json": lambda its: JsonLines(its.compression, its.level, numeric=its.numeric_decimals),
    "Parquet": lambda its: Parquet(its.parquet_codec, bare=its.bare_parquet),
    "Orc": lambda its: Orc(),
    "Csv": lambda its: Csv(
        its.compression, its.level, delimiter=its.csv_delimiter, header=its.csv_header
    ),
    "String": lambda its: TextLines(its.compression, its.level),
    "ByteArray": lambda its: RawBytes(
        its.compression, its.level, extension=its.extension, separator=its.separator
    ),
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What settings say to formats that are read."""

    compression: str = AUTO
    """A codec of whole files, or AUTO: by the ending of the name."""
    encoding: str = "utf-8"
    record_max_bytes: int = MOST
    schema: Schema | None = None
    """Of JSON and CSV, which have none."""
    member: str | None = None
    """Of Parquet and ORC: the column whose values are the records, if there is no other. Files of
    keys have `key`, those of headers `headers`."""
    json_documents: bool = False
    csv_dialect: Dialect = RFC_4180
    csv_header: bool = True
    csv_names: tuple[str, ...] = ()
    csv_null: str = ""
    csv_infer_rows: int = 0
    separator: bytes | None = b"\n"
    """Of raw bytes; None: a file is one record, or slices of `slice_bytes`."""
    slice_bytes: int | None = None


READINGS: Final[Mapping[str, Callable[[ReadOptions], Reading]]] = {
    "Avro": lambda its: AvroReading(),
    "Json": lambda its: JsonReading(
        its.compression,
        documents=its.json_documents,
        schema=its.schema,
        encoding=its.encoding,
        most=its.record_max_bytes,
    ),
    "Parquet": lambda its: ParquetReading(its.member),
    "Orc": lambda its: OrcReading(its.member),
    "Csv": lambda its: CsvReading(
        its.compression,
        dialect=its.csv_dialect,
        header=its.csv_header,
        names=its.csv_names,
        null=its.csv_null,
        schema=its.schema,
        infer=its.csv_infer_rows,
        encoding=its.encoding,
        most=its.record_max_bytes,
    ),
    "String": lambda its: TextReading(
        its.compression, encoding=its.encoding, most=its.record_max_bytes
    ),
    "ByteArray": lambda its: _raw(its),
}


def _raw(its: ReadOptions) -> Reading:
    if its.separator is not None:
        return PiecesReading(its.compression, separator=its.separator, most=its.record_max_bytes)
    if its.slice_bytes is not None:
        return SliceReading(its.compression, size=its.slice_bytes)
    return WholeReading(its.compression, most=its.record_max_bytes)


def reading_of(format: str, its: ReadOptions, file: str) -> Reading:
    """How a file of that name is read; `format` is one of READINGS."""
    compression = codec_of(file) if its.compression == AUTO else its.compression
    return READINGS[format](replace(its, compression=compression))


COMPRESSED: Final = frozenset({"Json", "Csv", "String", "ByteArray"})
"""The formats whose files are compressed as a whole."""

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Period:
    """What a partitioner by time has as its own; None: settings say it."""

    duration_ms: int | None = None
    path: str | None = None  # with `/` for the delimiter


PARTITIONERS: Final[Mapping[str, Period | None]] = {
    "Default": None,
    "Field": None,
    "TimeBased": Period(),
    "Daily": Period(DAY_MS, "'year'=YYYY/'month'=MM/'day'=dd"),
    "Hourly": Period(HOUR_MS, "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"),
}

FORMAT: Final = "Format"
PARTITIONER: Final = "Partitioner"


def entry(table: Mapping[str, object], ending: str, given: str) -> str | None:
    """The name in a table of a class, or None.

    >>> entry(FORMATS, FORMAT, "io.confluent.connect.s3.format.json.JsonFormat")
    'Json'
    """
    simple = given.rpartition(".")[2].removesuffix(ending).lower()
    return next((name for name in table if name.lower() == simple), None)


def known(table: Mapping[str, object], ending: str) -> Check:
    """A class of a table."""
    names = ", ".join(f"{name}{ending}" for name in table)

    def find(given: str | None) -> str | None:
        if given is not None and entry(table, ending, given) is None:
            return f"It is none of {names}"
        return None

    return checking(names, find)
