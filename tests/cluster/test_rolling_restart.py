"""A rolling restart under load, as docs/deploy.md describes it: three workers in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from penstock.testing.cluster import WorkerCluster
from penstock.testing.processes import WorkerProcess
from penstock.testing.slowness import Slowness
from penstock.testing.topics import Topics

from .flowing import ITEMS, PARTITIONS, Stream

WORKERS: Final = 3
PAUSE_S: Final = 3.0  # of a task, on an idle machine
START_S: Final = 120.0  # a worker with its Spark, on a busy machine

SETTINGS: Final = {
    "scheduled_rebalance_max_delay_ms": "0",
    "offset_storage_partitions": "2",
    "spark_driver_memory": "600m",
}

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow(175)]


def test_every_worker_is_restarted_and_no_task_pauses_for_long(
    make_worker: Callable[..., WorkerProcess], topics: Topics, cluster: str, tmp_path: Path
) -> None:
    workers = [make_worker(**SETTINGS) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.await_rest(START_S, "/health")
    members = WorkerCluster(workers)
    topic = topics.create(f"{cluster}-rows", PARTITIONS)
    with Stream(topics, cluster, topic, tmp_path / "rows.out") as stream, Slowness() as slowness:
        stream.create(workers[0])
        members.await_shared(ITEMS, workers, START_S)
        stream.arriving()
        slowness.clear()
        since = time.time()
        took: list[float] = []
        for worker in workers:
            begin = time.monotonic()
            assert worker.stop() == 0, worker.log_text()[-2000:]
            worker.start().await_rest(START_S, "/health")
            members.await_shared(ITEMS, workers, START_S)
            took.append(time.monotonic() - begin)
        stream.arriving()
        pauses = stream.pauses(since, time.time())
        stream.stop(workers[0])
    seconds = ", ".join(f"{value:.1f}" for value in took)
    print(  # noqa: T201
        f"\nrestarts: {seconds} s; longest pauses in s: {pauses}; slowness {slowness.factor:.1f}"
    )
    assert pauses.longest < PAUSE_S * slowness.factor, str(pauses)
