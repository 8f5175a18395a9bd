"""A sink task without Kafka: the events and frames of its consumer are made here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from penstock.api import (
    Batching,
    Extra,
    Failed,
    Plugin,
    RecordRef,
    Records,
    SinkConnector,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.config.define import Config, ConfigDef
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.text import StringConverter
from penstock.errors import Unavailable
from penstock.flow.messages import Failed as SinkFailed
from penstock.flow.messages import News, OffsetsCommitted, Stopped, TaskOpened
from penstock.flow.plan import Conversion, ConverterPlan, InterceptorPlan, SinkPlan, Tolerance
from penstock.flow.stage import events, sink
from penstock.flow.stage.failures import ToleranceExceeded
from penstock.flow.stage.sink import SinkTask
from penstock.ids import TaskId
from penstock.plugins.ref import PluginRef
from penstock.testing.waiting import wait_until

from .test_chunks import frame

AT = TopicPartition("zwölf", 2)  # of all frames, in epoch 3


class HostStub:
    """Keeps what the task tells the worker and its consumer; `answer`, if set, receives what a
    consumer would answer."""

    def __init__(self) -> None:
        self.sent: list[News] = []
        self.reported: list[dict[str, Any]] = []
        self.answer: Callable[..., None] | None = None

    def send(self, news: Sequence[News]) -> None:
        self.sent += news

    def send_to_reader(self, command: Mapping[str, Any]) -> None:
        self.reported.append(dict(command))
        if self.answer is not None and command["do"] == "commit":
            self.answer("committed", id=command["id"])
        if self.answer is not None and command["do"] == "close":
            self.answer("closed", trace=None)

    def gone(self, task: SinkTask) -> None:
        pass

    def commands(self, what: str) -> list[dict[str, Any]]:
        return [command for command in self.reported if command["do"] == what]


class Target(SinkWriter):
    """Keeps its calls, and may be unreachable."""

    def __init__(self, context: SinkContext, batching: Batching) -> None:
        self.context = context
        self.batching = batching
        self.batches: list[list[object]] = []
        self.calls: list[object] = []
        self.refs: list[RecordRef] = []
        self.away = False

    def write(self, records: Records, failed: Failed) -> None:
        if self.away:
            self.calls.append("away")
            raise Unavailable("the target is away")
        self.batches.append(list(records.values.values))
        self.refs += [records.ref(row) for row in range(len(records))]

    def flush(self) -> None:
        if self.away:
            raise Unavailable("the target is away")

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        self.calls.append(("revoked", set(partitions), lost))

    def close(self) -> None:
        self.calls.append("close")


class Run:
    """A task that runs, its host and its writer."""

    def __init__(
        self,
        batching: Batching,
        interval_ms: int,
        tolerance: Tolerance | None = None,
        extra: Extra | None = None,
        interceptors: tuple[InterceptorPlan, ...] = (),
        target: Callable[[SinkContext, Batching], Any] = Target,
        host: HostStub | None = None,
    ) -> None:
        made: list[Any] = []

        class Connector(SinkConnector):
            plugin = Plugin("test.Target", "1", ConfigDef(), extra=extra)

            def plan_tasks(self, config: Config, max_tasks: int) -> list[Any]:
                return [{}]

            def open(self, config: Config, context: SinkContext) -> SinkWriter:
                made.append(target(context, batching))
                return made[0]

        text = ConverterPlan(PluginRef.of(StringConverter), StringConverter.plugin.config.parse({}))
        header = SimpleHeaderConverter.plugin.config.parse({})
        conversion = Conversion(
            text, text, ConverterPlan(PluginRef.of(SimpleHeaderConverter), header)
        )
        config = ConfigDef().parse({})
        self.host = host or HostStub()
        self.task = SinkTask(
            self.host,  # type: ignore[arg-type]
            1,
            SinkPlan(
                TaskId("sink", 0),
                1,
                PluginRef.of(Connector),
                config,
                conversion,
                tolerance or Tolerance(),
                ("zwölf",),
                None,
                {"group.id": "connect-sink"},
                {},
                commit_interval_ms=interval_ms,
                interceptors=interceptors,
            ),
        )
        self.task.start()
        wait_until(lambda: self.host.sent, 10, "the writer to be open, or not to be")
        if self.host.sent == [TaskOpened(1)]:
            self.target = made[0]

    @property
    def consuming(self) -> sink.Consuming:
        assert self.task._consuming is not None
        return self.task._consuming

    def event(self, what: str, **more: Any) -> None:
        event = events.decode({"event": what, "task": 1, **more})
        assert not isinstance(event, events.ReaderStarted)
        self.task.take_event(event)

    def assign(self, epoch: int = 3, position: int = 0) -> None:
        self.event("assigned", partitions=[[*AT, epoch, position]])

    def frame(self, *values: bytes, first: int = 0) -> None:
        self.task.take_frame(frame([None] * len(values), list(values), first=first))

    def stop(self) -> None:
        self.host.answer = self.event
        for each in self.host.commands("commit"):
            self.event("committed", id=each["id"])
        self.task.stop(5)
        self.task.join(10)
        assert not self.task.alive


@pytest.fixture
def start() -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(batching: Batching | None = None, interval_ms: int = 3_600_000) -> Run:
        runs.append(Run(batching or Batching(), interval_ms))
        return runs[-1]

    yield start
    for run in runs:
        if run.task.alive:
            run.stop()


def test_written_records_are_committed_and_the_position_is_known(start: Callable[..., Run]) -> None:
    run = start(interval_ms=50)
    run.assign()
    run.frame(b"a", b"b")
    [commit] = wait_until(lambda: run.host.commands("commit"), 10, "a commit")
    assert commit["offsets"] == [[*AT, 2]]
    assert run.task.positions == {AT: 2}
    assert run.target.batches == [["a", "b"]]
    run.event("committed", id=commit["id"])
    wait_until(lambda: OffsetsCommitted in map(type, run.host.sent), 10, "the report")


def test_a_task_whose_packages_are_not_installed_here_is_not_opened() -> None:
    run = Run(Batching(), 3_600_000, extra=Extra("x", "Targets", ("no_such_package",)))
    (failed,) = run.host.sent
    assert isinstance(failed, SinkFailed)
    assert "(no_such_package); install them with: pip install 'penstock[x]'" in failed.trace.text
    assert not hasattr(run, "target")


@pytest.mark.parametrize("tolerates", [True, False])
def test_the_writer_may_know_what_errors_tolerance_says(tolerates: bool) -> None:
    run = Run(Batching(), 3_600_000, Tolerance(tolerate_all=tolerates))
    assert run.target.context.tolerates_errors is tolerates
    run.stop()


def test_frames_of_an_assignment_that_is_over_are_dropped(start: Callable[..., Run]) -> None:
    run = start()
    run.assign(epoch=4)
    run.frame(b"a")  # of epoch 3
    wait_until(lambda: run.task.consumer.undone, 10, "the consumer to get its bytes back")
    run.stop()
    assert run.target.batches == []
    assert run.host.commands("commit") == []


def test_a_revocation_drops_what_waits_and_commits_what_is_written(
    start: Callable[..., Run],
) -> None:
    run = start(Batching(records=2, linger_ms=3_600_000))
    run.assign()
    run.frame(b"a", b"b")
    wait_until(lambda: run.target.batches, 10, "a write")
    run.frame(b"c", first=2)
    wait_until(lambda: run.consuming.writing.pending, 10, "a record to wait")
    run.event("revoked", partitions=[[*AT]])
    [released] = wait_until(lambda: run.host.commands("released"), 10, "the release")
    assert released["offsets"] == [[*AT, 2]]
    run.event("committed", id=released["id"])
    assert run.target.calls == [("revoked", {AT}, False)]
    assert run.target.batches == [["a", "b"]]
    assert run.task.positions == {}


def test_a_revocation_does_not_wait_for_a_target_that_is_unreachable(
    start: Callable[..., Run],
) -> None:
    run = start()
    run.assign()
    run.target.away = True
    run.frame(b"a")
    wait_until(lambda: "away" in run.target.calls, 10, "an attempt")
    run.event("revoked", partitions=[[*AT]])
    [released] = wait_until(lambda: run.host.commands("released"), 10, "the release")
    assert released["offsets"] == []
    run.target.away = False
    run.assign(epoch=3)
    run.frame(b"a")
    wait_until(lambda: run.target.batches == [["a"]], 10, "the record to come again, and once")


def test_partitions_that_are_lost_are_not_committed(start: Callable[..., Run]) -> None:
    run = start()
    run.assign()
    run.frame(b"a")
    wait_until(lambda: run.target.batches, 10, "a write")
    run.event("lost", partitions=[[*AT]])
    wait_until(lambda: run.target.calls == [("revoked", {AT}, True)], 10, "the writer to know")
    run.stop()
    assert run.host.commands("commit") == run.host.commands("released") == []


def test_a_stop_commits_closes_and_says_so(start: Callable[..., Run]) -> None:
    run = start()
    run.assign()
    run.frame(b"a")
    wait_until(lambda: run.target.batches, 10, "a write")
    run.stop()
    [commit] = run.host.commands("commit")
    assert commit["offsets"] == [[*AT, 1]]
    assert run.host.sent[-1] == Stopped(1, in_time=True)
    assert run.target.calls == [("revoked", {AT}, False), "close"]


def test_a_record_reported_after_its_commit_does_not_take_the_commit_back(
    start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "_LAST_COMMIT_S", 0.2)
    run = start(interval_ms=50)
    run.assign()
    run.frame(b"a", b"b")
    [commit] = wait_until(lambda: run.host.commands("commit"), 10, "a commit")
    run.event("committed", id=commit["id"])
    wait_until(lambda: run.task.owned._table[AT].committed == 2, 10, "the task to know of it")
    run.frame(b"c", first=2)
    wait_until(lambda: len(run.target.refs) == 3, 10, "a write")
    with pytest.raises(ToleranceExceeded):
        run.target.context.report(run.target.refs[0], ValueError("too late"))
    run.host.answer = run.event
    run.task.join(10)
    assert isinstance(run.host.sent[-1], SinkFailed)
    later = [row[2] for each in run.host.commands("commit") for row in each["offsets"]]
    assert later == sorted(later)


def test_a_commit_that_is_refused_during_a_rebalance_is_tried_again(
    start: Callable[..., Run],
) -> None:
    run = start()
    run.assign()
    run.frame(b"a")
    wait_until(lambda: run.target.batches, 10, "a write")
    run.task.stop(5)
    [first] = wait_until(lambda: run.host.commands("commit"), 10, "a commit")
    run.event("committed", id=first["id"], error="RebalanceInProgressException")
    [_, second] = wait_until(
        lambda: len(found := run.host.commands("commit")) == 2 and found, 10, "another one"
    )
    assert second["offsets"] == first["offsets"]
    run.event("committed", id=second["id"])
    run.stop()


def test_a_consumer_that_fails_fails_the_task(start: Callable[..., Run]) -> None:
    run = start()
    run.event("closed", trace="java.lang.Exception: no")
    run.task.join(10)
    assert "java.lang.Exception: no" in run.host.sent[-1].trace.summary  # type: ignore[union-attr]
    assert run.target.calls == ["close"]


def test_a_writer_may_have_a_partition_read_from_elsewhere(start: Callable[..., Run]) -> None:
    run = start(interval_ms=50)
    run.host.answer = run.event
    run.assign(position=7)
    run.frame(b"old", first=7)
    wait_until(lambda: run.target.batches, 10, "a batch")
    run.target.context.seek({AT: 2, TopicPartition("other", 0): 5})
    [seek] = wait_until(lambda: run.host.commands("seek"), 10, "the consumer to be told")
    assert seek["partitions"] == [[*AT, 3, 2]]
    run.frame(b"older", first=8)  # read before the consumer moved
    run.event("sought", id=seek["id"], partitions=[[*AT, 4, 2]])
    wait_until(lambda: run.task.positions == {AT: 2}, 10, "the new position")
    wait_until(
        lambda: [[*AT, 2]] in [each["offsets"] for each in run.host.commands("commit")],
        10,
        "the position to be committed, though it is lower",
    )
    run.task.take_frame(frame([None], [b"new"], first=2, epoch=4))
    wait_until(lambda: len(run.target.batches) == 2, 10, "the next batch")
    assert run.target.batches == [["old"], ["new"]]


def test_only_the_last_of_several_seeks_counts(start: Callable[..., Run]) -> None:
    run = start()
    run.assign()
    wait_until(lambda: run.task.positions, 10, "the assignment")
    for offset in (5, 9):
        run.target.context.seek({AT: offset})
        wait_until(lambda: run.host.commands("seek")[-1:], 10, "the consumer to be told")
    wait_until(lambda: len(run.host.commands("seek")) == 2, 10, "both")
    first, second = run.host.commands("seek")
    run.event("sought", id=first["id"], partitions=[[*AT, 4, 5]])
    run.task.take_frame(frame([None], [b"first"], first=5, epoch=4))
    run.event("sought", id=second["id"], partitions=[[*AT, 5, 9]])
    run.task.take_frame(frame([None], [b"second"], first=9, epoch=5))
    wait_until(lambda: run.target.batches, 10, "a batch")
    assert run.target.batches == [["second"]]


def test_a_seek_of_an_assignment_that_is_over_is_forgotten(start: Callable[..., Run]) -> None:
    run = start()
    run.assign()
    wait_until(lambda: run.task.positions, 10, "the assignment")
    run.target.context.seek({AT: 5})
    [seek] = wait_until(lambda: run.host.commands("seek"), 10, "the consumer to be told")
    run.event("lost", partitions=[[*AT]])
    run.assign(epoch=6, position=1)
    run.event("sought", id=seek["id"], partitions=[])
    run.task.take_frame(frame([None], [b"x"], first=1, epoch=6))
    wait_until(lambda: run.target.batches, 10, "a batch")
    assert run.task.positions == {AT: 2}


def test_records_are_not_written_again_when_their_partition_is_read_from_elsewhere(
    start: Callable[..., Run],
) -> None:
    run = start()
    run.assign()
    run.target.away = True
    run.frame(b"a", b"b")
    wait_until(lambda: "away" in run.target.calls, 10, "a write")
    run.target.context.seek({AT: 1})
    wait_until(lambda: run.host.commands("seek"), 10, "the consumer to be told")
    tries = run.target.calls.count("away")
    run.target.away = False
    run.event("sought", id=1, partitions=[[*AT, 4, 1]])
    run.task.take_frame(frame([None], [b"b"], first=1, epoch=4))
    wait_until(lambda: run.target.batches, 10, "a batch")
    assert run.target.batches == [["b"]]
    assert run.target.calls.count("away") == tries


def test_an_offset_below_zero_cannot_be_sought(start: Callable[..., Run]) -> None:
    run = start()
    run.assign()
    wait_until(lambda: run.task.positions, 10, "the assignment")
    with pytest.raises(ValueError, match="offset -1"):
        run.target.context.seek({AT: -1})
