"""The first query of a session, run before anybody waits for one.

The first batch in a new JVM takes seconds, later ones a tenth of one (design §4.7). A query that
moves two rows through every part a source task uses pays for that in advance; on a cluster, in
every executor there is.
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
from penstock.config.define import INT, Config, ConfigDef, Key
from penstock.data.records import Column, Records
from penstock.flow import remote, watch
from penstock.flow.datasource import FORMAT, plan_option
from penstock.flow.engine import Query
from penstock.flow.plan import Conversion, ConverterPlan, SourcePlan, Tolerance
from penstock.ids import TaskId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_TASK: Final = TaskId("penstock-warm-up", 0)
_WAIT_S: Final = 60.0
_REMOTE_WAIT_S: Final = 300.0  # executors start, fetch what they need and unpack it
_LOOK_S: Final = 0.5
_NOTHING: Final = ConfigDef().parse({})
_COUNT_DDL: Final = "rows long"
_PARTS: Final = Key("parts", INT, default=1, doc="Into how many parts the two rows are read.")


class _TwoRows(SourceConnector):
    """A source that has two rows, once, or `parts` times two."""

    plugin = Plugin("penstock.WarmUp", "1", ConfigDef(_PARTS))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [{}]

    def open(self, config: Config) -> Reader:
        return _TwoRowsReader(config[_PARTS])


class _TwoRowsReader(Reader):
    schema = pa.schema([("value", pa.string())])

    def __init__(self, parts: int) -> None:
        self._parts = parts

    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        return start or [SourceOffset({}, {"done": True})]

    def parts(self, start: Offsets, end: Offsets) -> list[tuple[Offsets, Offsets]]:
        return [(start, end)] * self._parts

    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["a", "b"]}, schema=self.schema)

    def records(self, batch: pa.RecordBatch) -> Records:
        return Records([], [], [], Column([], []), Column([], []))


class _WarmUpQuery(Query):
    def __init__(self, spark: SparkSession, parts: int) -> None:
        super().__init__(spark, _TASK, 0)
        self._config = ConfigDef(_PARTS).parse({_PARTS.name: str(parts)})
        self.done = threading.Event()

    def frame(self, checkpoint: Path) -> DataFrame:
        plain = ConverterPlan(Converter, _NOTHING)  # type: ignore[type-abstract]  # never built
        conversion = Conversion(plain, plain, plain)
        plan = SourcePlan(_TASK, 0, _TwoRows, self._config, conversion, Tolerance(), producer={})
        read = self._spark.readStream.format(FORMAT).option("plan", plan_option(plan)).load()
        return read.mapInArrow(_count, _COUNT_DDL)

    def after(self, checkpoint: Path, batch: int, rows: list[Any]) -> None:
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
