"""The first query of a session, run before anybody waits for one.

The first batch in a new JVM takes seconds, later ones a tenth of one (design §4.7). A query that
counts a row pays for that in advance; on a cluster, in every executor there is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.flow import remote, watch
from penstock.flow.engine import Query
from penstock.flow.ranges import Ranges
from penstock.ids import TaskId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_TASK: Final = TaskId("penstock-warm-up", 0)
_WAIT_S: Final = 60.0
_REMOTE_WAIT_S: Final = 300.0  # executors start, fetch what they need and unpack it
_LOOK_S: Final = 0.5
_COUNT_DDL: Final = "rows long"


class _WarmUpQuery(Query):
    """Counts the rows of a stream of ranges, as many as there are executors to warm up."""

    def __init__(self, spark: SparkSession, rows: int) -> None:
        super().__init__(spark, _TASK, 0)
        self._rows = rows
        self._ranges = Ranges(spark)
        self.done = threading.Event()

    def frame(self, checkpoint: Path) -> DataFrame:
        return self._ranges.frame().mapInArrow(_count, _COUNT_DDL)

    def start(self) -> None:
        super().start()
        self._ranges.add([[]] * self._rows)

    def after(self, checkpoint: Path, batch: int, rows: Any) -> None:
        self.done.set()


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


def warm_up(spark: SparkSession) -> None:
    """Runs the query and waits for its one batch; a failure is logged and does no harm."""
    on_cluster = remote.is_remote(str(spark.sparkContext.master))
    wait_s = _REMOTE_WAIT_S if on_cluster else _WAIT_S
    query: _WarmUpQuery | None = None
    try:
        query = _WarmUpQuery(spark, _executors(spark) if on_cluster else 1)
        query.start()
        if not query.done.wait(wait_s):
            log.warning("warming up took more than %.0f s: %s", wait_s, query.failure or "")
    except Exception as error:
        log.warning("warming up failed: %s", error)
    finally:
        if query is not None:
            query.stop(1)


def _executors(spark: SparkSession) -> int:
    """How many executors there are once the first has come; 1 if none comes in time."""
    pause = threading.Event()
    for _ in range(int(_WAIT_S / _LOOK_S)):
        found = watch.executors(spark)
        if found:
            return found
        pause.wait(_LOOK_S)
    return 1
