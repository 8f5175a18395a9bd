"""The first query of a session, run before anybody waits for one.

The first batch in a new JVM takes seconds, later ones a tenth of one (design §4.7). A query that
moves two rows through every part a source task uses pays for that in advance.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.api import Converter, Offsets, Plugin, Props, SourceConnector, SourceOffset
from penstock.api import SourceReader as Reader
from penstock.config.define import Config, ConfigDef
from penstock.data.records import Column, Records
from penstock.flow.datasource import FORMAT, plan_option
from penstock.flow.engine import Query
from penstock.flow.plan import ConverterPlan, SourcePlan, Tolerance
from penstock.flow.stage import RESULT, RESULT_DDL
from penstock.ids import TaskId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_TASK: Final = TaskId("penstock-warm-up", 0)
_WAIT_S: Final = 60.0
_NOTHING: Final = ConfigDef().parse({})


class _TwoRows(SourceConnector):
    """A source that has two rows, once."""

    plugin = Plugin("penstock.WarmUp", "1", ConfigDef())

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [{}]

    def open(self, config: Config) -> Reader:
        return _TwoRowsReader()


class _TwoRowsReader(Reader):
    schema = pa.schema([("value", pa.string())])

    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        return start or [SourceOffset({}, {"done": True})]

    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["a", "b"]}, schema=self.schema)

    def records(self, batch: pa.RecordBatch) -> Records:
        return Records([], [], [], Column([], []), Column([], []))


class _WarmUpQuery(Query):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, _TASK, 0)
        self.done = threading.Event()

    def frame(self, checkpoint: Path) -> DataFrame:
        plain = ConverterPlan(Converter, _NOTHING)  # type: ignore[type-abstract]  # never built
        plan = SourcePlan(
            _TASK, 0, _TwoRows, _NOTHING, plain, plain, Tolerance(), producer={}, topic_groups=(),
            start=(),
        )  # fmt: skip
        read = self._spark.readStream.format(FORMAT).option("plan", plan_option(plan)).load()
        return read.mapInArrow(_count, RESULT_DDL)

    def after(self, checkpoint: Path, batch: int, rows: list[Any]) -> None:
        self.done.set()


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict(
        {"records": [rows], "done": [rows], "failed": [0], "topic": [""]}, schema=RESULT
    )


def warm_up(spark: SparkSession) -> None:
    """Runs the query and waits for its one batch; a failure is logged and does no harm."""
    query = _WarmUpQuery(spark)
    try:
        query.start()
        if not query.done.wait(_WAIT_S):
            log.warning("warming up took more than %.0f s: %s", _WAIT_S, query.failure or "")
    except Exception as error:
        log.warning("warming up failed: %s", error)
    finally:
        query.stop(1)
