"""Interceptors are called with batches, and never cost a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from penstock.api import (
    Acknowledged,
    Batching,
    ConsumerInterceptor,
    Figure,
    Header,
    Plugin,
    ProducerInterceptor,
    Records,
    StageDone,
    TopicPartition,
)
from penstock.api.settings import ConfigDef
from penstock.flow.messages import Intercepted
from penstock.flow.plan import InterceptorPlan
from penstock.flow.stage.intercepting import Interceptors
from penstock.ids import TaskId
from penstock.plugins.ref import PluginRef
from penstock.testing.conformance import records_of
from penstock.testing.waiting import wait_until

from .test_sink_task import AT, Run

CONFIG = ConfigDef().parse({})


class Context:
    task = TaskId("c", 0)


class Seeing(ProducerInterceptor):
    plugin = Plugin("test.Seeing", "1", ConfigDef())
    seen: list[Any]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen = []

    def on_send(self, records: Records) -> Records:
        self.seen.append(("sent", list(records.values.values)))
        return records.with_headers([[Header("h", b"1")]] * len(records))

    def on_acknowledgement(
        self,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        refused: Sequence[tuple[str, str]],
    ) -> None:
        self.seen.append((acknowledged, refused))

    def on_stage(self, done: StageDone) -> None:
        self.seen.append((done.stage, done.records, done.failed, done.error))

    def figures(self) -> Sequence[Figure]:
        return [Figure("seen", len(self.seen))]

    def close(self) -> None:
        self.seen.append("closed")


class Failing(ProducerInterceptor):
    plugin = Plugin("test.Failing", "1", ConfigDef())

    def on_send(self, records: Records) -> Records:
        raise ValueError("boom")

    on_acknowledgement = on_stage = figures = close = on_send  # type: ignore[assignment]


class Unmakable(Failing):
    def __init__(self, *given: Any) -> None:
        raise ValueError("no")


def made(*kinds: type[ProducerInterceptor], clock: Callable[[], float] | None = None) -> Any:
    plans = [InterceptorPlan(PluginRef.of(kind), CONFIG) for kind in kinds]
    return Interceptors(plans, Context(), clock or (lambda: 0.0))


def test_without_any_nothing_is_done() -> None:
    none = made()
    records = records_of([b"a"])
    assert not none
    assert none.on_send(records) is records
    with none.stage("put", 1, ()):
        pass
    assert none.figures() == []


def test_each_gets_what_the_one_before_returned() -> None:
    chain = made(Seeing, Failing, Seeing)
    first, _, last = chain._all
    with chain.stage("convert", 2, {0: "x"}):
        pass
    result = chain.on_send(records_of([b"a", b"b"]))
    chain.on_acknowledgement({}, [("t", "too large")])
    assert result.headers == [[Header("h", b"1")]] * 2
    assert chain.figures() == [Figure("seen", 3), Figure("seen", 3)]
    chain.close()
    chain.close()
    for each in (first, last):
        assert each.seen == [
            ("convert", 2, 1, None),
            ("sent", [b"a", b"b"]),
            ({}, [("t", "too large")]),
            "closed",
        ]


def test_a_failed_stage_is_reported() -> None:
    chain = made(Seeing)
    with pytest.raises(KeyError), chain.stage("put", 1, ()):
        raise KeyError("x")
    assert chain._all[0].seen == [("put", 1, 0, "KeyError: 'x'")]


def test_failures_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    chain = made(Failing, Unmakable, clock=lambda: now[0])
    records = records_of([b"a"])
    for at in (0.0, 1.0, 2.0, 61.0):
        now[0] = at
        assert chain.on_send(records) is records
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "interceptor Unmakable: it cannot be created: no",
        "interceptor Failing: on_send failed: boom",
        "interceptor Failing: on_send failed: boom (3 failures since the last such message)",
    ]


@pytest.mark.parametrize(
    "result",
    [
        lambda records: None,
        lambda records: records_of([b"a"] * 3),
        lambda records: records.with_headers([[]]),
        lambda records: records.with_topics(["t"]),
    ],
)
def test_results_of_interceptors_that_are_no_records_are_not_used(
    result: Callable[[Records], Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(ProducerInterceptor):
        plugin = Plugin("test.Wrong", "1", ConfigDef())

        def on_send(self, records: Records) -> Records:
            return result(records)  # type: ignore[no-any-return]

    records = records_of([b"a", b"b"])
    assert made(Wrong).on_send(records) is records
    assert "it returned" in caplog.text


class Watching(ConsumerInterceptor):
    """Drops `no`, and fails on a commit."""

    plugin = Plugin("test.Watching", "1", ConfigDef())
    made: list[Watching] = []  # noqa: RUF012

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.calls: list[Any] = []
        Watching.made.append(self)

    def on_consume(self, records: Records) -> Records:
        values = records.values.values
        return records.only([row for row, value in enumerate(values) if value != b"no"])

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.calls.append(dict(offsets))
        raise ValueError("boom")

    def on_stage(self, done: StageDone) -> None:
        self.calls.append((done.stage, done.records))

    def figures(self) -> Sequence[Figure]:
        return [Figure("calls", len(self.calls))]

    def close(self) -> None:
        self.calls.append("close")


def test_a_sink_task_calls_its_interceptors() -> None:
    run = Run(Batching(), 50, interceptors=(InterceptorPlan(PluginRef.of(Watching), CONFIG),))
    run.assign()
    run.frame(b"a", b"no", b"b")
    [commit] = wait_until(lambda: run.host.commands("commit"), 10, "a commit")
    assert commit["offsets"] == [[*AT, 3]]
    run.event("committed", id=commit["id"])
    watching = Watching.made[-1]
    wait_until(lambda: {AT: 3} in watching.calls, 10, "the commit to be told of")
    run.stop()
    assert run.target.batches == [["a", "b"]]
    assert watching.calls == [("convert", 2), ("put", 2), {AT: 3}, "close"]
    (reported,) = [each for each in run.host.sent if isinstance(each, Intercepted)]
    assert reported.figures == [Figure("calls", 3)]
