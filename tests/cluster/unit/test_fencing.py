"""Exactly once in the herder: the leader's claim, and rounds of fencing
(kafka-connect.md §4.2, §4.8, §5.7; KIP-618)."""

from __future__ import annotations

import pytest

from penstock.cluster import events as e
from penstock.cluster.fencing import Need, need
from penstock.cluster.herder.state import NoAccess, next_wakeup
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    RawProps,
    Target,
    TargetState,
    TaskCommit,
    TaskFencing,
)
from penstock.cluster.state import ClusterState, fold_all

from .fencing_worker import (
    CONFIG,
    KEY,
    ONE,
    OTHER_URL,
    SINK,
    THREE,
    TWO,
    Worker,
    answers,
    follower,
    leader,
    only,
    settings,
)

NEW_SET = "Failed to complete zombie fencing because a new set of task configs was generated"

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
def test_fencing_is_needed_once_for_each_new_set_of_tasks(
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
def test_records_that_only_leaders_write_are_in_a_transaction(operation: e.Operation) -> None:
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
