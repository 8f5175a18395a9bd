"""What a source task is to read, as a stream that Spark takes its batches from.

A row names ranges, each from where to where, that are read one after the other. Rows are added in
the worker, where planning happens; what they stand for is read in the stage, wherever Spark runs
it. That way an idle source costs a query that has nothing to do, and no process of its own (see
docs/decisions/0010-sources-stream-ranges.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from penstock.api import Offsets, SourceOffset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Range:
    """From `start` up to `end`."""

    start: Offsets
    end: Offsets


def encode(ranges: Sequence[Range]) -> str:
    """Ranges as a row; offsets are flat maps of JSON's own values."""
    return orjson.dumps([[_pairs(each.start), _pairs(each.end)] for each in ranges]).decode()


def decode(row: str) -> list[Range]:
    """The ranges of a row."""
    return [Range(_offsets(start), _offsets(end)) for start, end in orjson.loads(row)]


def _pairs(offsets: Offsets) -> list[list[Any]]:
    return [[dict(at.partition), at.offset and dict(at.offset)] for at in offsets]


def _offsets(pairs: list[list[Any]]) -> Offsets:
    return [SourceOffset(partition, offset) for partition, offset in pairs]


class Ranges:
    """A stream of ranges, with one column of text. Only this process can add to it."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._to_seq = jvm.PythonUtils.toSeq
        self._stream = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(
            jvm.org.apache.spark.sql.Encoders.STRING(), spark._jsparkSession
        )
        self._spark = spark

    def frame(self) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(self._stream.toDF(), self._spark)

    def add(self, rows: Sequence[Sequence[Range]]) -> None:
        """Adds rows; each is for a Spark task of its own."""
        for row in rows:
            self._stream.addData(self._to_seq([encode(row)]))
