"""Connector instances of a worker: which run, and when they are stopped."""

from __future__ import annotations

import threading

import pytest

from penstock.api import Connector, Props
from penstock.cluster.herder.runs import Run, RunPhase
from penstock.config.define import Config
from penstock.runtime.instances import InstanceContext, Instances
from penstock.testing.waiting import wait_until


class Watching(Connector):
    def __init__(self) -> None:
        self.stops = 0
        self.stopped = threading.Event()

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return []

    def stop(self) -> None:
        self.stops += 1
        self.stopped.set()


@pytest.mark.parametrize(
    ("runs", "kept"),
    [
        ({"c": Run(3, RunPhase.RUNNING)}, True),
        ({"c": Run(3, RunPhase.STARTING)}, True),
        ({"c": Run(4, RunPhase.RUNNING)}, False),
        ({"c": Run(3, RunPhase.PAUSED)}, False),
        ({"c": Run(3, RunPhase.FAILED)}, False),
        ({}, False),
    ],
)
def test_an_instance_is_kept_for_as_long_as_its_run_is(runs: dict[str, Run], kept: bool) -> None:
    instances, connector = Instances(), Watching()
    instances.put("c", 3, connector)
    instances.keep(runs)
    instances.keep(runs)
    if kept:
        assert instances.get("c", 3) is connector
        assert not connector.stopped.is_set()
    else:
        assert connector.stopped.wait(10)
        assert instances.get("c", 3) is None
        assert connector.stops == 1


def test_the_instance_of_an_earlier_run_is_stopped_for_the_next() -> None:
    instances, first, second = Instances(), Watching(), Watching()
    instances.put("c", 1, first)
    instances.put("c", 2, second)
    assert first.stopped.is_set()
    assert instances.get("c", 1) is None
    assert instances.get("c", 2) is second
    instances.close()
    assert second.stopped.wait(10)


def test_an_instance_that_raises_when_it_is_stopped_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Raising(Watching):
        def stop(self) -> None:
            raise ValueError("cannot stop")

    instances = Instances()
    instances.put("c", 1, Raising())
    instances.keep({})
    wait_until(lambda: "cannot stop" in caplog.text, 10, "the log line")


def test_a_context_asks_the_worker() -> None:
    asked: list[str] = []
    context = InstanceContext("c", lambda: (), lambda: asked.append("replan"))
    assert context.read_stored_offsets() == ()
    context.request_reconfiguration()
    assert asked == ["replan"]
