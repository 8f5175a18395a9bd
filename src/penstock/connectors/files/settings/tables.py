"""The tables that settings name entries of: formats and partitioners, by the names of their Java
classes. A class may be given with any package, or none, and without what all names end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api.settings import Check, checking
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.columns import Orc, Parquet
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv, RawBytes, TextLines


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What settings say to formats."""

    compression: str = "none"
    level: int | None = None
    avro_codec: str = "null"
    parquet_codec: str = "snappy"
    numeric_decimals: bool = False
    extension: str = ".bin"
    separator: bytes = b"\n"
    csv_delimiter: str = ","
    csv_header: bool = True


FORMATS: Final[Mapping[str, Callable[[FormatOptions], Format]]] = {
    "Avro": lambda its: Avro(its.avro_codec),
    "Json": lambda its: JsonLines(its.compression, its.level, numeric=its.numeric_decimals),
    "Parquet": lambda its: Parquet(its.parquet_codec),
    "Orc": lambda its: Orc(),
    "Csv": lambda its: Csv(
        its.compression, its.level, delimiter=its.csv_delimiter, header=its.csv_header
    ),
    "String": lambda its: TextLines(its.compression, its.level),
    "ByteArray": lambda its: RawBytes(
        its.compression, its.level, extension=its.extension, separator=its.separator
    ),
}
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
