"""A worker that is killed, or stopped, in the middle of a file, and started again.

Lines have one width and begin with their number, so that millions of them are checked as arrays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import psutil
import pytest

from penstock.flow.stage.polled_batch import MOST_POLLS
from penstock.flow.stage.polling import POLL_BYTES
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

pytestmark = pytest.mark.slow(60)

WIDTH: Final = 64  # bytes of a line, including its end
KILLED: Final = 2_200_000  # lines: four batches of the source, two or more of the sink
BETWEEN_COMMITS: Final = 1_000_000  # lines that it writes in a second
STOPPED: Final = 2_200_000
GRACE_S: Final = 5.0  # the default of task.shutdown.graceful.timeout.ms
TIMEOUT_S: Final = 200


@dataclass
class Pipe:
    """A source and a sink connector with a topic between them, and their progress."""

    name: str
    folder: Path
    topics: Topics
    cluster: str

    @property
    def source(self) -> Path:
        return self.folder / f"{self.name}.txt"

    @property
    def target(self) -> Path:
        return self.folder / f"{self.name}.out"

    @property
    def topic(self) -> str:
        return f"{self.cluster}-{self.name}"

    def write(self, lines: int) -> None:
        numbers = np.char.zfill(np.arange(lines).astype("S9"), 9)
        text = np.full((lines, WIDTH), ord("."), np.uint8)
        text[:, :9] = numbers.view(np.uint8).reshape(lines, 9)
        text[:, -1] = ord("\n")
        text.tofile(self.source)

    def create(self, worker: WorkerProcess) -> None:
        """Creates both connectors; the file is already large when they start."""
        self.topics.create(self.topic)
        file = {"tasks.max": "1", "file": str(self.target), "topics": self.topic}
        worker.create(f"{self.name}-snk", {"connector.class": "FileStreamSink", **file})
        worker.await_states(f"{self.name}-snk", ["RUNNING", "RUNNING"])
        file = {"tasks.max": "1", "file": str(self.source), "topic": self.topic}
        worker.create(f"{self.name}-src", {"connector.class": "FileStreamSource", **file})

    def written(self) -> int:
        """Whole lines in the target."""
        return self.target.stat().st_size // WIDTH if self.target.exists() else 0

    def position(self) -> int:
        """The source's committed position, in bytes."""
        key = f'["{self.name}-src",{{"filename":"{self.source}"}}]'.encode()
        value = self.topics.latest(f"{self.cluster}-offset").get(key)
        return int(orjson.loads(value)["position"]) if value else 0

    def committed(self) -> int:
        return self.topics.committed(f"connect-{self.name}-snk", self.topic).get(0, 0)

    def finished(self) -> bool:
        """Everything is read, produced, written and committed."""
        return (
            self.position() == self.source.stat().st_size
            and self.committed() == self.topics.count(self.topic) > 0
        )

    def numbers(self) -> np.ndarray[Any, Any]:
        """The numbers of the lines in the target, in its order; checks every line."""
        sent = np.fromfile(self.source, f"S{WIDTH}")
        got = np.fromfile(self.target, f"S{WIDTH}")
        assert self.target.stat().st_size % WIDTH == 0, "a line was torn"
        numbers = got.astype("S9").astype(np.int64)
        assert (got == sent[numbers]).all(), "a line was altered"
        return numbers


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    """One worker; tests kill it, stop it and start it again."""
    return make_worker()


@pytest.fixture
def pipe(
    request: pytest.FixtureRequest,
    worker: WorkerProcess,
    topics: Topics,
    cluster: str,
    tmp_path: Path,
) -> Iterator[Pipe]:
    """A pipe in the middle of its file; deleted after the test."""
    name, lines = request.param
    pipe = Pipe(name, tmp_path, topics, cluster)
    pipe.write(lines)
    if not worker.alive:
        worker.start().await_rest()
    pipe.create(worker)

    def in_the_middle() -> bool:
        return pipe.position() > 0 and pipe.written() > 0

    wait_until(in_the_middle, TIMEOUT_S, "the first batches to be through")
    yield pipe
    for connector in (f"{name}-src", f"{name}-snk"):
        worker.request("DELETE", f"/connectors/{connector}")


@pytest.mark.parametrize("pipe", [("killed", KILLED)], indirect=True)
def test_a_worker_that_was_killed_continues_where_it_was(pipe: Pipe, worker: WorkerProcess) -> None:
    children = psutil.Process(worker.pid).children(recursive=True)
    worker.kill()
    sent, written = pipe.topics.count(pipe.topic), pipe.written()
    assert pipe.position() < pipe.source.stat().st_size, "killed too late to show anything"
    assert written < KILLED, "killed too late to show anything"
    wait_until(
        lambda: not any(child.is_running() for child in children), 30, "its children to end too"
    )

    worker.start().await_rest()
    wait_until(pipe.finished, TIMEOUT_S, "the rest of the file")

    numbers, first_seen = np.unique(pipe.numbers(), return_index=True)
    assert len(numbers) == KILLED, "lines were lost"
    assert (np.diff(first_seen) > 0).all(), "lines are out of order"
    produced = pipe.topics.count(pipe.topic)
    again = produced - KILLED
    rewritten = pipe.written() - produced
    print(  # noqa: T201 - a measurement, for `-s`
        f"killed with {sent} lines sent, {written} written; "
        f"{again} were sent again and {rewritten} written again"
    )
    assert again <= MOST_POLLS * POLL_BYTES // WIDTH + 1, "more than one batch was sent again"
    assert 0 <= rewritten <= BETWEEN_COMMITS, (
        "more than was written since the last commit was written again"
    )


@pytest.mark.parametrize("pipe", [("stopped", STOPPED)], indirect=True)
def test_a_worker_that_was_stopped_in_order_repeats_nothing(
    pipe: Pipe, worker: WorkerProcess, topics: Topics, cluster: str
) -> None:
    children = psutil.Process(worker.pid).children(recursive=True)
    begin = time.monotonic()
    code = worker.stop(GRACE_S + 10)
    print(f"stopped after {time.monotonic() - begin:.1f} s")  # noqa: T201 - a measurement
    assert code == 0, worker.log_text()[-2000:]
    wait_until(
        lambda: not any(child.is_running() for child in children), 10, "its children to end too"
    )
    assert pipe.position() == pipe.topics.count(pipe.topic) * WIDTH, "what was sent is stored"
    assert pipe.committed() == pipe.written(), "what was written is committed"
    assert pipe.position() < pipe.source.stat().st_size, "stopped too late to show anything"
    statuses = topics.latest(f"{cluster}-status")
    for each in ("connector", "task"):
        for kind in ("src", "snk"):
            number = "-0" if each == "task" else ""
            value = statuses[f"status-{each}-{pipe.name}-{kind}{number}".encode()]
            assert value is not None
            assert orjson.loads(value)["state"] == "UNASSIGNED"

    worker.start().await_rest()
    wait_until(pipe.finished, TIMEOUT_S, "the rest of the file")
    assert pipe.topics.count(pipe.topic) == STOPPED
    assert (pipe.numbers() == np.arange(STOPPED)).all()
