"""A connector's `SourceReader` as a Spark streaming data source.

Spark's offset of such a query is a list of `[partition, offset]` pairs, so that what Spark
checkpoints is what Connect stores (`offsets.py`).
"""

from __future__ import annotations

import base64
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes
from pyspark.sql.types import StructType

from penstock.api import Offsets, SourceReader
from penstock.flow.offsets import from_spark, to_spark
from penstock.flow.plan import Boundary, SourcePlan, Transactions

FORMAT: Final = "penstock"
BATCH_BYTES: Final = 1 << 25
"""About how much one batch reads: large enough to be fast, small enough to stop soon."""


def plan_option(plan: SourcePlan) -> str:
    """A plan as a reader option; options are text."""
    # cloudpickle ships with PySpark and takes classes defined in a notebook too.
    from pyspark import cloudpickle

    return base64.b64encode(cloudpickle.dumps(plan)).decode()  # type: ignore[no-untyped-call]


class PenstockSource(DataSource):
    """`spark.readStream.format("penstock").option("plan", …)`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(self._reader().schema)  # type: ignore[attr-defined]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(self._reader(), self._plan().transactions)

    def _reader(self) -> SourceReader:
        plan = self._plan()
        return plan.connector().open(plan.config)

    def _plan(self) -> SourcePlan:
        plan: SourcePlan = pickle.loads(base64.b64decode(self.options["plan"]))
        return plan


@dataclass
class _Part(InputPartition):
    """One range of a batch, as Spark's offsets."""

    start: Any
    end: Any


class _StreamReader(DataSourceStreamReader):
    """Exactly once every batch is a transaction: by `poll` they are as they come, by `connector`
    they end where the reader says, and by `interval` one that is not full waits for its time."""

    def __init__(self, reader: SourceReader, transactions: Transactions | None) -> None:
        self._reader = reader
        self._boundary = transactions.boundary if transactions else Boundary.POLL
        self._interval_s = transactions.interval_ms / 1000 if transactions else 0.0
        self._last = time.monotonic()

    def initialOffset(self) -> dict:  # type: ignore[type-arg]  # Spark takes any JSON value
        return to_spark([])  # type: ignore[return-value]

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(BATCH_BYTES)

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else BATCH_BYTES
        begin = from_spark(start)
        if self._boundary is Boundary.CONNECTOR:
            most = sys.maxsize
        end = self._reader.latest(begin, most)
        if end is begin or end == begin:
            return start
        if self._boundary is Boundary.INTERVAL and not self._is_due(end):
            return start
        return to_spark(end)

    def _is_due(self, end: Offsets) -> bool:
        """Whether a transaction up to `end` may begin: its time has come, or it is full, so that
        waiting would only make it late."""
        now = time.monotonic()
        full = self._reader.latest(end, 1) != end
        if not full and now - self._last < self._interval_s:
            return False
        self._last = now
        return True

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        parts = self._reader.parts(from_spark(start), from_spark(end))
        return [_Part(to_spark(first), to_spark(last)) for first, last in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        return self._reader.read(from_spark(partition.start), from_spark(partition.end))
