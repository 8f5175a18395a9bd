"""A source task's query: what the connector reads, converted and produced, and how far it got."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api import Offsets
from penstock.flow import offsets
from penstock.flow.datasource import FORMAT, plan_option
from penstock.flow.engine import BatchDone, Query
from penstock.flow.plan import SourcePlan
from penstock.flow.stage import RESULT_DDL, SourceStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SourceQuery(Query):
    """`committed` gets the positions reached after each batch whose records are acknowledged; when
    it returns they are stored."""

    def __init__(
        self,
        spark: SparkSession,
        plan: SourcePlan,
        committed: Callable[[Offsets], None],
        report: Callable[[BatchDone], None],
    ) -> None:
        super().__init__(spark, plan.task, plan.run)
        self._plan = plan
        self._committed = committed
        self._report = report

    def frame(self, checkpoint: Path) -> DataFrame:
        if self._plan.start:
            offsets.seed(checkpoint, offsets.to_spark(self._plan.start))
        read = self._spark.readStream.format(FORMAT).option("plan", plan_option(self._plan)).load()
        return read.mapInArrow(SourceStage(self._plan), RESULT_DDL)

    def after(self, checkpoint: Path, batch: int, rows: list[Any]) -> None:
        self._committed(offsets.from_spark(offsets.reached(checkpoint, batch)))
        self._report(batch_done(self._plan.task, self._plan.run, rows))


def batch_done(task: Any, run: int, rows: list[Any]) -> BatchDone:
    """A batch's result rows, summed up."""
    return BatchDone(
        task,
        run,
        records=sum(row.records for row in rows),
        done=sum(row.done for row in rows),
        failed=sum(row.failed for row in rows),
        topics={row.topic: 1 for row in rows if row.topic},
    )
