"""Watches Spark on a cluster, which can lose its executors or be stopped from outside."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any, Final

from pyspark import SparkContext

log = logging.getLogger(__name__)

_LOOK_S: Final = 5.0
_ALONE_S: Final = 60.0


class WatchedContext(SparkContext):
    """A context that knows whether we stopped it."""

    stopped_by_us = False

    def stop(self) -> None:
        self.stopped_by_us = True
        super().stop()

    @property
    def stopped(self) -> bool:
        jvm_context = self._jsc
        return jvm_context is None or bool(jvm_context.sc().isStopped())


def executors(context: SparkContext) -> int:
    """The number of executors now."""
    jvm_context = context._jsc
    assert jvm_context is not None, "Spark is stopped"
    # One of the infos is the driver's.
    return len(jvm_context.sc().statusTracker().getExecutorInfos()) - 1


def removed_since(context: SparkContext, moment_s: float) -> bool:
    """Whether an executor was lost since a moment of `time.time`."""
    jvm_context = context._jsc
    assert jvm_context is not None, "Spark is stopped"
    known: Any = jvm_context.sc().statusStore().executorList(False)
    removed = (known.apply(number).removeTime() for number in range(known.size()))
    return any(time.isDefined() and time.get().getTime() >= moment_s * 1000 for time in removed)


def watch(context: WatchedContext) -> None:
    """Watches on a separate thread until Spark ends. Logs when there is no executor; ends the
    JVM, and so the worker, when the cluster has ended the application: nothing can run any more."""
    threading.Thread(target=_watch, args=(context,), name="executor-watch", daemon=True).start()


def _watch(context: WatchedContext) -> None:
    pause = threading.Event()
    alone_since: float | None = None
    with contextlib.suppress(Exception):  # the JVM has ended; that is reported elsewhere
        while not context.stopped:
            now = time.monotonic()
            if executors(context):
                alone_since = None
            elif alone_since is None:
                alone_since = now
            elif now - alone_since >= _ALONE_S:
                alone_since = now
                log.warning(
                    "no executor for %.0f s, so no task runs: does the Spark cluster have free "
                    "cores and memory for this worker (spark.cores.max, spark.executor.cores, "
                    "spark.executor.memory), and do executors reach spark.driver.host=%s?",
                    _ALONE_S,
                    context.getConf().get("spark.driver.host"),
                )
            pause.wait(_LOOK_S)
        if not context.stopped_by_us:
            log.error("the Spark cluster has ended this worker's application; see its master's log")
            process = getattr(context._gateway, "proc", None)
            if process is not None:
                process.terminate()  # it may still clean up its files
