"""Exactly once in the herder: the leader's claim, rounds of fencing, and starts that wait for them
(kafka-connect.md §4.2, §4.8, §5.7; KIP-618)."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest

from penstock.cluster import events as e
from penstock.cluster.fencing import GIVE_UP_MS, Need, need
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import Phase
from penstock.cluster.herder.state import HerderState, NoAccess, Settings, next_wakeup
from penstock.cluster.protocol import (
    NO_WORK,
    VERSIONS,
    Assignment,
    Work,
    encode_assignment,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    RawProps,
    SessionKey,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
    TaskStatus,
    encode_config,
)
from penstock.cluster.state import ClusterState, fold_all
from penstock.ids import TaskId

ME, MY_URL, OTHER_URL = "me:8083", "http://me:8083/", "http://other:8083/"
CONFIG: RawProps = {"name": "c", "kind": "source"}
SINK: RawProps = {"name": "s", "kind": "sink"}
KEY = SessionKey(b"k", "HmacSHA256", 1_000_000)
T0, T1, T2 = (TaskId("c", number) for number in range(3))
NEW_SET = "Failed to complete zombie fencing because a new set of task configs was generated"

C = TypeVar("C", bound=e.Command)


def settings(**changes: bool) -> Settings:
    return replace(
        Settings(MY_URL, ME, is_source=lambda config: config.get("kind") == "source"),
        **{"transactional": True, "exactly_once": True, **changes},
    )


class Worker:
    """A herder of an exactly-once cluster, and the config topic it reads."""

    def __init__(self, of: Settings | None = None) -> None:
        self.state = HerderState(of or settings())
        self.now = 1_000_000
        self.log: list[ConfigRecord] = []
        self.generation = 0
        self.protocol = "sessioned"
        self.take(e.SparkReady())

    def take(self, *events: e.Event) -> list[e.Command]:
        commands: list[e.Command] = []
        for event in events:
            self.state, ordered = step(self.state, event, self.now)
            commands += ordered
        return commands

    def read(self, *records: ConfigRecord) -> list[e.Command]:
        start = len(self.log)
        self.log += records
        entries = tuple((start + n, *encode_config(record)) for n, record in enumerate(records))
        return self.take(e.ConfigRead(entries))

    def join(
        self, given: Work = NO_WORK, *, revoked: Work = NO_WORK, leader: str = "m1"
    ) -> list[e.Command]:
        self.generation += 1
        url = MY_URL if leader == "m1" else OTHER_URL
        assignment = Assignment(leader, url, self.state.cluster.offset, given, revoked)
        data = encode_assignment(assignment, VERSIONS[self.protocol])
        return self.take(
            e.MetadataRequested("metadata"), e.Joined(self.generation, "m1", self.protocol, data)
        )

    def claim(self, commands: list[e.Command]) -> list[e.Command]:
        [claim] = only(e.AcquireWriteAccess, commands)
        return self.take(e.WriteAccessAcquired(claim.ticket))

    def store(self, commands: list[e.Command]) -> list[e.Command]:
        """Stores appended records and reads them back; returns what follows."""
        following: list[e.Command] = []
        for append in only(e.AppendConfig, commands):
            offset = len(self.log) + len(append.records) - 1
            following += self.take(e.Appended(append.ticket, offset))
            following += self.read(*append.records)
        return following

    def reached_end(self, commands: list[e.Command], *, in_time: bool = True) -> list[e.Command]:
        [read] = [each for each in only(e.ReadConfigToEnd, commands) if each.ticket]
        return self.take(e.ConfigEndReached(in_time, read.ticket))

    def fenced(self, commands: list[e.Command], error: str | None = None) -> list[e.Command]:
        [fence] = only(e.FenceProducers, commands)
        return self.take(e.ProducersFenced(fence.connector, fence.ticket, error))

    def tick(self, ms: int) -> list[e.Command]:
        self.now += ms
        return self.take(e.Tick())

    def phase(self, task: TaskId = T0) -> Phase | None:
        run = self.state.running.tasks.get(task)
        return run and run.phase


def only(kind: type[C], commands: list[e.Command]) -> list[C]:
    return [command for command in commands if isinstance(command, kind)]


def answers(commands: list[e.Command]) -> list[tuple[object, e.Result]]:
    return [(answer.reply, answer.result) for answer in only(e.Answer, commands)]


def task_set(count: int, version: str = "1", connector: str = "c") -> list[ConfigRecord]:
    tasks = [TaskConfig(TaskId(connector, n), {"v": version}) for n in range(count)]
    return [*tasks, TaskCommit(connector, count)]


def work(*items: str | TaskId) -> Work:
    return Work(
        tuple(item for item in items if isinstance(item, str)),
        tuple(item for item in items if isinstance(item, TaskId)),
    )


def leader(*records: ConfigRecord, of: Settings | None = None) -> Worker:
    """Leads a settled group, may write, and runs nothing."""
    worker = Worker(of)
    worker.read(KEY, *records)
    worker.take(e.LogsReady())
    worker.claim(worker.join())
    return worker


def follower(*records: ConfigRecord) -> Worker:
    worker = Worker()
    worker.read(KEY, *records)
    worker.take(e.LogsReady())
    worker.join(leader="m2")
    return worker


ONE, TWO, THREE = task_set(1), task_set(2), task_set(3)
NEEDS: list[tuple[str, list[ConfigRecord], Need | None]] = [
    ("nothing is configured", [], None),
    ("the first set ever", THREE, Need(0, 3)),
    ("a set that was recorded", [*THREE, TaskFencing("c", 3)], None),
    ("a larger set", [*ONE, TaskFencing("c", 1), *THREE], Need(1, 3)),
    ("a smaller set", [*THREE, TaskFencing("c", 3), *ONE], Need(3, 1)),
    ("one task after one task", [*ONE, TaskFencing("c", 1), *ONE], Need(0, 1)),
    ("as many tasks", [*TWO, TaskFencing("c", 2), *TWO], Need(2, 2)),
    ("two sets since the last record", [*TWO, TaskFencing("c", 2), *THREE, *ONE], Need(2, 1)),
    ("no tasks any more", [*TWO, TaskFencing("c", 2), TaskCommit("c", 0)], Need(2, 0)),
]


@pytest.mark.parametrize(("what", "records", "needed"), NEEDS, ids=[row[0] for row in NEEDS])
def test_what_a_round_has_to_do(
    what: str, records: list[ConfigRecord], needed: Need | None
) -> None:
    of = [ConnectorConfig("c", CONFIG), *records]
    cluster, _ = fold_all(ClusterState(), enumerate(of))
    assert need(cluster, "c") == needed


def test_a_leader_claims_the_config_topic_before_it_serves_any_write() -> None:
    worker = Worker()
    worker.take(e.LogsReady())
    commands = worker.join()
    commands += worker.take(e.Requested("r", e.CreateConnector("c", CONFIG)))
    assert only(e.AppendConfig, commands) == []
    assert only(e.MakeSessionKey, commands) == []
    following = worker.claim(commands)
    [append] = only(e.AppendConfig, following)
    assert append.as_leader
    assert append.records == (ConnectorConfig("c", CONFIG),)
    assert len(only(e.MakeSessionKey, following)) == 1


def test_a_follower_claims_nothing() -> None:
    assert only(e.AcquireWriteAccess, Worker().take(e.LogsReady())) == []
    assert follower().state.membership.leadership.access == NoAccess(1_000_000)


def test_a_claim_that_fails_is_tried_again_after_250_ms() -> None:
    worker = Worker()
    worker.read(KEY)
    worker.take(e.LogsReady())
    [claim] = only(e.AcquireWriteAccess, worker.join())
    assert worker.take(e.WriteAccessAcquired(claim.ticket, "no coordinator")) == []
    assert next_wakeup(worker.state) == worker.now + 250
    assert worker.tick(249) == []
    [again] = only(e.AcquireWriteAccess, worker.tick(1))
    worker.take(e.WriteAccessAcquired(again.ticket))
    assert worker.state.may_write()


def test_a_leader_that_stays_leader_keeps_its_claim() -> None:
    worker = leader()
    assert only(e.AcquireWriteAccess, worker.join()) == []
    assert worker.state.may_write()


def test_a_leader_that_was_away_claims_again() -> None:
    worker = leader()
    worker.take(e.CoordinatorLost())
    assert not worker.state.may_write()
    assert len(only(e.AcquireWriteAccess, worker.join())) == 1


def test_an_answer_to_a_claim_from_before_is_ignored() -> None:
    worker = Worker()
    worker.read(KEY)
    worker.take(e.LogsReady())
    [claim] = only(e.AcquireWriteAccess, worker.join())
    worker.join(leader="m2")
    worker.take(e.WriteAccessAcquired(claim.ticket))
    assert not worker.state.may_write()


def test_a_leader_that_was_fenced_refuses_the_write_and_claims_again() -> None:
    worker = leader()
    [append] = only(e.AppendConfig, worker.take(e.Requested("r", e.PutConfig("c", CONFIG))))
    commands = worker.take(e.Appended(append.ticket, -1, "fenced", fenced=True))
    [(reply, result)] = answers(commands)
    assert reply == "r"
    assert result == e.Refused(
        500,
        "Failed to write to config topic; this may be due to a transient error and the request "
        "can be safely retried: fenced",
    )
    later = worker.take(e.Requested("next", e.PutConfig("c", CONFIG)))
    assert only(e.AppendConfig, later) == []
    assert len(only(e.AppendConfig, worker.claim(commands))) == 1


def test_two_writes_that_fail_for_one_reason_lead_to_one_claim() -> None:
    worker = leader()
    appends = [
        append
        for name in ("a", "b")
        for append in only(
            e.AppendConfig, worker.take(e.Requested(name, e.PutConfig(name, CONFIG)))
        )
    ]
    commands = worker.take(
        *(e.Appended(append.ticket, -1, "fenced", fenced=True) for append in appends)
    )
    assert len(only(e.AcquireWriteAccess, commands)) == 1


def test_target_states_are_in_no_transaction_and_need_no_claim() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    worker.take(e.CoordinatorLost())
    worker.join()  # claimed, but not answered yet
    [append] = only(e.AppendConfig, worker.take(e.Requested("r", e.SetTarget("c", Target.PAUSED))))
    assert not append.as_leader
    follows = follower(ConnectorConfig("c", CONFIG))
    [append] = only(e.AppendConfig, follows.take(e.Requested("r", e.SetTarget("c", Target.PAUSED))))
    assert not append.as_leader


def test_a_stop_commits_no_tasks_as_leader_and_then_writes_the_target_plainly() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.SetTarget("c", Target.STOPPED)))
    [first] = only(e.AppendConfig, commands)
    [second] = only(e.AppendConfig, worker.store(commands))
    assert (first.records, first.as_leader) == ((TaskCommit("c", 0),), True)
    assert (second.records, second.as_leader) == ((TargetState("c", Target.STOPPED),), False)


@pytest.mark.parametrize(
    "operation",
    [
        e.CreateConnector("new", CONFIG, Target.PAUSED),
        e.PutConfig("c", CONFIG),
        e.DeleteConnector("c"),
        e.PutTasks("c", ({"v": "1"},)),
    ],
)
def test_what_only_leaders_write_is_in_a_transaction(operation: e.Operation) -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    [append] = only(e.AppendConfig, worker.take(e.Requested("r", operation)))
    assert append.as_leader


def test_without_exactly_once_nothing_is_claimed_and_nothing_is_in_a_transaction() -> None:
    worker = Worker(settings(transactional=False, exactly_once=False))
    worker.read(KEY)
    worker.take(e.LogsReady())
    assert only(e.AcquireWriteAccess, worker.join()) == []
    [append] = only(e.AppendConfig, worker.take(e.Requested("r", e.PutConfig("c", CONFIG))))
    assert not append.as_leader


def asked(worker: Worker, reply: str = "r") -> list[e.Command]:
    return worker.take(e.Requested(reply, e.FenceZombies("c")))


def test_a_round_reads_fences_reads_again_and_records() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO, TaskFencing("c", 2), *THREE)
    reading = asked(worker)
    assert only(e.ReadConfigToEnd, reading)[0].timeout_ms == 3_000
    fencing = worker.reached_end(reading)
    [fence] = only(e.FenceProducers, fencing)
    assert (fence.connector, fence.config, fence.tasks) == ("c", CONFIG, 2)
    checking = worker.fenced(fencing)
    writing = worker.reached_end(checking)
    [append] = only(e.AppendConfig, writing)
    assert (append.records, append.as_leader) == ((TaskFencing("c", 3),), True)
    assert answers(reading + fencing + checking + writing) == []
    assert answers(worker.store(writing)) == [("r", e.Done())]
    assert worker.state.fencing.rounds == {}
    assert worker.state.cluster.pending_fencing == frozenset()


def test_the_first_set_is_recorded_and_nothing_is_fenced() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *THREE)
    writing = worker.reached_end(asked(worker))
    assert only(e.FenceProducers, writing) == []
    assert answers(worker.store(writing)) == [("r", e.Done())]
    assert worker.state.cluster.fencing_count("c") == 3


def test_a_set_that_was_recorded_needs_no_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *THREE, TaskFencing("c", 3))
    assert answers(worker.reached_end(asked(worker))) == [("r", e.Done())]


def test_requests_at_once_share_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO, TaskFencing("c", 2), *TWO)
    reading = asked(worker, "a")
    assert only(e.ReadConfigToEnd, asked(worker, "b")) == []
    fencing = worker.reached_end(reading)
    assert asked(worker, "c") == []
    writing = worker.reached_end(worker.fenced(fencing))
    assert asked(worker, "d") == []
    assert answers(worker.store(writing)) == [(reply, e.Done()) for reply in "abcd"]


def test_a_new_set_ends_the_round_of_the_one_before() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO, TaskFencing("c", 2), *TWO)
    fencing = worker.reached_end(asked(worker))
    assert answers(worker.read(*THREE)) == [("r", e.Refused(409, NEW_SET))]
    assert only(e.ReadConfigToEnd, worker.fenced(fencing)) == []


def test_a_task_set_on_its_way_goes_before_the_record_of_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *ONE)
    reading = asked(worker)
    publishing = worker.take(e.Requested("tasks", e.PutTasks("c", ({"v": "2"},))))
    assert only(e.AppendConfig, worker.reached_end(reading)) == []
    committing = worker.store(publishing)
    assert sorted(answers(worker.store(committing)), key=str) == [
        ("r", e.Refused(409, NEW_SET)),
        ("tasks", e.Done()),
    ]
    assert worker.state.fencing.rounds == {}


def test_a_task_set_waits_for_the_record_of_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *ONE)
    writing = worker.reached_end(asked(worker))
    assert worker.take(e.Requested("tasks", e.PutTasks("c", ({"v": "2"},)))) == []
    following = worker.store(writing)
    assert answers(following) == [("r", e.Done())]
    assert len(only(e.AppendConfig, following)) == 1


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        (None, e.Refused(404, "Connector c not found")),
        (SINK, e.Refused(400, "Connector c is not a source connector")),
    ],
)
def test_only_source_connectors_are_fenced(config: RawProps | None, refused: e.Refused) -> None:
    worker = leader(*([] if config is None else [ConnectorConfig("c", config)]))
    assert answers(asked(worker)) == [("r", refused)]


def test_a_follower_sends_a_wish_to_the_leader() -> None:
    assert answers(asked(follower())) == [("r", e.Elsewhere(OTHER_URL))]


def test_a_config_topic_that_is_not_read_in_time_ends_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO, TaskFencing("c", 2), *TWO)
    text = "Failed to read to end of config topic before performing zombie fencing"
    commands = worker.reached_end(asked(worker), in_time=False)
    assert answers(commands) == [("r", e.Refused(500, text))]
    checking = worker.fenced(worker.reached_end(asked(worker)))
    commands = worker.reached_end(checking, in_time=False)
    assert answers(commands) == [("r", e.Refused(500, "Failed to read to end of config topic"))]


def test_a_producer_that_is_not_fenced_ends_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO, TaskFencing("c", 2), *TWO)
    commands = worker.fenced(worker.reached_end(asked(worker)), "not authorized")
    text = "Failed to perform zombie fencing: not authorized"
    assert answers(commands) == [("r", e.Refused(500, text))]
    assert worker.state.fencing.rounds == {}


def test_a_record_that_is_not_stored_ends_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *ONE)
    [append] = only(e.AppendConfig, worker.reached_end(asked(worker)))
    commands = worker.take(e.Appended(append.ticket, -1, "fenced", fenced=True))
    [(_, result)] = answers(commands)
    assert isinstance(result, e.Refused)
    assert result.message.startswith("Failed to write to config topic; this may be due to")


def test_a_leader_that_is_deposed_ends_its_rounds() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO, TaskFencing("c", 2), *TWO)
    fencing = worker.reached_end(asked(worker))
    [(_, result)] = answers(worker.join(leader="m2"))
    assert isinstance(result, e.Refused)
    assert result.status == 409
    assert only(e.ReadConfigToEnd, worker.fenced(fencing)) == []


def test_a_worker_that_ends_ends_its_rounds() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *ONE)
    asked(worker)
    assert answers(worker.take(e.StopRequested())) == [
        ("r", e.Refused(500, "Worker is shutting down"))
    ]


def test_a_leader_starts_its_own_tasks_after_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO)
    reading = worker.join(work(T0, T1))
    assert only(e.StartTask, reading) == []
    assert worker.phase() is Phase.FENCING
    starting = worker.store(worker.reached_end(reading))
    assert [(start.task, start.generation) for start in only(e.StartTask, starting)] == [
        (T0, 0),
        (T1, 0),
    ]
    assert worker.state.fencing.preflights == {}


def test_a_follower_asks_the_leader_once_for_all_tasks_of_a_connector() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *TWO)
    [ask] = only(e.ForwardFence, worker.join(work(T0, T1), leader="m2"))
    assert (ask.leader_url, ask.connector) == (OTHER_URL, "c")
    starting = worker.take(e.FenceForwarded("c", ask.ticket))
    assert [start.task for start in only(e.StartTask, starting)] == [T0, T1]


def test_sinks_and_at_least_once_sources_start_at_once() -> None:
    sink = follower(ConnectorConfig("c", SINK), *ONE)
    assert len(only(e.StartTask, sink.join(work(T0), leader="m2"))) == 1
    preparing = Worker(settings(exactly_once=False))
    preparing.read(KEY, ConnectorConfig("c", CONFIG), *ONE)
    preparing.take(e.LogsReady())
    assert len(only(e.StartTask, preparing.join(work(T0), leader="m2"))) == 1


def test_a_wish_that_is_not_granted_is_repeated_for_a_minute_and_then_fails_the_tasks() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    begin, waits = worker.now, list[int]()
    while True:
        commands = worker.take(e.FenceForwarded("c", ask.ticket, e.Refused(500, "no coordinator")))
        if worker.phase() is Phase.FAILED:
            break
        wakeup = next_wakeup(worker.state)
        assert wakeup is not None
        waits.append(wakeup - worker.now)
        [ask] = only(e.ForwardFence, worker.tick(waits[-1]))
    assert waits[:6] == [250, 500, 1_000, 2_000, 4_000, 5_000]
    assert worker.now - begin >= GIVE_UP_MS
    [status] = only(e.AppendStatus, commands)
    assert isinstance(status.record, TaskStatus)
    assert status.record.status is not None
    assert status.record.status.trace == "no coordinator"
    assert worker.state.fencing.preflights == {}


@pytest.mark.parametrize("status", [400, 404])
def test_a_refusal_for_good_fails_the_tasks_at_once(status: int) -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.take(e.FenceForwarded("c", ask.ticket, e.Refused(status, "no")))
    assert worker.phase() is Phase.FAILED


def test_a_failed_wish_is_made_again_when_the_task_is_restarted() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.take(e.FenceForwarded("c", ask.ticket, e.Refused(400, "no")))
    assert len(only(e.ForwardFence, worker.take(e.Requested("r", e.RestartTask(T0))))) == 1


def test_a_new_leader_is_asked_at_once() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    [again] = only(e.ForwardFence, worker.join(leader="m3"))
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []
    assert len(only(e.StartTask, worker.take(e.FenceForwarded("c", again.ticket)))) == 1


def test_an_answer_about_an_older_task_set_starts_nothing() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.read(*task_set(1, "2"))
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []
    [again] = only(e.ForwardFence, worker.join(leader="m2"))
    [start] = only(e.StartTask, worker.take(e.FenceForwarded("c", again.ticket)))
    assert start.generation == 1


def test_an_answer_during_a_round_of_the_group_counts_afterwards() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.take(e.MetadataRequested("metadata"))
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []
    assert len(only(e.StartTask, worker.join(leader="m2"))) == 1


def test_a_task_that_waits_to_be_started_is_reassigned_at_once() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    commands = worker.join(revoked=work(T0), leader="m2")
    assert commands[-1] == e.JoinGroup()
    assert worker.state.running.tasks == {}
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []


def test_in_an_eager_group_it_does_not_keep_the_group_waiting() -> None:
    worker = Worker()
    worker.protocol = "default"
    worker.read(ConnectorConfig("c", CONFIG), *ONE)
    worker.take(e.LogsReady())
    worker.join(work(T0), leader="m2")
    assert len(only(e.ReturnMetadata, worker.take(e.MetadataRequested("metadata")))) == 1


def test_a_task_that_waits_is_paused_at_once() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.read(TargetState("c", Target.PAUSED))
    assert worker.phase() is Phase.PAUSED
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []


def starting() -> tuple[Worker, e.StartTask]:
    worker = follower(ConnectorConfig("c", CONFIG), *TWO)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    [start] = only(e.StartTask, worker.take(e.FenceForwarded("c", ask.ticket)))
    return worker, start


def checked(worker: Worker, start: e.StartTask) -> e.Result:
    check = e.CheckStart(start.task, start.run, start.generation)
    [(_, result)] = answers(worker.take(e.Requested("check", check)))
    return result


def test_a_task_that_is_still_wanted_may_begin_also_during_a_round_of_the_group() -> None:
    worker, start = starting()
    assert checked(worker, start) == e.Done()
    worker.take(e.MetadataRequested("metadata"))
    assert checked(worker, start) == e.Done()


def test_a_task_of_an_older_set_may_not_begin() -> None:
    worker, start = starting()
    worker.read(*task_set(2, "2"))
    assert checked(worker, start) == e.Refused(
        500,
        "Cannot start source task c-0 with exactly-once support as the connector has already "
        "generated a new set of task configs",
    )


def test_a_reassigned_task_may_not_start() -> None:
    worker, start = starting()
    text = "Cannot start source task c-0 as it has already been revoked from this worker"
    worker.join(revoked=work(T0), leader="m2")
    assert checked(worker, start) == e.Refused(500, text)
    worker, start = starting()
    worker.take(e.CoordinatorLost())
    assert checked(worker, start) == e.Refused(500, text)
    worker, start = starting()
    worker.take(e.StopRequested())
    assert checked(worker, start) == e.Refused(500, text)


def test_a_task_that_may_not_start_because_it_was_reassigned_is_not_failed() -> None:
    worker, start = starting()
    worker.join(revoked=work(T0), leader="m2")
    commands = worker.take(e.TaskFailed(T0, start.run, "revoked"))
    records = [append.record for append in only(e.AppendStatus, commands)]
    assert [
        record.status and record.status.state
        for record in records
        if isinstance(record, TaskStatus)
    ] == ["UNASSIGNED"]


def test_what_may_not_begin_because_its_set_is_old_starts_again_with_the_new_one() -> None:
    worker, start = starting()
    worker.read(*task_set(2, "2"))
    worker.take(e.TaskFailed(T0, start.run, "old"))
    [ask] = only(e.ForwardFence, worker.join(leader="m2"))
    [again] = only(e.StartTask, worker.take(e.FenceForwarded("c", ask.ticket)))
    assert again.generation == 1
