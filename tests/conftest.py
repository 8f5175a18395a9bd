"""What tests with real parts share: a broker, database servers, workers as processes, and names
nobody else uses."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import re
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import hypothesis
import psutil
import pytest

from penstock.errors import StartupFailed
from penstock.kafka.broker import BRIEF, Broker, disk_free_mb
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.places import ROOT
from tests.servers.databases import DatabaseServer, MariaDbServer, PostgresServer

# How long an example takes says more about what else the machine does than about the code.
hypothesis.settings.register_profile(
    "penstock",
    deadline=None,
    max_examples=int(os.environ.get("PENSTOCK_EXAMPLES", "20")),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("penstock")
os.environ.setdefault("PENSTOCK_HOME", str(ROOT / ".penstock"))

ROOM_MB: Final = 6_000  # what all tests together write, and some
SHARED_S: Final = 99.5  # no module is marked with it: those that share a worker begin together
MakeWorker = Callable[..., WorkerProcess]

_clusters = itertools.count(1)
_numbers = itertools.count(1)
_shared: list[Broker] = []


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage while tests are collected: what is made then stays, and the search takes
    a seventh of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what only `make soak` runs. Begins with the modules that take longest, so that
    processes which share the modules end together."""
    if not os.environ.get("PENSTOCK_SOAK_S"):
        left_out = [item for item in items if item.get_closest_marker("soak")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            without = set(left_out)
            items[:] = [item for item in items if item not in without]
    found: dict[Path, float] = {}

    def seconds(item: pytest.Item) -> float:
        if item.path not in found:
            mark = item.get_closest_marker("slow")
            found[item.path] = SHARED_S if uses_shared_worker(item) else mark.args[0] if mark else 0
        return found[item.path]

    items.sort(key=seconds, reverse=True)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker, one for all tests that need one."""
    folder = tmp_path_factory.mktemp("broker")
    if (room_mb := disk_free_mb(folder)) < ROOM_MB:
        pytest.fail(
            f"Tests with a broker need {ROOM_MB} MB for what they write; {room_mb} MB are free in "
            f"{folder.parents[1]}. Make room there, or name another place with TMPDIR.",
            pytrace=False,
        )
    with Broker(folder, java_options=[BRIEF]) as running:
        _shared.append(running)
        yield running


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nothing can be learned from a test whose broker has ended, but from the broker's words."""
    if "broker" in getattr(item, "fixturenames", ()):
        for each in _shared:
            try:
                each.check()
            except StartupFailed as problem:
                pytest.fail(str(problem), pytrace=False)


@pytest.fixture(scope="session")
def topics(broker: Broker) -> Topics:
    """The broker's topics and groups, seen by an outsider."""
    return Topics(broker.bootstrap)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[DatabaseServer]:
    """A PostgreSQL server, one for all tests that need one and do not stop it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[DatabaseServer]:
    """The same with MariaDB."""
    with MariaDbServer() as server:
        yield server


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that no other test uses, for topics and groups."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")

    def name(what: str) -> str:
        return f"{what}-{next(_numbers)}-{words}"

    return name


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> str:
    """The `group.id` of this module's workers, and the prefix of their topics."""
    return f"{Path(request.node.name).stem.replace('_', '-')}-{next(_clusters)}"


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


class SharedWorker:
    """A worker that a process starts for the first of the tests that need just a worker, and stops
    when the next test is of another kind: an idle one takes memory and processor time."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._worker: WorkerProcess | None = None

    def get(self) -> WorkerProcess:
        """The worker, which is running and has no connectors."""
        if self._worker is None or not self._worker.alive:
            self.close()
            name = f"shared-{next(_clusters)}"
            props = worker_settings(self._broker.bootstrap, name)
            props["offset.storage.partitions"] = "5"
            self._worker = WorkerProcess(self._folder, props, name=name).start()
        self._worker.await_rest()
        return self._worker

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


_shared_workers: list[SharedWorker] = []


def uses_shared_worker(item: pytest.Item) -> bool:
    return "shared_worker" in getattr(item, "fixturenames", ())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Stops the shared worker when the next test does not need it."""
    if nextitem is not None and not uses_shared_worker(nextitem):
        for each in _shared_workers:
            each.close()


@pytest.fixture(scope="session")
def _shared_worker(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedWorker]:
    shared = SharedWorker(broker, tmp_path_factory.mktemp("shared-worker"))
    _shared_workers.append(shared)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def shared_worker(_shared_worker: SharedWorker) -> Iterator[WorkerProcess]:
    """A running worker with the settings of `worker_settings`, for tests that do not stop it. Other
    modules use it before and after: its log and its group's topics tell of their connectors, too.
    It has no connectors when a module begins; those that a module leaves are deleted."""
    worker = _shared_worker.get()
    yield worker
    for name in worker.request("GET", "/connectors").json():
        worker.request("DELETE", f"/connectors/{name}")
    wait_until(lambda: worker.request("GET", "/connectors").json() == [], 90, "no connectors")


def descendants(worker: WorkerProcess) -> list[psutil.Process]:
    """The child processes of a worker: its JVM, and Spark's Python workers."""
    return psutil.Process(worker.pid).children(recursive=True)
