"""Workers as processes: fixtures make them, and end them with all their child processes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess, worker_settings

MakeWorker = Callable[..., WorkerProcess]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> str:
    """The `group.id` of this module's workers, and the prefix of their topics."""
    return f"{Path(request.node.name).stem.replace('_', '-')}-{next(_numbers)}"


@pytest.fixture(scope="module")
def make_worker(
    broker: Broker, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeWorker]:
    """Makes workers of this module's cluster, not yet started; keywords are settings, with
    underscores instead of dots."""
    folder = tmp_path_factory.mktemp(cluster)
    made: list[WorkerProcess] = []

    def make(**settings: str) -> WorkerProcess:
        own = {name.replace("_", "."): text for name, text in settings.items()}
        props = {**worker_settings(broker.bootstrap, cluster), **own}
        worker = WorkerProcess(folder, props, name=f"worker-{len(made) + 1}")
        made.append(worker)
        return worker

    yield make
    families = [descendants(worker) for worker in made if worker.alive]
    with ThreadPoolExecutor() as closing:
        list(closing.map(WorkerProcess.close, made))
    for child in itertools.chain.from_iterable(families):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def descendants(worker: WorkerProcess) -> list[psutil.Process]:
    """The child processes of a worker: its JVM, and Spark's Python workers."""
    return psutil.Process(worker.pid).children(recursive=True)
