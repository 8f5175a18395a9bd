"""A task on a slot, without the slot: what it reports to the worker, and when it stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.counts import Counts
from penstock.flow.messages import Failed, News, ProgressMade, Stopped
from penstock.flow.stage.hosted import HOSTED_MOVES, OVER, Hosted, HostedPhase, Interrupted
from penstock.ids import TaskId
from penstock.testing.waiting import wait_until


class HostStub:
    """Keeps tasks' news."""

    def __init__(self) -> None:
        self.sent: list[News] = []
        self.left: list[int] = []

    def send(self, news: Sequence[News]) -> None:
        self.sent += news

    def gone(self, task: Hosted) -> None:
        self.left.append(task.id)


class Work(Hosted):
    """Runs `work`, and `finish` at its end."""

    def __init__(
        self,
        host: HostStub,
        work: Callable[[Work], None] = lambda task: None,
        finish: Callable[[Work], None] = lambda task: None,
    ) -> None:
        super().__init__(host, 7, TaskId("work", 0))  # type: ignore[arg-type]
        self._work, self._finish = work, finish
        self.finished: list[bool] = []

    def work(self) -> None:
        self._work(self)

    def finish(self, *, failed: bool) -> None:
        self.finished.append(failed)
        self._finish(self)

    def on_cut(self) -> None:
        pass


def until_stopped(task: Hosted) -> None:
    assert task.wait(30)


def raising(error: BaseException) -> Callable[[Any], None]:
    def call(task: Any) -> None:
        raise error

    return call


def run(task: Hosted) -> None:
    task.start()
    task.join(10)
    assert not task.alive


def test_a_task_that_is_stopped_says_so_once_and_at_last() -> None:
    host = HostStub()

    def work(task: Work) -> None:
        until_stopped(task)
        task.count(Counts(done=2))

    task = Work(host, work)
    task.start()
    task.stop(30)
    task.join(10)
    assert [type(news) for news in host.sent] == [ProgressMade, Stopped]
    assert host.sent[-1] == Stopped(7, in_time=True)
    assert (task.finished, host.left) == ([False], [7])


@pytest.mark.parametrize("where", ["work", "finish", "both"])
def test_a_task_that_raises_says_the_first_error(where: str) -> None:
    host = HostStub()
    work = raising(ValueError("in work")) if where != "finish" else lambda task: None
    finish = raising(KeyError("in finish")) if where != "work" else lambda task: None
    task = Work(host, work, finish)
    run(task)
    [failed] = host.sent
    assert isinstance(failed, Failed)
    assert failed.trace.summary == (
        "KeyError: 'in finish'" if where == "finish" else "ValueError: in work"
    )
    assert task.finished == [where != "finish"]


def test_an_error_while_it_stops_is_not_a_failure() -> None:
    host = HostStub()
    task = Work(host, until_stopped, raising(ValueError("while it closes")))
    task.start()
    task.stop(30)
    task.join(10)
    assert host.sent == [Stopped(7, in_time=True)]


def test_a_wait_to_try_again_ends_with_the_task() -> None:
    host = HostStub()
    task = Work(host, lambda task: task.wait_to_try_again(3600))
    task.start()
    task.stop(30)
    task.join(10)
    assert host.sent == [Stopped(7, in_time=True)]
    with pytest.raises(Interrupted):
        task.wait_to_try_again(0)


def test_a_task_that_is_cut_off_says_nothing_any_more() -> None:
    host, goes_on = HostStub(), threading.Event()

    def work(task: Work) -> None:
        assert goes_on.wait(10)
        task.say(Failed(7, "late"))
        task.count(Counts(done=1))

    task = Work(host, work)
    task.start()
    task.stop(0)
    assert task.is_late(time.monotonic())
    task.cut()
    task.cut()
    assert host.sent == [Stopped(7, in_time=False, stuck=True)]
    goes_on.set()
    task.join(10)
    assert host.sent == [Stopped(7, in_time=False, stuck=True)]


def test_a_stop_that_comes_again_may_only_shorten_the_grace() -> None:
    task = Work(HostStub())
    task.stop(5)
    task.stop(60)
    assert 4 < task.time_left() <= 5
    task.stop(0)
    assert task.time_left() == 0


def test_whatever_is_counted_is_reported_once() -> None:
    task = Work(HostStub())
    assert task.news() == []
    for counts in (
        Counts(records=3, topics=frozenset({"t"})),
        Counts(done=3),
        Counts(failed=3, ms=1.5),
        Counts(retries=3),
        Counts(lost=3),
    ):
        task.count(counts)
        task.count(counts)
        assert task.news() == [ProgressMade(7, counts + counts)]
        assert task.news() == []


def test_time_alone_is_reported_with_the_next_records() -> None:
    task = Work(HostStub())
    task.count(Counts(ms=2.0))
    assert task.news() == []
    task.count(Counts(records=1, ms=0.5))
    assert task.news() == [ProgressMade(7, Counts(records=1, ms=2.5))]


def test_a_task_is_busy_while_it_works_and_not_while_it_waits() -> None:
    started = threading.Event()

    def work(task: Work) -> None:
        with task.time.busy(), task.time.busy():
            started.set()
            until_stopped(task)

    task = Work(HostStub(), work)
    assert not task.load(time.monotonic()).in_call
    task.start()
    assert started.wait(10)
    assert wait_until(lambda: task.load(time.monotonic()).busy_s > 0.05, 10, "some time to pass")
    assert task.load(time.monotonic()).in_call
    task.stop(30)
    task.join(10)
    assert not task.load(time.monotonic()).in_call


def in_phase(phase: HostedPhase) -> Work:
    task = Work(HostStub())
    task.phase = phase
    return task


@pytest.mark.parametrize(
    ("old", "new"), list(product(HostedPhase, HostedPhase)), ids=lambda phase: phase.value
)
def test_a_task_moves_as_the_table_says(old: HostedPhase, new: HostedPhase) -> None:
    task = in_phase(old)
    with task.turn:
        if new in HOSTED_MOVES[old]:
            task.enter(new)
            assert task.phase is new
        else:
            with pytest.raises(AssertionError, match=f"task work-0: {old} to {new}"):
                task.enter(new)
            assert task.phase is old


def test_a_task_that_is_over_moves_no_more() -> None:
    assert {phase for phase in HostedPhase if not HOSTED_MOVES[phase]} == OVER


@pytest.mark.parametrize("phase", HostedPhase, ids=lambda phase: phase.value)
def test_a_task_may_be_asked_to_stop_in_every_phase(phase: HostedPhase) -> None:
    task = in_phase(phase)
    task.stop(0)
    assert task.stopping
    assert task.phase is (HostedPhase.STOPPING if phase is HostedPhase.WORKING else phase)
    assert task.is_late(time.monotonic() + 1) is (task.phase is HostedPhase.STOPPING)


calls = st.lists(
    st.one_of(
        st.sampled_from(["stop", "cut", "count", "end"]).map(lambda call: (call, 0.0)),
        st.floats(0, 60).map(lambda grace_s: ("stop", grace_s)),
    ),
    max_size=8,
)


@given(calls=calls, fails=st.booleans())
def test_in_every_order_of_calls_the_end_is_reported_once_and_nothing_after_it(
    calls: list[tuple[str, float]], fails: bool
) -> None:
    host, goes_on = HostStub(), threading.Event()

    def work(task: Work) -> None:
        assert goes_on.wait(10)
        task.count(Counts(done=1))
        if fails:
            raise ValueError("no")

    task = Work(host, work)
    task.start()
    for call, grace_s in calls:
        match call:
            case "stop":
                task.stop(grace_s)
            case "cut" if task.stopping:
                task.cut()
            case "count":
                task.count(Counts(records=1))
            case "end":
                goes_on.set()
                task.join(10)
    cut_off = task.cut_off
    stopped = task.phase is HostedPhase.STOPPING
    goes_on.set()
    task.join(10)
    ends = [news for news in host.sent if isinstance(news, Stopped | Failed)]
    assert ends == host.sent[-1:]
    assert task.phase in OVER
    assert host.left == ([] if cut_off else [7])
    if cut_off:
        assert ends == [Stopped(7, in_time=False, stuck=True)]
    elif stopped or not fails:
        assert ends == [Stopped(7, in_time=True)]


def test_resources_of_a_task_are_closed_after_it_has_finished() -> None:
    closed: list[str] = []

    def work(task: Work) -> None:
        task.opened.callback(closed.append, "first")
        task.opened.callback(closed.append, "second")

    def finish(task: Work) -> None:
        closed.append("finish")
        raise ValueError("no")

    run(Work(HostStub(), work, finish))
    assert closed == ["finish", "second", "first"]
