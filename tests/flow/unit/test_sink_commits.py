"""What a sink task commits after errors: never more than the target has.

The law is tested with a target that fails in every way a writer may, and like a careless one: it
forgets what it could not store, so a later `flush` succeeds although records are lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api import (
    Batching,
    DataError,
    Failed,
    RecordRef,
    Records,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.errors import Unavailable
from penstock.flow.messages import Failed as SinkFailed
from penstock.flow.messages import Stopped
from penstock.flow.plan import Tolerance
from penstock.flow.stage import retrying, sink
from penstock.testing.waiting import wait_until

from .test_chunks import frame
from .test_sink_task import HostStub, Run

OTHER = TopicPartition("zwölf", 5)
AT = TopicPartition("zwölf", 2)
FIRST_EPOCH = 3
CALLS = ("write", "flush", "pre_commit", "idle", "assigned", "revoked")


class Careless(SinkWriter):
    """Buffers records until `flush`. `outcomes` says how the next calls of a method end."""

    idle_ms = 3_600_000

    def __init__(self, context: SinkContext, batching: Batching) -> None:
        self.context = context
        self.batching = batching
        self.outcomes: dict[str, list[str]] = {call: [] for call in CALLS}
        self.buffer: list[RecordRef] = []
        self.stored: set[tuple[int, int]] = set()
        self.reported: set[tuple[int, int]] = set()
        self.calls: list[str] = []

    def _begin(self, call: str) -> str:
        self.calls.append(call)
        outcomes = self.outcomes[call]
        outcome = outcomes.pop(0) if outcomes else "ok"
        if outcome == "retriable":
            raise Unavailable(f"{call}: the target is away")
        if outcome == "fatal":
            self.buffer.clear()
            raise DataError(f"{call}: not allowed")
        if outcome == "reports":  # it reports what is buffered, and stops at the first error
            lost, self.buffer = self.buffer, []
            for ref in lost:
                self.reported.add((ref.partition, ref.offset))
                self.context.report(ref, DataError("not accepted"))
        return outcome

    def write(self, records: Records, failed: Failed) -> None:
        if self._begin("write") == "rejects":
            failed[0] = DataError("not accepted")
        for row in range(len(records)):
            ref = records.ref(row)
            if row in failed:
                self.reported.add((ref.partition, ref.offset))
            else:
                self.buffer.append(ref)

    def flush(self) -> None:
        self._begin("flush")
        self.stored |= {(ref.partition, ref.offset) for ref in self.buffer}
        self.buffer.clear()

    def idle(self) -> None:
        self._begin("idle")

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if self._begin("pre_commit") == "less":
            return {at: offset - 1 for at, offset in reached.items()}
        return reached

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._begin("assigned")

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        self._begin("revoked")
        if lost:
            self.buffer = [
                ref for ref in self.buffer if TopicPartition(ref.topic, ref.partition)
                not in partitions
            ]  # fmt: skip


class Group(HostStub):
    """The consumer: answers each command, and checks the law whenever offsets are committed."""

    def __init__(self, tolerates: bool) -> None:
        super().__init__()
        self.tolerates = tolerates
        self.committed = {AT: 0, OTHER: 0}
        self.refusals: list[bool] = []
        self.broken: list[str] = []
        self.run: Run
        self.script: Script

    def send_to_reader(self, command: Mapping[str, Any]) -> None:
        self.reported.append(dict(command))
        match command["do"]:
            case "commit" | "released":
                refused = bool(self.refusals and self.refusals.pop(0))
                for topic, partition, offset in command["offsets"]:
                    self._check(partition, offset)
                    if not refused:
                        self.committed[TopicPartition(topic, partition)] = offset
                error = {"error": "RebalanceInProgressException"} if refused else {}
                self.run.event("committed", id=command["id"], **error)
            case "seek":
                rows = [self.script.sought(*row) for row in command["partitions"]]
                self.run.event("sought", id=command["id"], partitions=rows)
            case "close":
                self.run.event("closed", trace=None)

    def _check(self, partition: int, offset: int) -> None:
        target: Careless = self.run.target  # type: ignore[assignment]
        has = target.stored | (target.reported if self.tolerates else set())
        missing = [at for at in range(offset) if (partition, at) not in has]
        if missing:
            self.broken.append(f"committed {partition} up to {offset} without {missing}")


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrying, "_FIRST_MS", 1)
        patch.setattr(sink, "_RETRY_COMMIT_S", 0.001)
        patch.setattr(sink, "_REJOIN_S", 0.001)
        patch.setattr(sink, "_LAST_COMMIT_S", 0.1)
        yield


def begin(tolerates: bool = False, batching: Batching | None = None) -> Run:
    group = Group(tolerates)
    run = Run(
        batching or Batching(),
        3_600_000,
        Tolerance(tolerate_all=tolerates),
        target=Careless,
        host=group,
    )
    group.run = run
    return run


class Script:
    """Feeds a task, as its consumer would."""

    def __init__(self, run: Run) -> None:
        self.run = run
        run.host.script = self  # type: ignore[attr-defined]
        self.epochs: dict[TopicPartition, int] = {}
        self.epoch = FIRST_EPOCH - 1
        self.next = {AT: 0, OTHER: 0}
        self.owned: set[TopicPartition] = set()
        self.assign(AT, OTHER)

    def settle(self) -> None:
        """Waits until the task has nothing to do."""
        task, until = self.run.task, time.monotonic() + 10
        while task.alive and time.monotonic() < until:
            with task.turn:
                if not (
                    task.inbox.frames
                    or task.inbox.events
                    or task.inbox.commit_requested
                    or task.time.is_busy
                    or task.owned.seek_requested
                ):
                    return
                task.turn.wait(0.001)
        assert not task.alive, "the task is still busy"

    def assign(self, *partitions: TopicPartition) -> None:
        committed = self.run.host.committed  # type: ignore[attr-defined]
        self.epoch += 1
        for at in partitions:
            self.next[at] = committed[at]
            self.owned.add(at)
        rows = [[*at, self.epoch, committed[at]] for at in partitions]
        self.run.event("assigned", partitions=rows)
        self.epochs |= dict.fromkeys(partitions, self.epoch)

    def sought(self, topic: str, partition: int, since: int, offset: int) -> list[Any]:
        """The consumer goes elsewhere."""
        at = TopicPartition(topic, partition)
        self.epoch += 1
        self.epochs[at], self.next[at] = self.epoch, offset
        return [topic, partition, self.epoch, offset]

    def records(self, at: TopicPartition, count: int) -> None:
        first = self.next[at]
        self.next[at] += count
        values = [str(number).encode() for number in range(first, first + count)]
        self.run.task.take_frame(
            frame(
                [None] * count,
                values,
                first=first,
                epoch=self.epochs[at],
                partition=at.partition,
            )
        )

    def move(self, kind: str, at: TopicPartition) -> None:
        self.run.event(kind, partitions=[[*at]])
        self.settle()
        self.assign(at)

    def commit(self) -> None:
        self.run.task.request_commit()

    def stop(self) -> None:
        if self.run.task.alive:
            self.run.task.stop(2)
        self.run.task.join(10)
        assert not self.run.task.alive

    def check(self) -> None:
        assert not self.run.host.broken  # type: ignore[attr-defined]


partitions = st.sampled_from([AT, OTHER])
outcomes = st.sampled_from(
    [
        ("write", "retriable"),
        ("write", "fatal"),
        ("write", "rejects"),
        ("write", "reports"),
        ("flush", "retriable"),
        ("flush", "fatal"),
        ("flush", "reports"),
        ("pre_commit", "retriable"),
        ("pre_commit", "fatal"),
        ("pre_commit", "less"),
        ("revoked", "retriable"),
        ("revoked", "fatal"),
    ]
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("records"), partitions, st.integers(1, 3)),
        st.tuples(st.just("outcome"), outcomes),
        st.tuples(st.just("seek"), partitions, st.integers(0, 3)),
        st.tuples(st.just("commit")),
        st.tuples(st.just("refused")),
        st.tuples(st.just("move"), st.sampled_from(["revoked", "lost"]), partitions),
    ),
    min_size=5,
    max_size=12,
)


@settings(max_examples=4 * settings().max_examples)
@given(steps=steps, tolerates=st.booleans(), most=st.sampled_from([0, 2]), mixed=st.booleans())
def test_no_more_is_committed_than_the_target_has(
    steps: list[Any], tolerates: bool, most: int, mixed: bool
) -> None:
    run = begin(tolerates, Batching(records=most, by_partition=not mixed))
    script = Script(run)
    for kind, *more in steps:
        if not run.task.alive:
            break
        match kind:
            case "records":
                script.records(*more)
            case "outcome":
                call, outcome = more[0]
                run.target.outcomes[call].append(outcome)  # type: ignore[attr-defined]
                continue
            case "commit":
                script.commit()
            case "refused":
                run.host.refusals.append(True)  # type: ignore[attr-defined]
                continue
            case "seek":
                at, back = more
                run.target.context.seek({at: max(0, script.next[at] - back)})
            case "move":
                script.move(*more)
        script.settle()
    script.stop()
    script.check()


def test_a_task_that_stops_retries_its_flush_after_pauses_that_grow_and_warns_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "_LAST_COMMIT_S", 1.5)
    run = begin(False, Batching())
    script = Script(run)
    script.records(AT, 2)
    script.settle()
    target = run.target
    assert isinstance(target, Careless)
    target.outcomes["flush"] = ["retriable"] * 100
    before = target.calls.count("flush")
    script.stop()
    assert 3 <= target.calls.count("flush") - before <= 7, "after 0.1, 0.3, 0.7, 1.5 s"
    warned = [r for r in caplog.records if "flush failed" in r.message and r.levelname != "DEBUG"]
    assert len(warned) == 1


Fails = Callable[[Script, Careless], None]


def _on_flush(script: Script, target: Careless) -> None:
    target.outcomes["flush"] = ["fatal"]
    script.commit()


def _on_pre_commit(script: Script, target: Careless) -> None:
    target.outcomes["pre_commit"] = ["fatal"]
    script.commit()


def _on_write(script: Script, target: Careless) -> None:
    target.outcomes["write"] = ["fatal"]
    script.records(OTHER, 1)


def _on_idle(script: Script, target: Careless) -> None:
    target.outcomes["idle"] = ["fatal"]
    with script.run.task.turn:
        script.run.consuming._idle_at = 0.0
        script.run.task.turn.notify_all()


def _on_revocation(script: Script, target: Careless) -> None:
    target.outcomes["flush"] = ["fatal"]
    script.run.event("revoked", partitions=[[*OTHER]])


def _on_report(script: Script, target: Careless) -> None:
    target.outcomes["flush"] = ["reports"]
    script.commit()


@pytest.mark.parametrize(
    "fails", [_on_flush, _on_pre_commit, _on_write, _on_idle, _on_revocation, _on_report]
)
def test_after_an_error_of_the_writer_only_what_was_flushed_before_is_committed(
    fails: Fails,
) -> None:
    run = begin()
    script = Script(run)
    script.records(AT, 2)
    script.settle()
    script.commit()
    script.settle()
    script.records(AT, 2)
    script.records(OTHER, 1)
    script.settle()
    target: Careless = run.target  # type: ignore[assignment]
    before = len(target.calls)
    fails(script, target)
    run.task.join(10)
    assert isinstance(run.host.sent[-1], SinkFailed)
    assert run.host.committed == {AT: 2, OTHER: 0}  # type: ignore[attr-defined]
    assert target.calls[before:].count("flush") <= 1, "flushed after the error"
    script.check()


def test_offsets_flushed_before_are_committed_again_if_kafka_refused_them() -> None:
    run = begin()
    script = Script(run)
    script.records(AT, 2)
    script.settle()
    run.host.refusals = [True]  # type: ignore[attr-defined]
    run.target.outcomes["flush"] = ["ok", "fatal"]  # type: ignore[attr-defined]
    script.commit()
    run.task.join(10)  # the commit is retried, and the second flush fails
    assert isinstance(run.host.sent[-1], SinkFailed)
    assert run.host.committed == {AT: 2, OTHER: 0}  # type: ignore[attr-defined]


def test_records_written_before_one_that_is_rejected_are_committed() -> None:
    run = begin()
    script = Script(run)
    script.records(AT, 2)
    script.settle()
    run.target.outcomes["write"] = ["rejects"]  # type: ignore[attr-defined]
    script.records(AT, 1)
    run.task.join(10)
    assert isinstance(run.host.sent[-1], SinkFailed)
    assert run.host.committed == {AT: 2, OTHER: 0}  # type: ignore[attr-defined]
    script.check()


@pytest.mark.parametrize("call", ["flush", "pre_commit", "revoked"])
def test_partitions_whose_records_cannot_be_flushed_are_released_as_lost(call: str) -> None:
    run = begin()
    script = Script(run)
    script.records(AT, 2)
    script.records(OTHER, 2)
    script.settle()
    target: Careless = run.target  # type: ignore[assignment]
    target.outcomes[call] = ["retriable"]
    script.move("revoked", AT)
    script.settle()
    assert [ref.partition for ref in target.buffer].count(AT.partition) == 0
    assert run.host.commands("released")[0]["offsets"] == []
    script.stop()
    assert run.host.committed == {AT: 0, OTHER: 2}  # type: ignore[attr-defined]
    script.check()


@pytest.mark.parametrize("call", ["idle", "pre_commit"])
def test_an_error_that_a_retry_may_help_does_not_fail_the_task(call: str) -> None:
    run = begin()
    script = Script(run)
    script.records(AT, 2)
    script.settle()
    target: Careless = run.target  # type: ignore[assignment]
    target.outcomes[call] = ["retriable"]
    if call == "idle":
        with run.task.turn:
            run.consuming._idle_at = 0.0
            run.task.turn.notify_all()
        wait_until(lambda: call in target.calls, 10, "the call")
    script.commit()
    script.settle()
    assert call in target.calls
    script.stop()
    assert run.host.sent[-1] == Stopped(1, in_time=True)
    assert run.host.committed == {AT: 2, OTHER: 0}  # type: ignore[attr-defined]
