"""How a worker takes part in its group's rounds (kafka-connect.md §5)."""

from __future__ import annotations

from penstock.cluster import events as e
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import (
    BackingOff,
    next_wakeup,
)
from penstock.cluster.protocol import (
    NO_WORK,
    Assignment,
    AssignmentError,
    encode_assignment,
)
from penstock.cluster.records import (
    ConnectorConfig,
    TargetState,
    TaskCommit,
)
from penstock.ids import TaskId

from .herder_worker import (
    ANY_KEY,
    CONFIG,
    MY_URL,
    T0,
    T1,
    Worker,
    answers,
    leader,
    only,
    phases,
    running,
    settings,
    shown,
    task_set,
    work,
)


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
    assert worker.reported().running == work("c", T1, T0)  # revoked first
    stopped = worker.stop_all(commands)
    assert e.JoinGroup() in stopped
    assert shown(stopped) == [("c-1", "UNASSIGNED")]
    assert worker.reported().running == work("c", T0)


def test_a_revoked_connector_leads_to_another_round_at_once() -> None:
    worker = running(1)
    commands = worker.join(revoked=work("c"))
    assert shown(commands) == [("c", "UNASSIGNED")]
    assert e.JoinGroup() in commands


def test_work_revoked_in_the_round_that_assigned_it_is_given_back_by_another_round() -> None:
    # Balancing may revoke what the same round assigned; the leader waits for the rejoin.
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    assert e.JoinGroup() in worker.join(revoked=work(T0))
    assert worker.reported().running == NO_WORK


def test_tasks_stop_before_others_start() -> None:
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
    assert only(e.StartTask, following) == []  # still reading
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
    assert phases(worker) == {"c-0": RunPhase.RUNNING}
    worker.tick(30_000)
    assert worker.take(e.ConfigEndReached(in_time=True)) == [e.JoinGroup()]


def test_a_worker_that_cannot_read_the_config_topic_for_long_revokes_its_assignment() -> None:
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
    assert worker.reported().running == work(T0)  # or it would be delayed as lost


def test_a_worker_that_is_ahead_obeys_revocations_all_the_same() -> None:
    worker = running(1)
    commands = worker.join(revoked=work(T0), offset=worker.state.cluster.offset - 1)
    assert [stop.task for stop in only(e.StopTask, commands)] == [T0]


def test_after_a_mismatch_everybody_reads_on_and_joins_again() -> None:
    worker = running(1, leads=False)
    commands = worker.join(leads=False, error=AssignmentError.CONFIG_MISMATCH)
    assert commands[-1] == e.ReadConfigToEnd(3_000)
    assert worker.take(e.ConfigEndReached(in_time=True)) == [e.JoinGroup()]
    assert worker.reported().running == work("c", T0)


def test_an_offer_of_an_earlier_round_is_void_once_the_next_begins() -> None:
    worker = leader()
    worker.join(offset=9)
    worker.take(e.MetadataRequested("r"))
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
    assert worker.take(e.MetadataRequested("r")) == []  # no answer until everything has stopped
    [tell] = only(e.ReturnMetadata, worker.stop_all(commands))
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
    commands = worker.take(e.MetadataRequested("r"))
    assert only(e.ReturnMetadata, commands) == []
    [tell] = only(e.ReturnMetadata, worker.stop_all(commands))
    assert tell.metadata.running == NO_WORK
    data = encode_assignment(Assignment("m1", MY_URL, worker.state.cluster.offset, work(T0)), 0)
    assert len(only(e.StartTask, worker.take(e.Joined(9, "m1", "default", data)))) == 1
