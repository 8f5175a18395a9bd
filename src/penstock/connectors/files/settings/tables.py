"""The tables whose entries settings name: formats and partitioners, by the names of their Java
classes. A class may have any package, or none, and lack the ending that all names share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.schema import Schema
from penstock.api.settings import Check, checking
from penstock.connectors.files.formats.avro import PLAIN, Avro, AvroOptions
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
    """The settings of formats that are written."""

    compression: str = "none"
    level: int | None = None
    avro_codec: str = "null"
    avro: AvroOptions = PLAIN  # also for Parquet's schemas
    parquet_codec: str = "snappy"
    bare_parquet: bool = False  # names of Parquet files do not have the codec
    numeric_decimals: bool = False
    extension: str = ".bin"
    separator: bytes = b"\n"
    csv_delimiter: str = ","
    csv_header: bool = True


FORMATS: Final[Mapping[str, Callable[[FormatOptions], Format]]] = {
    "Avro": lambda options: Avro(options.avro_codec, options.avro),
    "Json": lambda options: JsonLines(
        options.compression, options.level, numeric=options.numeric_decimals
    ),
    "Parquet": lambda options: Parquet(
        options.parquet_codec, options.avro, bare=options.bare_parquet
    ),
    "Orc": lambda options: Orc(),
    "Csv": lambda options: Csv(
        options.compression,
        options.level,
        delimiter=options.csv_delimiter,
        header=options.csv_header,
    ),
    "String": lambda options: TextLines(options.compression, options.level),
    "ByteArray": lambda options: RawBytes(
        options.compression, options.level, extension=options.extension, separator=options.separator
    ),
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The settings of formats that are read."""

    compression: str = AUTO
    """A codec of whole files, or AUTO: by the ending of the name."""
    encoding: str = "utf-8"
    record_max_bytes: int = MOST
    schema: Schema | None = None
    """For JSON and CSV, which have none themselves."""
    member: str | None = None
    """For Parquet and ORC: the column whose values are the records, if it is the only one. Files of
    keys have `key`, those of headers `headers`."""
    json_documents: bool = False
    csv_dialect: Dialect = RFC_4180
    csv_header: bool = True
    csv_names: tuple[str, ...] = ()
    csv_null: str = ""
    csv_infer_rows: int = 0
    csv_skip: int = 0
    csv_plain_names: bool = False
    separator: bytes | None = b"\n"
    """For raw bytes; None: a file is one record, or slices of `slice_bytes`."""
    slice_bytes: int | None = None


READINGS: Final[Mapping[str, Callable[[ReadOptions], Reading]]] = {
    "Avro": lambda options: AvroReading(),
    "Json": lambda options: JsonReading(
        options.compression,
        documents=options.json_documents,
        schema=options.schema,
        encoding=options.encoding,
        most=options.record_max_bytes,
    ),
    "Parquet": lambda options: ParquetReading(options.member),
    "Orc": lambda options: OrcReading(options.member),
    "Csv": lambda options: CsvReading(
        options.compression,
        dialect=options.csv_dialect,
        header=options.csv_header,
        names=options.csv_names,
        null=options.csv_null,
        schema=options.schema,
        infer=options.csv_infer_rows,
        encoding=options.encoding,
        most=options.record_max_bytes,
        skip=options.csv_skip,
        plain_names=options.csv_plain_names,
    ),
    "String": lambda options: TextReading(
        options.compression, encoding=options.encoding, most=options.record_max_bytes
    ),
    "ByteArray": lambda options: _raw(options),
}


def _raw(options: ReadOptions) -> Reading:
    if options.separator is not None:
        return PiecesReading(
            options.compression, separator=options.separator, most=options.record_max_bytes
        )
    if options.slice_bytes is not None:
        return SliceReading(options.compression, size=options.slice_bytes)
    return WholeReading(options.compression, most=options.record_max_bytes)


def reading_of(format: str, options: ReadOptions, file: str) -> Reading:
    """How a file of that name is read; `format` is one of READINGS."""
    compression = codec_of(file) if options.compression == AUTO else options.compression
    return READINGS[format](replace(options, compression=compression))


HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Period:
    """What a partitioner by time defines itself; None: a setting defines it."""

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


def entry(table: Mapping[str, object], ending: str, class_name: str) -> str | None:
    """The name of a class in a table, or None.

    >>> entry(FORMATS, FORMAT, "io.confluent.connect.s3.format.json.JsonFormat")
    'Json'
    """
    simple = class_name.rpartition(".")[2].removesuffix(ending).lower()
    return next((name for name in table if name.lower() == simple), None)


def known(table: Mapping[str, object], ending: str) -> Check:
    """Checks that a class is in a table."""
    names = ", ".join(f"{name}{ending}" for name in table)

    def problem(class_name: str | None) -> str | None:
        if class_name is not None and entry(table, ending, class_name) is None:
            return f"It is not one of {names}"
        return None

    return checking(names, problem)
