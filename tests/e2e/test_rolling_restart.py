"""A rolling restart under load, as docs/deploy.md has it: three workers, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from penstock.testing.cluster import Cluster, Flow, GrowingFile, Watch
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics

WORKERS: Final = 3
PAUSE_S: Final = 8.0  # of a flow, while a worker starts next to the others
START_S: Final = 240.0  # a worker with its Spark, on a machine that has no core to spare

SETTINGS: Final = {
    "scheduled_rebalance_max_delay_ms": "0",
    "session_timeout_ms": "10000",
    "heartbeat_interval_ms": "1000",
    "offset_storage_partitions": "2",
    "spark_driver_memory": "600m",
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def flows(
    topics: Topics, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Flow]]:
    folder = tmp_path_factory.mktemp("flows")
    made = []
    for number, name in enumerate("abc"):
        growing = GrowingFile(folder / f"{name}.txt", lines_s=500, piece_s=0.5, seed=number)
        made.append(Flow(name, folder, topics.create(f"{cluster}-{name}"), growing))
    yield made
    for flow in made:
        flow.growing.stop()


def test_every_worker_is_restarted_and_records_flow_on(
    make_worker: Callable[..., WorkerProcess], topics: Topics, cluster: str, flows: list[Flow]
) -> None:
    workers = [make_worker(**SETTINGS) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.await_rest(START_S, "/health")
    for flow in flows:
        workers[0].create(flow.source, flow.source_config())
        workers[0].create(flow.sink, flow.sink_config())
    everything = 4 * len(flows)
    members = Cluster(workers)
    with Watch(topics, cluster, flows) as watch:
        members.await_shared(everything, workers, START_S)
        watch.arriving()
        with watch.trial() as trial:
            begin = time.monotonic()
            for worker in workers:
                assert worker.stop() == 0
                worker.start().await_rest(START_S, "/health")
                members.await_shared(everything, workers, START_S)
            took_s = time.monotonic() - begin
            watch.arriving()
    print(  # noqa: T201
        f"\nthree workers: {took_s:.0f} s; longest pause {trial.stall_s:.1f} s; slowness "
        f"{trial.slowness:.1f}"
    )
    # Tasks that are revoked end in order: what they have done is stored before others begin.
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)
    assert trial.stall_s < PAUSE_S * trial.slowness
