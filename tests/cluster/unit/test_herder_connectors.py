"""When a worker starts connectors and asks them for tasks (kafka-connect.md §4.2)."""

from __future__ import annotations

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import (
    next_wakeup,
)
from penstock.cluster.records import (
    ConnectorConfig,
    ConnectorStatus,
    RawProps,
    State,
    Status,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
)

from .herder_worker import (
    ANY_KEY,
    CONFIG,
    ME,
    OTHER_URL,
    T0,
    T1,
    Worker,
    answers,
    leader,
    only,
    running,
    shown,
    task_set,
    work,
)


def test_a_configuration_update_restarts_the_connector_and_publishes_other_tasks() -> None:
    worker = running(1)
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"v": "2"})))
    assert start.config == {"v": "2"}
    commands = worker.take(e.ConnectorPlanned("c", start.run, ({"v": "2"}, {"v": "2"})))
    assert shown(commands) == [("c", "RUNNING")]
    tasks = (TaskConfig(T0, {"v": "2"}), TaskConfig(T1, {"v": "2"}))
    assert [a.records for a in only(e.AppendConfig, commands)] == [tasks]
    commit = worker.store(commands)
    assert [a.records for a in only(e.AppendConfig, commit)] == [(TaskCommit("c", 2),)]


def test_equal_tasks_are_published_again_when_the_connector_configuration_is_another() -> None:
    worker = running(1)
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"v": "2"})))
    commands = worker.take(e.ConnectorPlanned("c", start.run, ({"v": "1"},)))
    assert len(only(e.AppendConfig, commands)) == 1


def test_equal_tasks_of_an_equal_configuration_are_not_published_again() -> None:
    worker = running(1)
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", CONFIG)))
    commands = worker.take(e.ConnectorPlanned("c", start.run, ({"v": "1"},)))
    assert only(e.AppendConfig, commands) == []


def test_a_plan_of_an_older_run_is_ignored() -> None:
    worker = running(1)
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"v": "2"})))
    worker.read(ConnectorConfig("c", {"v": "3"}))
    assert worker.take(e.ConnectorPlanned("c", start.run, ({"v": "2"},))) == []


def test_two_task_sets_of_a_connector_are_not_written_at_once() -> None:
    # Their records would mix, and the second commit would find no tasks (kafka-connect.md §4.3).
    worker = running(1)
    first = worker.take(e.Requested("a", e.PutTasks("c", ({"v": "2"},))))
    second = worker.take(e.Requested("b", e.PutTasks("c", ({"v": "3"}, {"v": "3"}))))
    assert only(e.AppendConfig, second) == []
    assert answers(worker.store(worker.store(first))) == [("a", e.Done())]
    after = worker.join()
    assert len(only(e.AppendConfig, after)) == 1


def test_a_connector_that_fails_to_start_is_failed_with_its_trace() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    [start] = only(e.StartConnector, worker.join(work("c")))
    [status] = only(e.AppendStatus, worker.take(e.ConnectorPlanned("c", start.run, (), "boom")))
    assert status.record == ConnectorStatus("c", Status(State.FAILED, ME, 2, "boom"))


@pytest.mark.parametrize("target", [Target.PAUSED, Target.STARTED])
def test_a_failed_connector_follows_no_pause_and_no_resumption(target: Target) -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    [start] = only(e.StartConnector, worker.join(work("c")))
    worker.take(e.ConnectorPlanned("c", start.run, (), "boom"))
    worker.read(TargetState("c", Target.PAUSED))
    worker.read(TargetState("c", target))
    assert worker.state.running.connectors["c"].phase is RunPhase.FAILED


def test_a_failed_connector_follows_a_stop() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    [start] = only(e.StartConnector, worker.join(work("c")))
    worker.take(e.ConnectorPlanned("c", start.run, (), "boom"))
    assert shown(worker.read(TargetState("c", Target.STOPPED))) == [("c", "STOPPED")]


def test_a_paused_connector_that_is_stopped_says_so_once() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), TargetState("c", Target.PAUSED))
    assert shown(worker.join(work("c"))) == [("c", "PAUSED")]
    assert shown(worker.read(TargetState("c", Target.STOPPED))) == [("c", "STOPPED")]
    assert shown(worker.tick(1)) == []


def test_a_follower_forwards_its_task_sets() -> None:
    worker = running(1, leads=False)
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"v": "2"})))
    commands = worker.take(e.ConnectorPlanned("c", start.run, ({"v": "2"},)))
    assert only(e.ForwardTasks, commands) == [e.ForwardTasks(OTHER_URL, "c", ({"v": "2"},))]


def test_forwarding_is_tried_again_after_250_ms_and_longer_up_to_a_minute() -> None:
    worker = running(1, leads=False)
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"v": "2"})))
    waits = []
    for _ in range(10):
        commands = worker.take(e.ConnectorPlanned("c", start.run, ({"v": "2"},)))
        assert len(only(e.ForwardTasks, commands)) == 1
        worker.take(e.TasksForwarded("c", "no"))
        wakeup = next_wakeup(worker.state)
        assert wakeup is not None
        waits.append(wakeup - worker.now)
        assert only(e.StartConnector, worker.tick(waits[-1] - 1)) == []
        [start] = only(e.StartConnector, worker.tick(1))
    assert waits == [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_after_a_success_the_waits_begin_again() -> None:
    worker = running(1, leads=False)
    worker.take(e.TasksForwarded("c", "no"), e.TasksForwarded("c", "no"), e.TasksForwarded("c"))
    assert next_wakeup(worker.state) is None
    worker.take(e.TasksForwarded("c", "no"))
    assert next_wakeup(worker.state) == worker.now + 250


def test_a_leader_whose_own_task_set_is_not_stored_asks_the_connector_again() -> None:
    worker = running(1)
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"v": "2"})))
    [append] = only(e.AppendConfig, worker.take(e.ConnectorPlanned("c", start.run, ({"v": "2"},))))
    worker.take(e.Appended(append.ticket, -1, "no broker"))
    assert len(only(e.StartConnector, worker.tick(250))) == 1


def test_retries_end_when_the_connector_is_reassigned() -> None:
    worker = running(1, leads=False)
    worker.take(e.TasksForwarded("c", "no"))
    worker.join(revoked=work("c"), leads=False)
    assert worker.state.running.retries == {}


def watching() -> Worker:
    """A worker whose connector `c` is planned again every second."""
    worker = Worker()
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(1))
    worker.take(e.LogsReady())
    for start in only(e.StartConnector, worker.join(work("c"))):
        configs = worker.state.cluster.task_configs("c")
        worker.take(e.ConnectorPlanned("c", start.run, configs, again_ms=1_000))
    return worker


def test_a_connector_is_asked_again_and_other_tasks_are_published() -> None:
    worker = watching()
    assert worker.tick(999) == []
    [ask] = worker.tick(1)
    assert isinstance(ask, e.AskConnector)
    same = worker.state.cluster.task_configs("c")
    assert worker.take(e.ConnectorPlanned("c", ask.run, same, again_ms=1_000)) == []
    [ask] = only(e.AskConnector, worker.tick(1_000))
    other: tuple[RawProps, ...] = ({"v": "1"}, {"v": "2"})
    [append] = only(
        e.AppendConfig, worker.take(e.ConnectorPlanned("c", ask.run, other, again_ms=1_000))
    )
    assert [record for record in append.records if isinstance(record, TaskConfig)] == [
        TaskConfig(T0, {"v": "1"}),
        TaskConfig(T1, {"v": "2"}),
    ]


def test_a_connector_that_cannot_tell_now_keeps_its_tasks_and_is_asked_later() -> None:
    worker = watching()
    [ask] = only(e.AskConnector, worker.tick(1_000))
    assert worker.take(e.ConnectorPlanned("c", ask.run, (), "no connection")) == []
    assert len(only(e.AskConnector, worker.tick(1_000))) == 1


def test_a_connector_that_requests_it_is_asked_at_once_and_once_more_if_it_is_asked_already() -> (
    None
):
    worker = watching()
    run = worker.state.running.connectors["c"].run
    [ask] = only(e.AskConnector, worker.take(e.ReconfigurationRequested("c", run)))
    assert only(e.AskConnector, worker.take(e.ReconfigurationRequested("c", run))) == []
    same = worker.state.cluster.task_configs("c")
    worker.take(e.ConnectorPlanned("c", ask.run, same, again_ms=1_000))
    assert len(only(e.AskConnector, worker.tick(0))) == 1
    worker.take(e.ConnectorPlanned("c", ask.run, same, again_ms=1_000))
    assert only(e.AskConnector, worker.tick(999)) == []


def test_the_request_of_an_instance_that_runs_no_more_is_ignored() -> None:
    worker = watching()
    run = worker.state.running.connectors["c"].run
    assert worker.take(e.ReconfigurationRequested("c", run - 1)) == []
    worker.read(TargetState("c", Target.PAUSED))
    assert only(e.AskConnector, worker.take(e.ReconfigurationRequested("c", run))) == []


def test_a_paused_connector_is_not_asked() -> None:
    worker = watching()
    worker.read(TargetState("c", Target.PAUSED))
    assert only(e.AskConnector, worker.tick(5_000)) == []
    assert worker.state.running.asking == {}


def test_a_running_connector_that_fails_by_itself_is_shown_and_can_be_restarted() -> None:
    worker = running(2)
    run = worker.state.running.connectors["c"].run
    commands = worker.take(e.ConnectorFailed("c", run, "boom"))
    assert shown(commands) == [("c", "FAILED")]
    assert only(e.StopTask, commands) == []
    assert worker.state.running.connectors["c"].phase is RunPhase.FAILED
    [start] = only(e.StartConnector, worker.take(e.Requested("r", e.RestartConnector("c"))))
    assert start.run > run


def test_the_failure_of_an_instance_that_runs_no_more_is_ignored() -> None:
    worker = running(2)
    run = worker.state.running.connectors["c"].run
    assert worker.take(e.ConnectorFailed("c", run - 1, "boom")) == []
