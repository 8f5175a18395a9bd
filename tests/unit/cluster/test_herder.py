"""What a worker decides, event by event (kafka-connect.md §4.2, §5, §6)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TypeVar

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder import step
from penstock.cluster.herder.reconciliation import WARMING_UP
from penstock.cluster.herder.runs import CONNECTOR_MOVES, PHASE_MOVES, Phase, Run, Runs
from penstock.cluster.herder.state import (
    GROUP_MOVES,
    AwaitingSpark,
    BackingOff,
    HerderState,
    Joining,
    Member,
    Membership,
    Replaying,
    Settings,
    Stable,
    Syncing,
    next_wakeup,
)
from penstock.cluster.protocol import (
    NO_WORK,
    Assignment,
    AssignmentError,
    MemberMetadata,
    Work,
    decode_assignment,
    encode_assignment,
    encode_metadata,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    LoggerLevel,
    RawProps,
    RestartRequest,
    SessionKey,
    State,
    Status,
    StatusRecord,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskStatus,
    TopicStatus,
    TopicUse,
    encode_config,
    encode_status,
)
from penstock.cluster.recovery import Causes, RestartPolicy
from penstock.ids import TaskId

ME, OTHER = "me:8083", "other:8083"
MY_URL, OTHER_URL = "http://me:8083/", "http://other:8083/"
CONFIG: RawProps = {"name": "c", "v": "1"}
T0, T1, T2 = (TaskId("c", number) for number in range(3))
ANY_KEY = SessionKey(b"k", "HmacSHA256", 1_000_000)

C = TypeVar("C", bound=e.Command)


def work(*items: str | TaskId) -> Work:
    return Work(
        tuple(item for item in items if isinstance(item, str)),
        tuple(item for item in items if isinstance(item, TaskId)),
    )


def settings(**changes: int) -> Settings:
    return replace(Settings(MY_URL, ME), **changes)  # type: ignore[arg-type]


class Worker:
    """A herder, the config topic it reads, and everything it has ordered so far."""

    def __init__(self, of: Settings | None = None, *, spark: bool = True) -> None:
        self.state = HerderState(of or settings())
        self.now = 1_000_000
        self.log: list[ConfigRecord] = []
        self.generation = 0
        self.protocol = "sessioned"
        if spark:
            self.take(e.SparkReady())

    def take(self, *events: e.Event) -> list[e.Command]:
        commands: list[e.Command] = []
        for event in events:
            self.state, ordered = step(self.state, event, self.now)
            commands += ordered
        return commands

    def read(self, *records: ConfigRecord) -> list[e.Command]:
        """These records are written, by anybody, and read."""
        start = len(self.log)
        self.log += records
        return self.take(
            e.ConfigRead(
                tuple((start + n, *encode_config(record)) for n, record in enumerate(records))
            )
        )

    def status(self, *records: StatusRecord) -> list[e.Command]:
        return self.take(e.StatusRead(tuple(encode_status(record) for record in records)))

    def join(
        self,
        given: Work = NO_WORK,
        *,
        revoked: Work = NO_WORK,
        leads: bool = True,
        offset: int | None = None,
        delay_ms: int = 0,
        error: int = AssignmentError.NONE,
    ) -> list[e.Command]:
        """A round is completed."""
        self.generation += 1
        leader, url = ("m1", MY_URL) if leads else ("m2", OTHER_URL)
        at = self.state.cluster.offset if offset is None else offset
        assignment = Assignment(leader, url, at, given, revoked, delay_ms, error)
        version = {"default": 0, "compatible": 1, "sessioned": 2}[self.protocol]
        data = encode_assignment(assignment, version)
        return self.take(
            e.MetadataWanted("metadata"), e.Joined(self.generation, "m1", self.protocol, data)
        )

    def store(self, commands: list[e.Command]) -> list[e.Command]:
        """What was to be appended is stored and read back, and what follows from that."""
        following: list[e.Command] = []
        for append in only(e.AppendConfig, commands):
            offset = len(self.log) + len(append.records) - 1
            following += self.take(e.Appended(append.ticket, offset))
            following += self.read(*append.records)
        return following

    def tick(self, ms: int) -> list[e.Command]:
        self.now += ms
        return self.take(e.Tick())

    def start_all(self, commands: list[e.Command]) -> list[e.Command]:
        """What is to start has started."""
        following: list[e.Command] = []
        for command in commands:
            match command:
                case e.StartTask(task, run):
                    following += self.take(e.TaskStarted(task, run))
                case e.StartConnector(connector, run):
                    configs = self.state.cluster.task_configs(connector)
                    following += self.take(e.ConnectorPlanned(connector, run, configs))
                case _:
                    pass
        return following

    def stop_all(self, commands: list[e.Command]) -> list[e.Command]:
        return self.take(
            *(e.TaskStopped(stop.task, stop.run) for stop in only(e.StopTask, commands))
        )

    def told(self) -> MemberMetadata:
        [tell] = only(e.TellMetadata, self.take(e.MetadataWanted("r")))
        return tell.metadata


def only(kind: type[C], commands: list[e.Command]) -> list[C]:
    return [command for command in commands if isinstance(command, kind)]


def answers(commands: list[e.Command]) -> list[tuple[object, e.Result]]:
    return [(answer.reply, answer.result) for answer in only(e.Answer, commands)]


def shown(commands: list[e.Command]) -> list[tuple[str, str | None]]:
    """The statuses to be written, a tombstone as None."""
    found: list[tuple[str, str | None]] = []
    for append in only(e.AppendStatus, commands):
        match append.record:
            case ConnectorStatus(name, status):
                found.append((name, status and status.state))
            case TaskStatus(task, status):
                found.append((str(task), status and status.state))
            case TopicStatus(topic, _, use):
                found.append((topic, use and "used"))
    return found


def task_set(count: int, version: str = "1", connector: str = "c") -> list[ConfigRecord]:
    tasks = [TaskConfig(TaskId(connector, n), {"v": version}) for n in range(count)]
    return [*tasks, TaskCommit(connector, count)]


def leader(*records: ConfigRecord, of: Settings | None = None) -> Worker:
    """A worker that leads a settled group and runs nothing; there is a session key."""
    worker = Worker(of)
    worker.read(ANY_KEY, *records)
    worker.take(e.LogsReady())
    worker.join()
    return worker


def follower(*records: ConfigRecord) -> Worker:
    worker = Worker()
    worker.read(ANY_KEY, *records)
    worker.take(e.LogsReady())
    worker.join(leads=False)
    return worker


def running(tasks: int = 2, *, leads: bool = True, of: Settings | None = None) -> Worker:
    """A worker that runs connector `c` and all its tasks."""
    worker = Worker(of)
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(tasks))
    worker.take(e.LogsReady())
    mine = work("c", *(TaskId("c", n) for n in range(tasks)))
    worker.start_all(worker.join(mine, leads=leads))
    return worker


def phases(worker: Worker) -> dict[str, Phase]:
    return {str(task): run.phase for task, run in worker.state.running.tasks.items()}


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


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
def test_what_is_not_there_is_not_found(operation: e.Operation) -> None:
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
    worker.take(e.MetadataWanted("m"))
    assert answers(worker.take(e.Requested("r", e.Ping()))) == []
    assert answers(worker.join()) == [("r", e.Done())]


def test_requests_wait_until_the_worker_has_read_as_far_as_the_group() -> None:
    worker = leader()
    worker.join(offset=2)
    assert answers(worker.take(e.Requested("r", e.Ping()))) == []
    assert answers(worker.read(ConnectorConfig("c", CONFIG))) == []  # the round it leads to
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


# ── connectors ───────────────────────────────────────────────────────────────────────────────────


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
    assert worker.state.running.connectors["c"].phase is Phase.FAILED


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


def test_after_a_success_the_waits_begin_anew() -> None:
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


def test_retries_end_when_the_connector_is_given_away() -> None:
    worker = running(1, leads=False)
    worker.take(e.TasksForwarded("c", "no"))
    worker.join(revoked=work("c"), leads=False)
    assert worker.state.running.retries == {}


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────


def test_an_assigned_task_is_started_and_shown_running_once_it_runs() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    commands = worker.join(work(T0))
    [start] = only(e.StartTask, commands)
    assert (start.task, start.connector_config, start.task_config) == (T0, CONFIG, {"v": "1"})
    assert shown(commands) == []
    assert shown(worker.take(e.TaskStarted(T0, start.run))) == [("c-0", "RUNNING")]


def test_a_task_waits_for_spark_and_says_why() -> None:
    worker = Worker(spark=False)
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(1))
    worker.take(e.LogsReady())
    commands = worker.join(work(T0))
    assert only(e.StartTask, commands) == []
    [status] = only(e.AppendStatus, commands)
    assert status.record == TaskStatus(T0, Status(State.UNASSIGNED, ME, 1, WARMING_UP))
    assert shown(worker.join()) == []
    assert len(only(e.StartTask, worker.take(e.SparkReady()))) == 1


def test_a_task_that_waits_for_spark_can_be_given_away_at_once() -> None:
    worker = Worker(spark=False)
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(1))
    worker.take(e.LogsReady())
    worker.join(work(T0))
    assert e.JoinGroup() in worker.join(revoked=work(T0))
    assert only(e.StartTask, worker.take(e.SparkReady())) == []


def test_a_commit_stops_the_tasks_and_starts_them_after_the_round() -> None:
    worker = running(2)
    commands = worker.read(*task_set(2, "2"))
    assert {stop.task for stop in only(e.StopTask, commands)} == {T0, T1}
    assert e.JoinGroup() in commands
    stopped = worker.stop_all(commands)
    assert only(e.StartTask, stopped) == []
    assert shown(stopped) == [("c-0", "UNASSIGNED"), ("c-1", "UNASSIGNED")]
    starts = only(e.StartTask, worker.join())
    assert {(start.task, start.task_config["v"]) for start in starts} == {(T0, "2"), (T1, "2")}


def test_a_task_that_stops_after_the_round_is_started_at_once() -> None:
    worker = running(1)
    commands = worker.read(*task_set(1, "2"))
    assert only(e.StartTask, worker.join()) == []
    assert len(only(e.StartTask, worker.stop_all(commands))) == 1


def test_a_task_is_not_told_twice_to_stop() -> None:
    worker = running(1)
    worker.read(*task_set(1, "2"))
    assert only(e.StopTask, worker.read(*task_set(1, "3"))) == []


def test_a_starting_task_is_stopped_when_it_has_started() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    [start] = only(e.StartTask, worker.join(work(T0)))
    assert only(e.StopTask, worker.read(*task_set(1, "2"))) == []
    assert only(e.StopTask, worker.take(e.TaskStarted(T0, start.run))) == [
        e.StopTask(T0, start.run)
    ]


def test_pausing_stops_the_tasks_without_a_round_and_resuming_starts_them() -> None:
    worker = running(2)
    paused = worker.read(TargetState("c", Target.PAUSED))
    assert e.JoinGroup() not in paused
    assert shown(paused) == [("c", "PAUSED")]
    assert shown(worker.stop_all(paused)) == [("c-0", "PAUSED"), ("c-1", "PAUSED")]
    resumed = worker.read(TargetState("c", Target.STARTED))
    assert len(only(e.StartTask, resumed)) == 2
    assert len(only(e.StartConnector, resumed)) == 1


def test_a_task_resumed_while_it_stops_starts_again() -> None:
    worker = running(1)
    paused = worker.read(TargetState("c", Target.PAUSED))
    worker.read(TargetState("c", Target.STARTED))
    assert len(only(e.StartTask, worker.stop_all(paused))) == 1


def test_stopping_a_connector_ends_its_tasks_without_a_status() -> None:
    worker = running(1)
    commands = worker.read(TaskCommit("c", 0), TargetState("c", Target.STOPPED))
    assert shown(commands) == [("c", "STOPPED")]
    assert shown(worker.stop_all(commands)) == []


def test_what_is_deleted_stops_and_gets_no_status_any_more() -> None:
    worker = running(2)
    commands = worker.read(ConnectorConfig("c", None), TargetState("c", None))
    assert len(only(e.StopTask, commands)) == 2
    assert shown(commands) == []
    assert shown(worker.stop_all(commands)) == []


def test_a_task_that_starts_or_fails_after_its_deletion_gets_no_status() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(2))
    first, second = only(e.StartTask, worker.join(work(T0, T1)))
    worker.read(ConnectorConfig("c", None))
    commands = worker.take(
        e.TaskStarted(first.task, first.run), e.TaskFailed(second.task, second.run, "boom")
    )
    assert shown(commands) == []


def test_a_failed_task_stays_failed_through_rounds_and_pauses() -> None:
    worker = running(1)
    failed = worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    assert shown(failed) == [("c-0", "FAILED")]
    assert shown(worker.join()) == []
    worker.read(TargetState("c", Target.PAUSED), TargetState("c", Target.STARTED))
    worker.join()
    assert phases(worker) == {"c-0": Phase.FAILED}


def test_a_failed_task_starts_when_its_configuration_changes() -> None:
    worker = running(1)
    worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    worker.read(*task_set(1, "2"))
    assert len(only(e.StartTask, worker.join())) == 1


@pytest.mark.parametrize("number", [1, 7, -1])
def test_a_task_that_a_connector_does_not_have_is_not_found(number: int) -> None:
    task = TaskId("c", number)
    [(_, result)] = answers(running(1).take(e.Requested("r", e.RestartTask(task))))
    assert result == e.Refused(404, f"Unknown task: {task}")


def test_restarting_a_task_is_shown_and_stops_it_at_once() -> None:
    worker = running(1)
    commands = worker.take(e.Requested("r", e.RestartTask(T0)))
    assert answers(commands) == [("r", e.Done())]
    assert shown(commands) == [("c-0", "RESTARTING")]
    assert len(only(e.StartTask, worker.stop_all(commands))) == 1


def test_restarting_a_failed_task_starts_it() -> None:
    worker = running(1)
    worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    assert len(only(e.StartTask, worker.take(e.Requested("r", e.RestartTask(T0))))) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_restarting_a_task_of_a_paused_connector_ends_in_a_pause(fails: bool) -> None:
    worker = running(1)
    if fails:
        worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    worker.stop_all(worker.read(TargetState("c", Target.PAUSED)))
    commands = worker.take(e.Requested("r", e.RestartTask(T0)))
    assert shown(commands) == [("c-0", "RESTARTING"), ("c-0", "PAUSED")]


def test_restarting_a_connector_starts_its_instance_only() -> None:
    worker = running(1)
    commands = worker.take(e.Requested("r", e.RestartConnector("c")))
    assert shown(commands) == [("c", "RESTARTING")]
    assert len(only(e.StartConnector, commands)) == 1
    assert only(e.StopTask, commands) == []


def test_restarting_a_paused_connector_shows_the_pause_again() -> None:
    worker = running(1)
    worker.read(TargetState("c", Target.PAUSED))
    commands = worker.take(e.Requested("r", e.RestartConnector("c")))
    assert shown(commands) == [("c", "RESTARTING"), ("c", "PAUSED")]


def test_a_restart_request_in_the_topic_reaches_what_it_names() -> None:
    worker = running(2)
    worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    commands = worker.read(RestartRequest("c", include_tasks=True, only_failed=True))
    assert [start.task for start in only(e.StartTask, commands)] == [T0]
    assert only(e.StopTask, commands) == []
    everything = worker.read(RestartRequest("c", include_tasks=True, only_failed=False))
    assert len(only(e.StartConnector, everything)) == 1
    assert [stop.task for stop in only(e.StopTask, everything)] == [T1]
    assert only(e.StopTask, worker.read(RestartRequest("c", False, False))) == []


def test_of_several_requests_the_widest_counts() -> None:
    worker = running(2)
    narrow, wide = RestartRequest("c", False, True), RestartRequest("c", True, False)
    commands = worker.read(wide, narrow)
    assert [stop.task for stop in only(e.StopTask, commands)] == [T0, T1]
    assert shown(commands).count(("c", "RESTARTING")) == 1


def known(worker: Worker, *states: State, version: str | None = None) -> None:
    """These are the known statuses of connector `c` and its tasks."""
    first, *tasks = (Status(state, ME, 1, None, version) for state in states)
    worker.status(
        ConnectorStatus("c", first),
        *(TaskStatus(TaskId("c", number), status) for number, status in enumerate(tasks)),
    )


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "connector", "tasks"),
    [
        (True, False, State.RESTARTING, [State.RESTARTING, State.RESTARTING]),
        (True, True, State.RUNNING, [State.RUNNING, State.RESTARTING]),
        (False, False, State.RESTARTING, [State.RUNNING, State.FAILED]),
        (False, True, State.RUNNING, [State.RUNNING, State.FAILED]),
    ],
)
def test_a_restart_of_several_is_written_for_all_workers_to_read(
    include_tasks: bool, only_failed: bool, connector: State, tasks: list[State]
) -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(2))
    known(worker, State.RUNNING, State.RUNNING, State.FAILED, version="4.2.0")
    commands = worker.take(e.Requested("r", e.RestartAll("c", include_tasks, only_failed)))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (RestartRequest("c", include_tasks, only_failed),)
    known(worker, *[State.UNASSIGNED] * 3)  # some worker was quicker than the answer
    now, *then = (Status(state, ME, 1, None, "4.2.0") for state in (connector, *tasks))
    restarting = e.Restarting(now, dict(enumerate(then)))
    assert answers(worker.take(e.Appended(append.ticket, 9))) == [
        ("r", e.Done(restarting=restarting))
    ]


def test_a_restart_without_a_status_is_not_found_once_it_is_written() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.RestartAll("c", True, False)))
    refused = e.Refused(404, "Status for connector c not found")
    assert answers(worker.store(commands)) == [("r", refused)]


# ── single questions ─────────────────────────────────────────────────────────────────────────────


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


# ── restarts by itself ───────────────────────────────────────────────────────────────────────────


def recovering(tasks: int = 1, **changes: object) -> Worker:
    policy = RestartPolicy(
        **{"causes": Causes.RETRIABLE, "backoff_ms": 1_000, "attempts": 3} | changes  # type: ignore[arg-type]
    )
    return running(tasks, of=replace(settings(), restarts=lambda config: policy))


def fail(worker: Worker, task: TaskId = T0, *, retriable: bool = True) -> str:
    """The task fails; the trace its status shows."""
    run = worker.state.running.tasks[task].run
    commands = worker.take(e.TaskFailed(task, run, "boom", retriable))
    [append] = only(e.AppendStatus, commands)
    assert isinstance(append.record, TaskStatus)
    status = append.record.status
    assert status is not None
    assert status.state is State.FAILED
    return status.trace or ""


def test_a_failed_task_is_restarted_after_a_wait_that_doubles() -> None:
    worker = recovering()
    for attempt, most in enumerate((1_000, 2_000, 4_000), 1):
        assert f"restart {attempt} of 3" in fail(worker)
        due = next_wakeup(worker.state)
        assert due is not None
        assert most * 0.8 <= due - worker.now <= most
        assert worker.tick(due - worker.now - 1) == []
        commands = worker.tick(1)
        assert shown(commands) == [("c-0", "RESTARTING")]
        worker.start_all(commands)
        assert phases(worker) == {"c-0": Phase.RUNNING}
    assert "restarted 3 times" in fail(worker)
    assert worker.tick(3_500_000) == []


def test_what_failed_long_ago_does_not_count() -> None:
    worker = recovering(attempts=1, window_ms=60_000)
    fail(worker)
    worker.start_all(worker.tick(1_000))
    worker.tick(60_000)
    assert "restart 1 of 1" in fail(worker)


@pytest.mark.parametrize(
    ("causes", "retriable", "restarts"),
    [
        (Causes.OFF, True, False),
        (Causes.RETRIABLE, False, False),
        (Causes.RETRIABLE, True, True),
        (Causes.ANY, False, True),
    ],
)
def test_the_policy_says_which_failures_are_followed_by_a_restart(
    causes: Causes, retriable: bool, restarts: bool
) -> None:
    worker = recovering(causes=causes)
    trace = fail(worker, retriable=retriable)
    assert (trace == "boom") is not restarts
    assert bool(only(e.StartTask, worker.tick(1_000))) is restarts


def test_a_task_that_somebody_restarts_is_not_restarted_again() -> None:
    worker = recovering()
    fail(worker)
    worker.start_all(worker.take(e.Requested("r", e.RestartTask(T0))))
    assert worker.tick(10_000) == []


def test_a_failed_task_of_a_paused_connector_waits_for_the_resumption() -> None:
    worker = recovering()
    fail(worker)
    worker.read(TargetState("c", Target.PAUSED))
    assert worker.tick(10_000) == []
    worker.read(TargetState("c", Target.STARTED))
    assert len(only(e.StartTask, worker.tick(10_000))) == 1


def test_a_failed_task_that_moves_away_is_its_new_owners() -> None:
    worker = recovering()
    fail(worker)
    worker.join(NO_WORK, revoked=work(T0))
    assert worker.state.running.recoveries == {}
    assert shown(worker.tick(10_000)) == []


def test_a_connector_that_could_not_plan_is_asked_again() -> None:
    worker = recovering()
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"name": "c", "v": "2"})))
    worker.take(e.ConnectorPlanned("c", start.run, (), "the database is away", retriable=True))
    commands = worker.tick(1_000)
    assert shown(commands) == [("c", "RESTARTING")]
    assert len(only(e.StartConnector, commands)) == 1


# ── connectors that ask for other tasks ──────────────────────────────────────────────────────────


def watching() -> Worker:
    """A worker whose connector `c` wants to be asked for its tasks every second."""
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


def test_reports_of_an_older_run_are_ignored() -> None:
    worker = running(1)
    old = worker.state.running.tasks[T0].run
    [start] = only(e.StartTask, worker.stop_all(worker.take(e.Requested("r", e.RestartTask(T0)))))
    assert start.run != old
    before = worker.state
    late = (e.TaskStarted(T0, old), e.TaskFailed(T0, old, "boom"), e.TaskStopped(T0, old))
    assert worker.take(*late) == []
    assert worker.state == before


def test_a_task_that_failed_before_its_start_was_reported_stays_failed() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    [start] = only(e.StartTask, worker.join(work(T0)))
    commands = worker.take(e.TaskFailed(T0, start.run, "boom"), e.TaskStarted(T0, start.run))
    assert shown(commands) == [("c-0", "FAILED")]
    assert phases(worker) == {"c-0": Phase.FAILED}


def test_a_failure_while_a_task_stops_is_no_failure() -> None:
    worker = running(1)
    worker.read(TargetState("c", Target.PAUSED))
    assert shown(worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))) == []


def test_every_phase_has_its_moves() -> None:
    connectors_only = {Phase.STOPPED}
    assert set(PHASE_MOVES) == set(Phase) - connectors_only
    assert PHASE_MOVES[Phase.STOPPING] == frozenset()
    assert set(CONNECTOR_MOVES) == set(Phase) - {Phase.WAITING, Phase.FENCING, Phase.STOPPING}


@pytest.mark.parametrize("moves", [PHASE_MOVES, CONNECTOR_MOVES], ids=["tasks", "connectors"])
def test_a_phase_follows_another_only_as_the_table_says(
    moves: Mapping[Phase, frozenset[Phase]],
) -> None:
    for before, after in product(moves, Phase):
        runs = Runs({"it": Run(1, before)}, moves)
        if after is before or after in moves[before]:
            runs.set("it", Run(2, after))
        else:
            with pytest.raises(AssertionError, match="goes from"):
                runs.set("it", Run(2, after))


def test_a_membership_moves_only_as_the_table_says() -> None:
    member = Member("m1", 1, "sessioned", "m1", MY_URL)
    phases = [
        Replaying(),
        AwaitingSpark(),
        Joining(),
        Syncing(member, Assignment("m1", MY_URL, 1)),
        Stable(member),
        BackingOff(Joining(member), 1, 1),
    ]
    assert {type(phase) for phase in phases} == set(GROUP_MOVES)
    for before, after in product(phases, phases):
        if type(after) in GROUP_MOVES[type(before)]:
            assert Membership(before).enter(after).phase == after
        else:
            with pytest.raises(AssertionError, match="goes from"):
                Membership(before).enter(after)


def test_a_rebalance_that_completes_while_a_worker_backs_off_does_not_end_that() -> None:
    worker = running(1)
    at = worker.state.cluster.offset
    worker.join(work(T0), offset=at + 1)
    assert only(e.BackOff, worker.take(e.ConfigEndReached(in_time=False)))
    worker.join(work(T0))
    assert isinstance(worker.state.membership.phase, BackingOff)
    assert worker.state.membership.assigned == work("c", T0)
    assert next_wakeup(worker.state) is not None


def test_a_worker_that_backs_off_begins_with_nothing_at_another_offset_than_the_leaders() -> None:
    worker = Worker()
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(1))
    worker.take(e.LogsReady())
    worker.join(offset=worker.state.cluster.offset + 1)
    assert only(e.BackOff, worker.take(e.ConfigEndReached(in_time=False)))
    commands = worker.join(work("c", T0), offset=worker.state.cluster.offset - 1)
    assert not only(e.StartConnector, commands)
    assert not only(e.StartTask, commands)


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_joins_others_once_spark_is_there() -> None:
    worker = Worker(spark=False)
    assert worker.take(e.LogsReady(others=True)) == []
    assert worker.read(ConnectorConfig("c", CONFIG)) == []  # no reason to join before
    assert worker.take(e.SparkReady()) == [e.JoinGroup()]


def test_a_worker_that_has_spark_joins_others_at_once() -> None:
    assert Worker().take(e.LogsReady(others=True)) == [e.JoinGroup()]


def test_a_worker_that_is_alone_does_not_wait_for_spark() -> None:
    assert Worker(spark=False).take(e.LogsReady()) == [e.JoinGroup()]


def test_a_worker_joins_when_it_has_read_its_topics_and_not_before() -> None:
    worker = Worker()
    assert worker.read(ConnectorConfig("c", CONFIG)) == []
    assert worker.take(e.LogsReady()) == [e.JoinGroup()]


def test_revoked_tasks_stop_are_reported_until_then_and_lead_to_another_round() -> None:
    worker = running(2)
    commands = worker.join(revoked=work(T1))
    assert [stop.task for stop in only(e.StopTask, commands)] == [T1]
    assert e.JoinGroup() not in commands
    assert worker.told().running == work("c", T1, T0)  # what goes comes first
    stopped = worker.stop_all(commands)
    assert e.JoinGroup() in stopped
    assert shown(stopped) == [("c-1", "UNASSIGNED")]
    assert worker.told().running == work("c", T0)


def test_a_revoked_connector_leads_to_another_round_at_once() -> None:
    worker = running(1)
    commands = worker.join(revoked=work("c"))
    assert shown(commands) == [("c", "UNASSIGNED")]
    assert e.JoinGroup() in commands


def test_what_was_never_held_is_given_back_by_another_round() -> None:
    # Balancing may revoke what the same round has given; the leader waits for the rejoin.
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    assert e.JoinGroup() in worker.join(revoked=work(T0))
    assert worker.told().running == NO_WORK


def test_what_has_to_stop_is_told_so_before_anything_starts() -> None:
    worker = running(2)
    worker.join(revoked=work(T1))
    worker.read(ConnectorConfig("d", CONFIG), *task_set(1, connector="d"))
    commands = worker.join(work(TaskId("d", 0)), revoked=work(T0))
    kinds = [type(c) for c in commands if isinstance(c, e.StopTask | e.StartTask)]
    assert kinds == [e.StopTask, e.StartTask]


def test_a_revoked_task_given_back_while_it_stops_starts_here_again() -> None:
    worker = running(1)
    commands = worker.join(revoked=work(T0))
    worker.join(work(T0))
    assert worker.state.membership.handing_over == NO_WORK
    assert len(only(e.StartTask, worker.stop_all(commands))) == 1


def test_a_worker_that_is_behind_reads_on_before_it_starts_anything() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    offset = worker.state.cluster.offset
    commands = worker.join(work(T0), offset=offset + 1)
    assert only(e.StartTask, commands) == []
    assert only(e.ReadConfigToEnd, commands) == [e.ReadConfigToEnd(3_000)]
    following = worker.read(TargetState("other", None))
    assert only(e.StartTask, following) == []  # the reading still goes on
    assert len(only(e.StartTask, worker.take(e.ConfigEndReached(in_time=True)))) == 1


def test_a_worker_that_cannot_read_on_in_time_leaves_until_it_can() -> None:
    worker = running(1)
    worker.join(offset=9)
    assert worker.take(e.ConfigEndReached(in_time=False)) == [e.BackOff()]
    assert worker.read(ConnectorConfig("d", CONFIG)) == []  # no reason to join now
    waits = []
    for _ in range(4):
        due = next_wakeup(worker.state)
        assert due is not None
        waits.append(due - worker.now)
        assert worker.tick(waits[-1]) == [e.ReadConfigToEnd(3_000)]
        assert worker.take(e.ConfigEndReached(in_time=False)) == []
    assert waits == [6_000, 7_500, 10_000, 15_000]
    assert phases(worker) == {"c-0": Phase.RUNNING}
    worker.tick(30_000)
    assert worker.take(e.ConfigEndReached(in_time=True)) == [e.JoinGroup()]


def test_a_worker_that_cannot_read_on_for_long_gives_up_what_it_runs() -> None:
    worker = running(1)
    worker.join(offset=9)
    worker.take(e.ConfigEndReached(in_time=False))
    for _ in range(4):
        worker.tick(30_000)
        worker.take(e.ConfigEndReached(in_time=False))
    worker.tick(30_000)
    commands = worker.take(e.ConfigEndReached(in_time=False))
    assert [stop.task for stop in only(e.StopTask, commands)] == [T0]


def test_a_member_of_an_eager_group_stays_out_as_long_as_its_setting_says() -> None:
    worker = Worker(settings(unsync_backoff_ms=40_000))
    worker.protocol = "default"
    worker.take(e.LogsReady())
    worker.join(offset=9)
    assert worker.take(e.ConfigEndReached(in_time=False)) == [e.BackOff()]
    assert worker.tick(39_999) == []
    assert worker.tick(1) == [e.ReadConfigToEnd(3_000)]


def test_a_worker_that_ends_up_elsewhere_than_the_group_joins_again() -> None:
    worker = leader()
    worker.join(offset=9)
    assert worker.take(e.ConfigEndReached(in_time=True)) == [e.JoinGroup()]


def test_a_worker_that_is_ahead_joins_again_and_starts_nothing() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    commands = worker.join(work(T0), offset=worker.state.cluster.offset - 1)
    assert only(e.StartTask, commands) == []
    assert e.JoinGroup() in commands
    assert worker.told().running == work(T0)  # or it would be held back as lost


def test_a_worker_that_is_ahead_obeys_revocations_all_the_same() -> None:
    worker = running(1)
    commands = worker.join(revoked=work(T0), offset=worker.state.cluster.offset - 1)
    assert [stop.task for stop in only(e.StopTask, commands)] == [T0]


def test_after_a_mismatch_everybody_reads_on_and_joins_again() -> None:
    worker = running(1, leads=False)
    commands = worker.join(leads=False, error=AssignmentError.CONFIG_MISMATCH)
    assert commands[-1] == e.ReadConfigToEnd(3_000)
    assert worker.take(e.ConfigEndReached(in_time=True)) == [e.JoinGroup()]
    assert worker.told().running == work("c", T0)


def test_what_an_earlier_round_offered_is_void_once_the_next_begins() -> None:
    worker = leader()
    worker.join(offset=9)
    worker.take(e.MetadataWanted("r"))
    assert worker.state.membership.offered is None
    assert worker.take(e.ConfigEndReached(in_time=True)) == []


def test_held_back_work_is_asked_for_when_its_delay_ends() -> None:
    worker = leader()
    worker.join(delay_ms=5_000)
    assert next_wakeup(worker.state) == worker.now + 5_000
    assert worker.tick(4_999) == []
    assert worker.tick(1) == [e.JoinGroup()]
    assert next_wakeup(worker.state) is None


def test_changes_without_new_work_lead_to_no_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    assert e.JoinGroup() not in worker.read(ConnectorConfig("c", {"v": "2"}))
    assert e.JoinGroup() in worker.read(ConnectorConfig("d", {"v": "2"}))
    assert e.JoinGroup() in worker.read(TaskCommit("c", 0))
    assert e.JoinGroup() in worker.read(ConnectorConfig("d", None))


def test_without_a_coordinator_everything_stops_and_is_then_reported_as_not_running() -> None:
    worker = running(2)
    commands = worker.take(e.CoordinatorLost())
    assert len(only(e.StopTask, commands)) == 2
    assert e.JoinGroup() in commands  # the membership may outlive the loss
    assert worker.take(e.MetadataWanted("r")) == []  # not told before everything has stopped
    [tell] = only(e.TellMetadata, worker.stop_all(commands))
    assert tell.metadata.running == NO_WORK


def test_without_a_coordinator_requests_wait() -> None:
    worker = leader()
    worker.take(e.CoordinatorLost())
    assert answers(worker.take(e.Requested("r", e.Ping()))) == []
    assert answers(worker.join()) == [("r", e.Done())]


def test_in_an_eager_group_everything_stops_before_a_round() -> None:
    worker = running(1)
    worker.protocol = "default"
    worker.join(work("c", T0))
    commands = worker.take(e.MetadataWanted("r"))
    assert only(e.TellMetadata, commands) == []
    [tell] = only(e.TellMetadata, worker.stop_all(commands))
    assert tell.metadata.running == NO_WORK
    data = encode_assignment(Assignment("m1", MY_URL, worker.state.cluster.offset, work(T0)), 0)
    assert len(only(e.StartTask, worker.take(e.Joined(9, "m1", "default", data)))) == 1


# ── leading ──────────────────────────────────────────────────────────────────────────────────────


def share_out(worker: Worker, **members: MemberMetadata) -> dict[str, Assignment]:
    generation = worker.generation + 1
    encoded = {name: encode_metadata(metadata, 2) for name, metadata in members.items()}
    commands = worker.take(e.AssignmentWanted("r", "m1", "sessioned", generation, encoded))
    [tell] = only(e.TellAssignment, commands)
    return {name: decode_assignment(data) for name, data in tell.shares.items()}


def test_a_leader_shares_out_all_work_at_one_offset() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(2))
    offset = worker.state.cluster.offset
    shares = share_out(
        worker, m1=MemberMetadata(MY_URL, offset), m2=MemberMetadata(OTHER_URL, offset - 1)
    )
    assert {share.config_offset for share in shares.values()} == {offset}
    assert shares["m1"].work.plus(shares["m2"].work) == work("c", T0, T1)


def test_a_leader_that_is_behind_lets_the_round_fail_and_reads_on() -> None:
    worker = leader()
    encoded = {"m1": encode_metadata(MemberMetadata(MY_URL, 99), 2)}
    commands = worker.take(e.AssignmentWanted("r", "m1", "sessioned", 2, encoded))
    assert len(only(e.ReadConfigToEnd, commands)) == 1
    [tell] = only(e.TellAssignment, commands)
    share = decode_assignment(tell.shares["m1"])
    assert (share.error, share.config_offset) == (AssignmentError.CONFIG_MISMATCH, 99)


def test_a_leader_sends_a_restart_to_the_owner() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    offset = worker.state.cluster.offset
    held = Assignment("m1", MY_URL, offset, work("c", T0))
    share_out(worker, m1=MemberMetadata(MY_URL, offset), m2=MemberMetadata(OTHER_URL, offset, held))
    worker.join()
    for operation in (e.RestartTask(T0), e.RestartConnector("c")):
        commands = worker.take(e.Requested("r", operation))
        assert answers(commands) == [("r", e.Elsewhere(OTHER_URL))]


def test_a_leader_that_does_not_know_the_owner_says_so() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.RestartConnector("c")))
    assert answers(commands) == [("r", e.Elsewhere(None))]


def test_only_the_leader_makes_a_session_key() -> None:
    worker = Worker()
    worker.take(e.LogsReady())
    assert only(e.MakeSessionKey, worker.join(leads=False)) == []
    assert len(only(e.MakeSessionKey, worker.join())) == 1


def test_a_session_key_is_made_once_and_again_when_its_time_is_over() -> None:
    worker = Worker(settings(key_ttl_ms=10_000))
    worker.take(e.LogsReady())
    worker.join()
    assert worker.tick(1) == []
    commands = worker.take(e.SessionKeyMade(b"k", "HmacSHA256"))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (SessionKey(b"k", "HmacSHA256", worker.now),)
    assert worker.tick(1) == []
    worker.store(commands)
    made = worker.now - 1
    assert next_wakeup(worker.state) == made + 10_000
    assert worker.tick(9_998) == []
    assert worker.tick(1) == [e.MakeSessionKey()]
    assert worker.tick(1) == []


def test_a_session_key_that_is_not_stored_is_made_again_a_little_later() -> None:
    worker = Worker()
    worker.take(e.LogsReady())
    worker.join()
    [append] = only(e.AppendConfig, worker.take(e.SessionKeyMade(b"k", "HmacSHA256")))
    assert worker.take(e.Appended(append.ticket, -1, "no broker")) == []
    assert next_wakeup(worker.state) == worker.now + 250
    assert worker.tick(250) == [e.MakeSessionKey()]


@pytest.mark.parametrize("protocol", ["compatible", "default"])
def test_a_group_that_does_not_sign_needs_no_key_and_no_wakeup_for_it(protocol: str) -> None:
    worker = Worker()
    worker.read(replace(ANY_KEY, created_ms=0))
    worker.take(e.LogsReady())
    worker.protocol = protocol
    assert only(e.MakeSessionKey, worker.join()) == []
    assert next_wakeup(worker.state) is None


# ── statuses ─────────────────────────────────────────────────────────────────────────────────────


def a_status(state: State, worker: str, generation: int) -> Status:
    return Status(state, worker, generation)


@pytest.mark.parametrize(("generation", "written"), [(1, True), (2, False)])
def test_unassigned_and_failed_do_not_overwrite_a_newer_status(
    generation: int, written: bool
) -> None:
    worker = running(2)
    newer = a_status(State.RUNNING, OTHER, generation)
    worker.status(TaskStatus(T0, newer), TaskStatus(T1, newer))
    failed = worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    stopped = worker.stop_all(worker.take(e.StopRequested()))
    assert (("c-0", "FAILED") in shown(failed)) is written
    assert (("c-1", "UNASSIGNED") in shown(stopped)) is written


def test_running_is_always_written() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    worker.status(TaskStatus(T0, a_status(State.RUNNING, OTHER, 99)))
    assert shown(worker.start_all(worker.join(work(T0)))) == [("c-0", "RUNNING")]


def test_an_owner_corrects_what_a_worker_said_that_had_missed_a_round() -> None:
    worker = running(1)
    worker.join()
    old = a_status(State.UNASSIGNED, OTHER, 1)
    assert shown(worker.status(ConnectorStatus("c", old))) == [("c", "RUNNING")]
    assert shown(worker.status(TaskStatus(T0, replace(old, state=State.PAUSED)))) == [
        ("c-0", "RUNNING")
    ]
    newer = a_status(State.UNASSIGNED, OTHER, 99)
    assert shown(worker.status(ConnectorStatus("c", newer))) == []


def test_an_owner_corrects_a_late_deletion_of_its_statuses() -> None:
    worker = running(1)
    assert shown(worker.status(TaskStatus(T0, None))) == [("c-0", "RUNNING")]
    assert shown(worker.status(ConnectorStatus("c", None))) == [
        ("c", "RUNNING"),
        ("c-0", "RUNNING"),
    ]
    assert shown(worker.status(ConnectorStatus("other", None))) == []


def test_an_owner_that_was_away_corrects_statuses_when_it_is_back() -> None:
    worker = running(1)
    meanwhile = a_status(State.PAUSED, OTHER, 5)
    assert shown(worker.status(ConnectorStatus("c", meanwhile), TaskStatus(T0, meanwhile))) == []
    worker.generation = 6
    assert shown(worker.join()) == [("c", "RUNNING"), ("c-0", "RUNNING")]


def test_the_leader_forgets_the_statuses_of_what_is_gone() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    status = a_status(State.RUNNING, OTHER, 1)
    worker.status(
        ConnectorStatus("gone", status),
        TaskStatus(TaskId("gone", 0), status),
        TopicStatus("t", "gone", TopicUse(0, 1)),
        ConnectorStatus("c", status),
        TaskStatus(T0, status),
        TaskStatus(T1, status),
    )
    assert shown(worker.join()) == [("c-1", None), ("t", None), ("gone-0", None), ("gone", None)]


def test_a_follower_leaves_statuses_of_what_is_gone_to_the_leader() -> None:
    worker = follower()
    worker.status(ConnectorStatus("gone", a_status(State.RUNNING, OTHER, 1)))
    assert shown(worker.join(leads=False)) == []


def test_a_topic_is_noted_once_and_not_for_a_deleted_connector() -> None:
    worker = running(1)
    assert shown(worker.take(e.TopicUsed(T0, "t"))) == [("t", "used")]
    worker.status(TopicStatus("t", "c", TopicUse(0, worker.now)))
    assert worker.take(e.TopicUsed(T0, "t")) == []
    worker.read(ConnectorConfig("c", None))
    assert worker.take(e.TopicUsed(T0, "u")) == []


# ── ending ───────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_that_ends_stops_everything_and_leaves_once() -> None:
    worker = running(2)
    commands = worker.take(e.StopRequested())
    assert ("c", "UNASSIGNED") in shown(commands)
    first, second = only(e.StopTask, commands)
    assert e.LeaveGroup() not in worker.take(e.TaskStopped(first.task, first.run))
    last = worker.take(e.TaskStopped(second.task, second.run))
    assert shown(last) == [(str(second.task), "UNASSIGNED")]
    assert last[-1] == e.LeaveGroup()
    assert worker.take(e.Tick(), e.StopRequested()) == []


def test_a_worker_that_runs_nothing_leaves_at_once() -> None:
    assert Worker().take(e.StopRequested()) == [e.LeaveGroup()]


def test_a_worker_that_ends_waits_for_its_writes() -> None:
    worker = leader()
    commands = worker.take(e.Requested("r", e.PutConfig("c", CONFIG)))
    assert worker.take(e.StopRequested()) == []
    last = worker.store(commands)
    assert answers(last) == [("r", e.Done(created=True))]
    assert last[-1] == e.LeaveGroup()


def test_a_worker_that_ends_joins_no_round_and_starts_nothing() -> None:
    worker = running(1)
    worker.take(e.StopRequested())
    assert e.JoinGroup() not in worker.read(*task_set(3, "2"))
    assert only(e.StartTask, worker.join(work(T2))) == []
    assert worker.told().running == work("c", T0, T2)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_settled_worker_sleeps_until_its_key_is_old() -> None:
    worker = leader()
    assert next_wakeup(worker.state) == ANY_KEY.created_ms + 3_600_000
    assert next_wakeup(follower().state) is None


def test_one_report_among_a_thousand_tasks_is_cheap() -> None:
    worker = running(1_000)
    run = worker.state.running.tasks[T0].run
    spent = []
    for _ in range(5):
        start = time.process_time()
        step(worker.state, e.TaskFailed(T0, run, "boom"), worker.now)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.005  # 0.1 ms on an idle machine
