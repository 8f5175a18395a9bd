"""The Spark side of a worker: tasks are started as streaming queries, stopped in order, and report
what they did.

Promises: a batch is reported only after its records are where they go; a task that is stopped in
time has reported all it did; nothing of a task runs after `stop` returned.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError, StartupFailed
from penstock.flow import checkpoints
from penstock.flow import session as spark_session
from penstock.flow.causes import mark
from penstock.ids import TaskId
from penstock.logs import about

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch's records are where they go; `topics` counts them."""

    task: TaskId
    run: int
    records: int
    done: int
    failed: int
    topics: Mapping[str, int] = field(default_factory=dict)
    ms: float = 0.0  # from the begin of the batch until now
    retries: int = 0
    lost: int = 0  # dead letters that Kafka did not take


@dataclass(frozen=True, slots=True)
class Committed:
    """A sink task has tried to commit what it has written; `partitions` are those it owns."""

    task: TaskId
    run: int
    ok: bool
    ms: float
    partitions: int


Place = tuple[str, int]
"""A topic and one of its partitions."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a running task stands at this moment: how many records of each partition a sink has
    before it, and what Spark tells of its last batch."""

    behind: Mapping[Place, int] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)


Report = Callable[[BatchDone | Committed], None]
"""Told what a task does, from threads of Spark's and the task's own; must not block."""


class SessionAborted(PenstockError):
    """Spark was still starting when the worker was told to end."""

    code = "spark.aborted"


class Session:
    """The SparkSession, once it is there. `get` waits for it; `ready` tells without waiting."""

    def __init__(
        self,
        settings: Mapping[str, str],
        say: Callable[[str], None],
        roots: Sequence[str] = (),
        *,
        encrypted: bool = False,
    ) -> None:
        self._settings = settings
        self._say = say
        self._roots = roots
        self._encrypted = encrypted
        self._there = threading.Event()
        self._spark: SparkSession | None = None
        self._error: BaseException | None = None
        self._aborted = False

    @property
    def ready(self) -> bool:
        return self._there.is_set() and self._spark is not None

    def start(self) -> None:
        """Starts Spark; blocks. Whoever waits in `get` gets the error, if any."""
        try:
            self._spark = spark_session.start(
                self._settings, self._say, self._roots, encrypted=self._encrypted
            )
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._there.set()

    def abort(self) -> None:
        """Nobody is to wait for Spark any more: `get` raises SessionAborted if it is not there."""
        self._aborted = True
        self._there.set()

    def get(self, timeout_s: float = 180) -> SparkSession:
        if not self._there.wait(timeout_s):
            raise StartupFailed(f"Spark did not start within {timeout_s:.0f} s.")
        if self._spark is None and self._aborted:
            raise SessionAborted("Spark is not started any more: the worker ends.")
        if self._spark is None:
            raise StartupFailed(f"Spark did not start: {self._error}") from self._error
        return self._spark

    def stop(self) -> None:
        """Stops Spark and its JVM, if they run."""
        if self._spark is None:
            shutil.rmtree(spark_session.scratch(), ignore_errors=True)
            return
        gateway = self._spark.sparkContext._gateway
        with contextlib.suppress(Exception):  # a JVM that is gone already is stopped
            self._spark.stop()
        assert gateway is not None
        with contextlib.suppress(Exception):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            with contextlib.suppress(Exception):
                process.wait(10)
        shutil.rmtree(spark_session.scratch(), ignore_errors=True)


IDLE_S: Final = 30.0
"""A query without a batch for so long is ended: even one with nothing to do costs a core some
percent. Its task goes on, and starts another one when there is something to do."""


class Query(ABC):
    """One run of one task's query. Subclasses say what it reads and what happens after a batch."""

    def __init__(self, spark: SparkSession, task: TaskId, run: int) -> None:
        self._spark = spark
        self._task = task
        self._run = run
        self._checkpoint = spark_session.scratch() / f"{task}-{run}-{time.monotonic_ns()}"
        self._asked_to_stop = self._checkpoint / "stop"
        self._turn = threading.Condition()
        self._stopping = False
        self._in_batch = False
        self._began_at = 0.0
        self._rested_at = time.monotonic()
        self._query: StreamingQuery | None = None
        self.failure: str | None = None
        """The trace of what ended the query, when something did."""

    @abstractmethod
    def frame(self, checkpoint: Path) -> DataFrame:
        """The plan: everything up to the stage's result rows. May prepare the checkpoint."""

    def take(self, frame: DataFrame, checkpoint: Path, batch: int) -> Any:
        """Runs a batch; the rows of its stage."""
        return frame.collect()

    @abstractmethod
    def after(self, checkpoint: Path, batch: int, rows: Any) -> None:
        """Called when a batch's stage is through, with what `take` made of its rows."""

    def start(self) -> None:
        """Starts the query; returns when Spark has taken it."""
        self._checkpoint.mkdir(parents=True)
        frame = self.frame(self._checkpoint)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._task.connector)
        writer = (
            frame.writeStream.foreachBatch(self._on_batch)
            .queryName(f"{self._task}#{self._run}")
            .option("checkpointLocation", checkpoints.location(self._checkpoint))
        )
        self._query = writer.start()

    @property
    def batch_ms(self) -> float:
        """How long the batch in hand has taken so far."""
        return (time.monotonic() - self._began_at) * 1000

    @property
    def alive(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

    @property
    def progress(self) -> Mapping[str, Any]:
        """What Spark tells of the last batch (StreamingQueryProgress); empty before the first."""
        found = None
        with contextlib.suppress(Exception):  # it has just ended
            found = self._query.lastProgress if self._query is not None else None
        return found or {}

    @property
    def idle_s(self) -> float:
        """For how long there has been no batch."""
        return 0.0 if self._in_batch else time.monotonic() - self._rested_at

    def ended(self) -> str:
        """Why the query is not alive any more: a trace, for the task's status."""
        if self.failure is None and self._query is not None:
            with contextlib.suppress(Exception):
                error = self._query.exception()
                self.failure = str(error) if error is not None else None
        return self.failure or "The query ended by itself."

    def stop(self, timeout_s: float) -> bool:
        """Ends the query between two batches; False when a batch had to be cut off.

        What a batch that was cut off has done is not reported, so it is done again later.
        """
        deadline = time.monotonic() + timeout_s
        with self._turn:
            self._stopping = True
            with contextlib.suppress(OSError):  # never started, or ended already
                self._asked_to_stop.touch()
            in_time = self._turn.wait_for(
                lambda: not self._in_batch, max(0.0, deadline - time.monotonic())
            )
        if self._query is not None:
            # A query that failed meanwhile cannot be stopped again, and need not be.
            with contextlib.suppress(Exception):
                self._query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        return in_time

    def _on_batch(self, frame: DataFrame, batch: int) -> None:
        with self._turn:
            if self._stopping:
                return  # nothing of this batch is done; the checkpoint is thrown away
            self._in_batch = True
            self._began_at = time.monotonic()
        try:
            with about(self._task):
                rows = self.take(frame, self._checkpoint, batch)
                self.after(self._checkpoint, batch, rows)
        except BaseException as error:
            if not self._stopping:
                self.failure = readable(error)
            raise
        finally:
            with self._turn:
                self._in_batch = False
                self._rested_at = time.monotonic()
                self._turn.notify_all()


_NOISE: Final = ("JVM stacktrace:", "\n\tat org.apache.spark", "\nDriver stacktrace:")


def readable(error: BaseException) -> str:
    """A trace as text. For an error from a Python worker, its trace there rather than Spark's."""
    mark(error)
    text = str(error)
    start = text.find("Traceback (most recent call last)")
    if start >= 0:
        for noise in _NOISE:
            end = text.find(noise, start)
            text = text[:end] if end > 0 else text
        return text[start:].strip()
    return "".join(traceback.format_exception(error)).strip()
