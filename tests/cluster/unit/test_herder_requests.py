"""What a worker answers to requests, and when (kafka-connect.md §4.2, §6)."""

from __future__ import annotations

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder.state import (
    next_wakeup,
)
from penstock.cluster.records import (
    ConnectorConfig,
    LoggerLevel,
    Target,
    TargetState,
    TaskCommit,
    TopicStatus,
    TopicUse,
)
from penstock.ids import TaskId

from .herder_worker import (
    CONFIG,
    OTHER_URL,
    Worker,
    answers,
    follower,
    leader,
    only,
    shown,
    task_set,
)


def test_a_created_connector_is_answered_when_its_record_has_been_read_back() -> None:
    worker = leader()
    commands = worker.take(e.Requested("r", e.CreateConnector("c", CONFIG)))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (ConnectorConfig("c", CONFIG),)
    assert answers(commands) == []
    assert answers(worker.take(e.Appended(append.ticket, 1))) == []
    assert answers(worker.read(ConnectorConfig("c", CONFIG))) == [("r", e.Done(created=True))]
    assert worker.state.requests.writes == {}


def test_the_record_may_be_read_back_before_it_is_reported_stored() -> None:
    worker = leader()
    [append] = only(e.AppendConfig, worker.take(e.Requested("r", e.CreateConnector("c", CONFIG))))
    assert answers(worker.read(*append.records)) == []
    assert answers(worker.take(e.Appended(append.ticket, 1))) == [("r", e.Done(created=True))]


def test_an_initial_target_is_written_before_the_configuration() -> None:
    [append] = only(
        e.AppendConfig,
        leader().take(e.Requested("r", e.CreateConnector("c", CONFIG, Target.PAUSED))),
    )
    assert append.records == (TargetState("c", Target.PAUSED), ConnectorConfig("c", CONFIG))


def test_creating_a_connector_that_exists_is_a_conflict() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.CreateConnector("c", CONFIG)))
    assert answers(commands) == [("r", e.Refused(409, "Connector c already exists"))]
    assert only(e.AppendConfig, commands) == []


def test_of_two_that_create_the_same_connector_at_once_only_one_succeeds() -> None:
    worker = leader()
    first = worker.take(e.Requested("a", e.CreateConnector("c", CONFIG)))
    second = worker.take(e.Requested("b", e.CreateConnector("c", CONFIG)))
    assert only(e.AppendConfig, second) == []
    following = worker.store(first)
    assert answers(following) == [("a", e.Done(created=True))]
    assert answers(worker.join()) == [("b", e.Refused(409, "Connector c already exists"))]


def test_a_write_about_another_connector_does_not_wait() -> None:
    worker = leader()
    worker.take(e.Requested("a", e.CreateConnector("c", CONFIG)))
    other = worker.take(e.Requested("b", e.CreateConnector("d", CONFIG)))
    assert len(only(e.AppendConfig, other)) == 1


@pytest.mark.parametrize(("there", "created"), [(True, False), (False, True)])
def test_put_creates_or_replaces(there: bool, created: bool) -> None:
    worker = leader(*([ConnectorConfig("c", CONFIG)] if there else []))
    commands = worker.take(e.Requested("r", e.PutConfig("c", {"v": "2"})))
    assert answers(worker.store(commands)) == [("r", e.Done(created=created))]


def test_a_deletion_leaves_two_tombstones() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.DeleteConnector("c")))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (ConnectorConfig("c", None), TargetState("c", None))
    assert answers(worker.store(commands)) == [("r", e.Done())]


@pytest.mark.parametrize(
    "operation",
    [
        e.DeleteConnector("nope"),
        e.SetTarget("nope", Target.PAUSED),
        e.SetTarget("nope", Target.STOPPED),
        e.RestartConnector("nope"),
        e.RestartAll("nope", True, False),
        e.RestartTask(TaskId("nope", 0)),
        e.PutTasks("nope", ()),
    ],
)
def test_an_unknown_connector_is_not_found(operation: e.Operation) -> None:
    [(_, result)] = answers(leader().take(e.Requested("r", operation)))
    assert isinstance(result, e.Refused)
    assert result.status == 404


@pytest.mark.parametrize(
    "operation",
    [
        e.CreateConnector("d", CONFIG),
        e.PutConfig("c", CONFIG),
        e.DeleteConnector("c"),
        e.SetTarget("c", Target.STOPPED),
        e.PutTasks("c", ()),
        e.RestartConnector("c"),
        e.RestartAll("c", False, True),
    ],
)
def test_a_follower_sends_to_the_leader(operation: e.Operation) -> None:
    worker = follower(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", operation))
    assert answers(commands) == [("r", e.Elsewhere(OTHER_URL))]
    assert only(e.AppendConfig, commands) == []


@pytest.mark.parametrize("target", [Target.PAUSED, Target.STARTED])
def test_any_worker_pauses_and_resumes_and_answers_as_soon_as_that_is_stored(
    target: Target,
) -> None:
    worker = follower(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.SetTarget("c", target)))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (TargetState("c", target),)
    assert answers(worker.take(e.Appended(append.ticket, 99))) == [("r", e.Done())]


def test_stopping_a_connector_first_takes_its_tasks_away() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(2))
    first = worker.take(e.Requested("r", e.SetTarget("c", Target.STOPPED)))
    assert [a.records for a in only(e.AppendConfig, first)] == [(TaskCommit("c", 0),)]
    second = worker.store(first)
    assert [a.records for a in only(e.AppendConfig, second)] == [
        (TargetState("c", Target.STOPPED),)
    ]
    assert answers(worker.store(second)) == [("r", e.Done())]


def test_requests_wait_while_a_round_is_under_way() -> None:
    worker = leader()
    worker.take(e.MetadataRequested("m"))
    assert answers(worker.take(e.Requested("r", e.Ping()))) == []
    assert answers(worker.join()) == [("r", e.Done())]


def test_requests_wait_until_the_worker_has_read_as_far_as_the_group() -> None:
    worker = leader()
    worker.join(offset=2)
    assert answers(worker.take(e.Requested("r", e.Ping()))) == []
    assert answers(worker.read(ConnectorConfig("c", CONFIG))) == []  # leads to a round
    assert answers(worker.join()) == [("r", e.Done())]


def test_a_worker_that_ends_refuses_all_requests() -> None:
    worker = Worker()
    worker.take(e.Requested("a", e.Ping()))
    refused = e.Refused(500, "Worker is shutting down")
    assert answers(worker.take(e.StopRequested())) == [("a", refused)]
    assert answers(worker.take(e.Requested("b", e.Ping()))) == [("b", refused)]


def test_a_write_that_is_not_read_back_in_thirty_seconds_fails() -> None:
    worker = leader()
    [append] = only(e.AppendConfig, worker.take(e.Requested("r", e.PutConfig("c", CONFIG))))
    assert next_wakeup(worker.state) == worker.now + 30_000
    assert answers(worker.tick(29_999)) == []
    [(reply, result)] = answers(worker.tick(1))
    assert (reply, isinstance(result, e.Refused) and result.status) == ("r", 500)
    assert worker.take(e.Appended(append.ticket, 1)) == []


def test_thirty_seconds_are_for_all_groups_of_a_write_together() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    first = worker.take(e.Requested("r", e.SetTarget("c", Target.STOPPED)))
    worker.now += 20_000
    assert len(only(e.AppendConfig, worker.store(first))) == 1
    [(_, result)] = answers(worker.tick(10_000))
    assert isinstance(result, e.Refused)


def test_a_write_that_kafka_refuses_fails_at_once() -> None:
    worker = leader()
    [append] = only(e.AppendConfig, worker.take(e.Requested("r", e.PutConfig("c", CONFIG))))
    [(_, result)] = answers(worker.take(e.Appended(append.ticket, -1, "no broker")))
    assert isinstance(result, e.Refused)
    assert "no broker" in result.message


def test_a_task_set_for_a_stopped_connector_is_refused() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), TargetState("c", Target.STOPPED))
    [(_, result)] = answers(worker.take(e.Requested("r", e.PutTasks("c", ({"v": "1"},)))))
    assert isinstance(result, e.Refused)
    assert result.status == 400


def answered(worker: Worker, operation: e.Operation) -> e.Result:
    [(_, result)] = answers(worker.take(e.Requested("r", operation)))
    return result


def test_offsets_may_be_changed_of_a_stopped_connector_without_tasks() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    refused = answered(worker, e.CheckStopped("c"))
    assert isinstance(refused, e.Refused)
    assert refused.status == 400
    assert "'/connectors/c/stop'" in refused.message
    worker.read(TargetState("c", Target.STOPPED))
    assert isinstance(answered(worker, e.CheckStopped("c")), e.Refused)  # its tasks may still run
    worker.read(TaskCommit("c", 0))
    worker.join()
    assert answered(worker, e.CheckStopped("c")) == e.Done()


@pytest.mark.parametrize("check", [e.CheckExists, e.CheckStopped])
def test_only_the_leader_knows_what_is_there(
    check: type[e.CheckExists] | type[e.CheckStopped],
) -> None:
    assert answered(leader(), check("c")) == e.Refused(404, "Connector c not found")
    assert answered(follower(ConnectorConfig("c", CONFIG)), check("c")) == e.Elsewhere(OTHER_URL)


def test_topics_are_forgotten_one_by_one() -> None:
    worker = follower(ConnectorConfig("c", CONFIG))
    worker.status(TopicStatus("t", "c", TopicUse(0, 1)), TopicStatus("u", "c", TopicUse(0, 1)))
    commands = worker.take(e.Requested("r", e.ResetTopics("c")))
    assert shown(commands) == [("t", None), ("u", None)]
    assert answers(commands) == [("r", e.Done())]


def test_a_level_is_written_by_anybody_and_set_by_everybody() -> None:
    worker = follower()
    commands = worker.take(e.Requested("r", e.SetLevel("a.b", "DEBUG")))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (LoggerLevel("a.b", "DEBUG"),)
    assert answers(worker.take(e.Appended(append.ticket, 7))) == [("r", e.Done())]
    assert worker.read(LoggerLevel("a.b", "DEBUG")) == [e.ApplyLevel("a.b", "DEBUG")]


def test_a_level_from_before_the_start_is_not_set() -> None:
    worker = Worker()
    assert worker.read(LoggerLevel("a.b", "DEBUG")) == []
