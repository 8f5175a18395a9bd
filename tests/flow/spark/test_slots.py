"""Tasks that share slots: none is delayed, harmed or ended by another one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from penstock.api import (
    Failed,
    PenstockError,
    Plugin,
    Polled,
    Props,
    Records,
    SourceConnector,
    SourceContext,
    SourceReader,
    TopicPartition,
)
from penstock.config.define import Config, ConfigDef
from penstock.flow.driver import placing
from penstock.flow.driver.placing import SlotLimits
from penstock.flow.driver.pool import SlotPool
from penstock.ids import TaskId
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from . import diaries
from .conftest import Flow
from .diaries import DiaryWriter, batches, calls, keeper, written
from .neighbours import SOON_S, Neighbour, Unique, firsts, slot

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks are on one slot; none counts as busy."""
    monkeypatch.setattr(placing, "limits", lambda *_, **__: SlotLimits(1, 4))
    monkeypatch.setattr(placing, "BUSY", 2.0)


@pytest.fixture
def neighbour(
    one_slot: None, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> Neighbour:
    return Neighbour(flow, topics, unique, tmp_path / "quiet")


def process_of(flow: Flow, task: TaskId) -> int:
    """The Python process of a task's slot."""
    pid = flow.tasks._placements.pool.slots[slot(flow, task)].pid
    assert pid is not None
    return pid


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


class Blocked(DiaryWriter):
    """Blocks `write` until a file `open` exists."""

    def write(self, records: Records, failed: Failed) -> None:
        (self.folder / "waiting").touch()
        for _ in range(1200):
            if (self.folder / "open").exists():
                break
            threading.Event().wait(0.05)
        super().write(records, failed)


def test_a_write_that_blocks_holds_nobody_up(
    neighbour: Neighbour, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, folder = topics.create(unique("lines")), tmp_path / "blocked"
    topics.append(topic, [b"a", b"b"])
    blocked = flow.start(flow.sink(unique("blocked"), topic, **keeper(Blocked, folder)))
    assert slot(flow, blocked) == slot(flow, neighbour.task)
    wait_until((folder / "waiting").exists, 60, "the task to write")
    for _ in range(5):
        neighbour.expect()
    assert written(folder) == []
    (folder / "open").touch()
    wait_until(lambda: written(folder) == ["a", "b"], 10, "the write to return")


class Broken(DiaryWriter):
    """Raises in the method named by its folder."""

    def _raise_in(self, method: str) -> None:
        if self.folder.name == method:
            raise PenstockError(f"raised in {method}")

    def __init__(self, folder: Path, context: Any) -> None:
        super().__init__(folder, context)
        self._raise_in("open")

    def write(self, records: Records, failed: Failed) -> None:
        super().write(records, failed)
        self._raise_in("write")

    def flush(self) -> None:
        super().flush()
        self._raise_in("flush")

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._raise_in("pre_commit")
        return super().pre_commit(reached)

    def close(self) -> None:
        super().close()
        self._raise_in("close")


@pytest.mark.parametrize("method", ["open", "write", "flush", "pre_commit"])
def test_a_method_that_raises_ends_its_own_task_only(
    method: str, neighbour: Neighbour, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, folder, name = topics.create(unique("lines")), tmp_path / method, unique("broken")
    topics.append(topic, [b"a"])
    flow.start(flow.sink(name, topic, **keeper(Broken, folder)))
    assert f"raised in {method}" in flow.await_failure()
    neighbour.expect()
    assert calls(folder, "close") == ([] if method == "open" else [["close"]])
    assert topics.committed(f"connect-{name}", topic) == {}
    [ended] = flow.ended
    assert ended.task.connector == name


def test_a_close_that_raises_does_not_keep_the_task_from_stopping(
    neighbour: Neighbour, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, folder, name = topics.create(unique("lines")), tmp_path / "close", unique("broken")
    topics.append(topic, [b"a"])
    task = flow.start(flow.sink(name, topic, **keeper(Broken, folder)))
    flow.await_done(task, 1)
    assert flow.stop(task)
    assert topics.committed(f"connect-{name}", topic) == {0: 1}
    assert calls(folder, "close") == [["close"]]
    neighbour.expect()
    assert not flow.ended


FOLDER = diaries.FOLDER


class Waits(SourceConnector):
    """Waits in `poll` until it is stopped."""

    plugin = Plugin("test.Waits", "1", ConfigDef(FOLDER))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return WaitingReader(Path(config[FOLDER]), context)


class WaitingReader(SourceReader):
    idle_ms = 0

    def __init__(self, folder: Path, context: SourceContext) -> None:
        self._folder, self._context = folder, context

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        (self._folder / "waiting").touch()
        self._context.wait(3600)
        assert not self._context.is_running
        return None

    def close(self) -> None:
        (self._folder / "closed").touch()


def test_a_poll_that_waits_holds_nobody_up_and_ends_with_its_task(
    neighbour: Neighbour, flow: Flow, unique: Unique, tmp_path: Path
) -> None:
    config = Waits.plugin.config.parse({"folder": str(tmp_path)})
    waiting = flow.start(flow.source(unique("src"), "", connector=Waits, config=config))
    assert slot(flow, waiting) == slot(flow, neighbour.task)
    wait_until((tmp_path / "waiting").exists, 10, "the task to poll")
    for _ in range(5):
        neighbour.expect()
    began = time.monotonic()
    assert flow.stop(waiting)
    assert time.monotonic() - began < 10  # of the 30 s that it may take
    assert (tmp_path / "closed").exists()


class StuckInWrite(DiaryWriter):
    def write(self, records: Records, failed: Failed) -> None:
        (self.folder / "waiting").touch()
        while True:
            threading.Event().wait(1)


class StuckInClose(DiaryWriter):
    def close(self) -> None:
        while True:
            threading.Event().wait(1)

    def write(self, records: Records, failed: Failed) -> None:
        (self.folder / "waiting").touch()


class StuckInPoll(Waits):
    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return StuckReader(Path(config[FOLDER]), context)


class StuckReader(WaitingReader):
    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        (self._folder / "waiting").touch()
        while True:
            threading.Event().wait(1)


@pytest.mark.parametrize("where", [StuckInWrite, StuckInClose, StuckInPoll])
def test_a_task_that_never_returns_is_cut_off_and_its_process_ends(
    where: Any, neighbour: Neighbour, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, folder, name = topics.create(unique("lines")), tmp_path / "stuck", unique("stuck")
    topics.append(topic, [b"a"])
    if where is StuckInPoll:
        folder.mkdir()
        config = StuckInPoll.plugin.config.parse({"folder": str(folder)})
        plan = flow.source(name, topic, connector=StuckInPoll, config=config)
    else:
        plan = flow.sink(name, topic, **keeper(where, folder))
    task = flow.start(plan)
    wait_until((folder / "waiting").exists, 60, "the task to be stuck")
    before, pid = slot(flow, neighbour.task), process_of(flow, task)
    assert slot(flow, task) == before
    began = time.monotonic()
    assert not flow.stop(task, 1.0)
    assert time.monotonic() - began < 10  # it would never end
    neighbour.expect(15)  # while it moves
    wait_until(lambda: slot(flow, neighbour.task) != before, 15, "the neighbour to have moved")
    neighbour.expect()
    wait_until(lambda: is_gone(pid), 15, "the stuck process to end")
    assert [standing.number for standing in flow.tasks.slots()] == [slot(flow, neighbour.task)]
    assert not flow.ended


def test_later_work_of_a_cancelled_task_reaches_nobody(
    neighbour: Neighbour, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, folder, name = topics.create(unique("lines")), tmp_path / "late", unique("late")
    topics.append(topic, [b"a"])
    task = flow.start(flow.sink(name, topic, **keeper(Blocked, folder)))
    wait_until((folder / "waiting").exists, 60, "the task to write")
    assert not flow.stop(task, 0.5)
    (folder / "open").touch()
    neighbour.expect(15)
    assert flow.done(task) == 0
    assert topics.committed(f"connect-{name}", topic) == {}


def test_tasks_continue_elsewhere_when_the_process_of_their_slot_is_killed(
    neighbour: Neighbour, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, folder, name = topics.create(unique("lines"), 2), tmp_path / "other", unique("other")
    other = flow.start(flow.sink(name, topic, **keeper(DiaryWriter, folder)))
    assert slot(flow, other) == slot(flow, neighbour.task)

    def append(start: int, stop: int) -> None:
        for partition in range(2):
            values = [str(number).encode() for number in range(start, stop)]
            topics.append(topic, values, partition=partition)

    append(0, 5000)
    wait_until(lambda: written(folder), 30, "the first records")
    os.kill(process_of(flow, other), signal.SIGKILL)
    append(5000, 10_000)
    neighbour.expect_all(10)
    for partition in range(2):

        def arrived(partition: int = partition) -> bool:
            rows = [row for batch in batches(folder) for row in batch if row[0] == partition]
            return firsts([row[2] for row in rows]) == [str(number) for number in range(10_000)]

        wait_until(arrived, 60, "all records, in order")
    assert not flow.ended
    assert flow.tasks.slots_died == 1
    wait_until(
        lambda: topics.committed(f"connect-{name}", topic) == {0: 10_000, 1: 10_000},
        30,
        "all committed",
    )


class Killer(DiaryWriter):
    """Ends its process."""

    def write(self, records: Records, failed: Failed) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_kills_its_process_again_and_again_fails_and_the_others_continue(
    neighbour: Neighbour, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, folder, name = topics.create(unique("lines")), tmp_path / "killer", unique("killer")
    topics.append(topic, [b"a"])
    flow.start(flow.sink(name, topic, **keeper(Killer, folder)))
    assert "Python worker exited unexpectedly" in flow.await_failure()
    [ended] = flow.ended
    assert ended.task.connector == name
    neighbour.expect_all(15)
    neighbour.expect_all(SOON_S)
    assert topics.committed(f"connect-{name}", topic) == {}


def test_a_task_is_not_blamed_for_lost_executors_unless_it_loses_one_after_the_other(
    neighbour: Neighbour,
    flow: Flow,
    topics: Topics,
    unique: Unique,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SlotPool, "lost_with_executor", lambda pool: True)
    topic, folder, name = topics.create(unique("lines")), tmp_path / "killer", unique("killer")
    topics.append(topic, [b"a"])
    flow.start(flow.sink(name, topic, **keeper(Killer, folder)))
    assert "Python worker exited unexpectedly" in flow.await_failure()
    assert [ended.task.connector for ended in flow.ended] == [name]
    # Once beside others, then three times alone: the last time, it counts as the cause.
    assert flow.tasks.slots_died == 4
    neighbour.expect_all(15)


MEMORY_MB = 700


class Hungry(DiaryWriter):
    """Keeps allocating memory."""

    def write(self, records: Records, failed: Failed) -> None:
        eaten = []
        while True:
            eaten.append(b"x" * (32 << 20))
            threading.Event().wait(0.01)


def resident_mb(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20
    return 0


@pytest.fixture
def memory_is_limited(flow: Flow) -> Iterator[list[int]]:
    """Acts like a kernel that is out of memory; returns the processes it has killed."""
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for each in list(flow.tasks._placements.pool.slots.values()):
                if each.pid not in {None, *killed} and resident_mb(each.pid) > MEMORY_MB:
                    killed.append(each.pid)
                    os.kill(each.pid, signal.SIGKILL)

    watching = threading.Thread(target=watch)
    watching.start()
    yield killed
    over.set()
    watching.join()


def test_a_task_that_eats_memory_until_its_process_is_killed_fails_and_the_others_continue(
    neighbour: Neighbour,
    memory_is_limited: list[int],
    flow: Flow,
    topics: Topics,
    unique: Unique,
    tmp_path: Path,
) -> None:
    topic, folder, name = topics.create(unique("lines")), tmp_path / "hungry", unique("hungry")
    topics.append(topic, [b"a"])
    flow.start(flow.sink(name, topic, **keeper(Hungry, folder)))
    wait_until(lambda: memory_is_limited, 60, "the kernel to kill the process")
    neighbour.expect_all(10)
    assert "Python worker exited unexpectedly" in flow.await_failure()
    assert [ended.task.connector for ended in flow.ended] == [name]
    # Beside others, perhaps again because the worker did not know it was busy, and alone.
    assert len(memory_is_limited) in (2, 3)
    neighbour.expect_all(SOON_S)
    assert topics.committed(f"connect-{name}", topic) == {}


class SlowToOpen(DiaryWriter):
    """Takes four seconds to open; then it raises, or ends its process once, as the folder says."""

    def __init__(self, folder: Path, context: Any) -> None:
        super().__init__(folder, context)
        threading.Event().wait(4)
        if folder.name == "raises":
            raise PenstockError("raised in open")
        if folder.name == "dies" and len(calls(folder, "open")) == 1:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("then", ["raises", "dies", "opens"])
def test_a_writer_that_takes_long_to_open_is_not_lost_sight_of(
    then: str,
    monkeypatch: pytest.MonkeyPatch,
    flow: Flow,
    topics: Topics,
    unique: Unique,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("penstock.flow.driver.launching._OPEN_S", 0.5)
    topic, folder = topics.create(unique("lines")), tmp_path / then
    topics.append(topic, [b"a"])
    flow.start(flow.sink(unique("quiet"), topic, tmp_path / "out"))  # so it shares its slot
    flow.start(flow.sink(unique("quiet"), topic, tmp_path / "out"))
    began = time.monotonic()
    task = flow.start(flow.sink(unique("slow"), topic, **keeper(SlowToOpen, folder)))
    assert time.monotonic() - began < 4
    if then == "raises":
        assert "raised in open" in flow.await_failure()
        return
    flow.await_done(task, 1)
    assert len(calls(folder, "open")) == (2 if then == "dies" else 1)
    assert flow.stop(task)
