"""A worker's herder with the config topic it reads, for tests of its decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from penstock.cluster import events as e
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import (
    HerderSettings,
    HerderState,
)
from penstock.cluster.protocol import (
    NO_WORK,
    Assignment,
    AssignmentError,
    MemberMetadata,
    Work,
    encode_assignment,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    RawProps,
    SessionKey,
    StatusRecord,
    TaskCommit,
    TaskConfig,
    TaskStatus,
    TopicStatus,
    encode_config,
    encode_status,
)
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


def settings(**changes: int) -> HerderSettings:
    return replace(HerderSettings(MY_URL, ME), **changes)  # type: ignore[arg-type]


class Worker:
    """A herder, the config topic it reads, and all its commands so far."""

    def __init__(self, of: HerderSettings | None = None, *, spark: bool = True) -> None:
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
        """Appends records of any worker, and reads them."""
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
        """Completes a round."""
        self.generation += 1
        leader, url = ("m1", MY_URL) if leads else ("m2", OTHER_URL)
        at = self.state.cluster.offset if offset is None else offset
        assignment = Assignment(leader, url, at, given, revoked, delay_ms, error)
        version = {"default": 0, "compatible": 1, "sessioned": 2}[self.protocol]
        data = encode_assignment(assignment, version)
        return self.take(
            e.MetadataRequested("metadata"), e.Joined(self.generation, "m1", self.protocol, data)
        )

    def store(self, commands: list[e.Command]) -> list[e.Command]:
        """Stores appended records and reads them back; returns what follows."""
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
        """Starts what is to start."""
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

    def reported(self) -> MemberMetadata:
        [tell] = only(e.ReturnMetadata, self.take(e.MetadataRequested("r")))
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


def leader(*records: ConfigRecord, of: HerderSettings | None = None) -> Worker:
    """A worker that leads a settled group, has a session key and runs nothing."""
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


def running(tasks: int = 2, *, leads: bool = True, of: HerderSettings | None = None) -> Worker:
    """A worker that runs connector `c` and all its tasks."""
    worker = Worker(of)
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(tasks))
    worker.take(e.LogsReady())
    mine = work("c", *(TaskId("c", n) for n in range(tasks)))
    worker.start_all(worker.join(mine, leads=leads))
    return worker


def phases(worker: Worker) -> dict[str, RunPhase]:
    return {str(task): run.phase for task, run in worker.state.running.tasks.items()}
