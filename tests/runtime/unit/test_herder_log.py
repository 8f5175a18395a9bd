"""The lines of a worker's log about rebalances, starts and stops, and which starts follow an
unclean end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder import step
from penstock.cluster.herder.state import HerderSettings, HerderState
from penstock.cluster.protocol import (
    NO_WORK,
    Assignment,
    MemberMetadata,
    Work,
    encode_assignment,
    encode_metadata,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    RestartRequest,
    SessionKey,
    State,
    Status,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskStatus,
    encode_config,
    encode_status,
)
from penstock.ids import TaskId
from penstock.runtime.herder_log import HerderLog

ME, OTHER = "http://me:8083/", "http://other:8083/"
T0, T1 = TaskId("c", 0), TaskId("c", 1)
BOTH = Work(("c",), (T0, T1))


@dataclass
class Told:
    """A herder whose steps are logged."""

    caplog: pytest.LogCaptureFixture
    state: HerderState = field(default_factory=lambda: HerderState(HerderSettings(ME, "me:8083")))
    now: int = 1_000_000
    offset: int = 0
    generation: int = 0
    log: HerderLog = field(default_factory=HerderLog)

    def __post_init__(self) -> None:
        self.take(e.SparkReady())
        self.read(SessionKey(b"k", "HmacSHA256", 1_000_000), ConnectorConfig("c", {"name": "c"}))
        self.read(TaskConfig(T0, {}), TaskConfig(T1, {}), TaskCommit("c", 2))
        self.take(e.LogsReady())

    def take(self, event: e.Event) -> list[e.Command]:
        before = self.state
        self.state, commands = step(before, event, self.now)
        self.log.observe(before, event, self.state, commands)
        return commands

    def read(self, *records: ConfigRecord) -> list[e.Command]:
        at = range(self.offset, self.offset + len(records))
        self.offset += len(records)
        rows = [(n, *encode_config(each)) for n, each in zip(at, records, strict=True)]
        return self.take(e.ConfigRead(tuple(rows)))

    def join(
        self, given: Work = NO_WORK, *, revoked: Work = NO_WORK, delay_ms: int = 0
    ) -> list[e.Command]:
        self.generation += 1
        offset = self.state.cluster.offset
        assignment = Assignment("m1", ME, offset, given, revoked, delay_ms)
        self.take(e.MetadataRequested("r"))
        joined = e.Joined(self.generation, "m1", "sessioned", encode_assignment(assignment, 2))
        return self.take(joined)

    def assign(self, **running: Work) -> None:
        """This worker leads and assigns; the members run `running`."""
        offset = self.state.cluster.offset
        members = {
            name: encode_metadata(
                MemberMetadata(OTHER, offset, Assignment("m1", ME, offset, work)), 2
            )
            for name, work in running.items()
        }
        wanted = e.AssignmentRequested("r", "m1", "sessioned", self.generation + 1, members)
        self.take(wanted)

    def lines(self) -> list[str]:
        """What was logged since the last call."""
        lines = [record.getMessage() for record in self.caplog.records]
        self.caplog.clear()
        return lines


@pytest.fixture
def reported(caplog: pytest.LogCaptureFixture) -> Told:
    caplog.set_level(logging.INFO, "penstock.runtime.herder_log")
    made = Told(caplog)
    assert made.lines() == ["(Re-)joining group"]
    return made


def test_a_rebalance_and_the_starts_that_follow_it(reported: Told) -> None:
    starts = [each for each in reported.join(BOTH) if isinstance(each, e.StartTask)]
    assert reported.lines() == [
        "Rebalance started",
        "Joined group at generation 1 with protocol version 2 and got assignment: "
        "Assignment{error=0, leader='m1', leaderUrl='http://me:8083/', offset=5, "
        "connectorIds=[c], taskIds=[c-0, c-1], revokedConnectorIds=[], revokedTaskIds=[], "
        "delay=0} with rebalance delay: 0",
        "Starting connectors and tasks using config offset 5",
        "Starting connector c",
        "Starting task c-0",
        "Starting task c-1",
    ]
    for start in starts:
        reported.take(e.TaskStarted(start.task, start.run))
    assert reported.lines() == []  # the connector instance is still starting
    run = reported.state.running.connectors["c"].run
    reported.take(e.ConnectorPlanned("c", run, ({}, {})))
    assert reported.lines() == ["Finished starting connectors and tasks"]


def test_revoked_tasks_stop_and_the_worker_rejoins(reported: Told) -> None:
    started = [each for each in reported.join(BOTH) if isinstance(each, e.StartTask)]
    for start in started:
        reported.take(e.TaskStarted(start.task, start.run))
    reported.lines()
    stops = reported.join(revoked=Work((), (T1,)))
    assert reported.lines()[2:] == [
        "Starting connectors and tasks using config offset 5",
        "Stopping task c-1",
    ]
    [stop] = [each for each in stops if isinstance(each, e.StopTask)]
    reported.take(e.TaskStopped(stop.task, stop.run))
    assert reported.lines() == [
        "Finished stopping tasks in preparation for rebalance",
        "(Re-)joining group",
    ]


def test_a_leader_names_the_member_that_left_and_what_it_ran(reported: Told) -> None:
    reported.join()
    reported.assign(m1=NO_WORK, m2=BOTH)
    reported.join()
    reported.lines()
    reported.assign(m1=NO_WORK)
    assert reported.lines() == [
        "Members that left the group: m2",
        "Found the following connectors and tasks missing from previous assignments: [c, c-1]",
        "Delayed rebalance in progress. Task reassignment is postponed. New computed rebalance "
        "delay: 300000",
    ]
    reported.join(delay_ms=300_000)
    reported.lines()
    reported.now += 300_000
    reported.take(e.Tick())
    assert reported.lines() == [
        "Requesting rebalance because scheduled rebalance timeout has been reached",
        "(Re-)joining group",
    ]
    reported.assign(m1=NO_WORK)
    assert reported.lines()[-1] == "Delayed rebalance expired. Reassigning lost tasks"


def test_lost_work_is_assigned_at_once_where_there_is_no_delay(reported: Told) -> None:
    reported.state = replace(
        reported.state, settings=replace(reported.state.settings, max_delay_ms=0)
    )
    reported.join()
    reported.assign(m1=NO_WORK, m2=BOTH)
    reported.join()
    reported.lines()
    reported.assign(m1=NO_WORK)
    assert reported.lines()[-1] == (
        "Scheduled rebalance delays are disabled (scheduled.rebalance.max.delay.ms = 0); "
        "reassigning all lost connectors and tasks immediately"
    )


def test_a_coordinator_that_cannot_be_reached(reported: Told) -> None:
    reported.join(BOTH)
    reported.lines()
    reported.take(e.CoordinatorLost())
    assert reported.lines()[0] == (
        "Broker coordinator was unreachable. Revoking previous assignment connectorIds=[c], "
        "taskIds=[c-0, c-1] to avoid running tasks while not being a member of the group"
    )


def test_records_of_the_config_topic_are_logged(reported: Told) -> None:
    reported.join()
    reported.lines()
    reported.read(
        ConnectorConfig("d", {"name": "d"}),
        TargetState("c", Target.PAUSED),
        TaskConfig(T0, {"v": "2"}),
        TaskCommit("c", 1),
        RestartRequest("c", include_tasks=True, only_failed=False),
        ConnectorConfig("c", None),
    )
    assert [line for line in reported.lines() if "group" not in line] == [
        "Connector d config updated",
        "Setting connector c state to PAUSED",
        "Tasks [c-0] configs updated",
        "Received restart request for connector c (includeTasks=True, onlyFailed=False)",
        "Connector c config removed",
    ]


def test_the_end_of_a_worker(reported: Told) -> None:
    reported.join()
    reported.lines()
    reported.take(e.StopRequested())
    assert reported.lines() == ["Herder stopping", "Herder stopped"]


@pytest.mark.parametrize(
    ("state", "unclean"),
    [(State.RUNNING, True), (State.UNASSIGNED, False), (State.PAUSED, False), (None, False)],
)
def test_a_task_still_running_by_its_status_ended_uncleanly(
    reported: Told, state: State | None, unclean: bool
) -> None:
    if state is not None:
        row = encode_status(TaskStatus(T0, Status(state, "other:8083", 1)))
        reported.take(e.StatusRead((row,)))
    starts = {each.task: each for each in reported.join(BOTH) if isinstance(each, e.StartTask)}
    assert (starts[T0].unclean, starts[T1].unclean) == (unclean, False)


def test_a_task_that_failed_may_have_left_its_consumer_behind(reported: Told) -> None:
    starts = {each.task: each for each in reported.join(BOTH) if isinstance(each, e.StartTask)}
    reported.take(e.TaskStarted(T0, starts[T0].run))
    reported.take(e.TaskFailed(T0, starts[T0].run, "the slot was lost"))
    again = reported.read(RestartRequest("c", include_tasks=True, only_failed=True))
    assert [(each.task, each.unclean) for each in again if isinstance(each, e.StartTask)] == [
        (T0, True)
    ]
