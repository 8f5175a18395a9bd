"""The herder of a worker with exactly-once support and the config topic it reads, for its tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from penstock.cluster import events as e
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import HerderSettings, HerderState
from penstock.cluster.protocol import (
    NO_WORK,
    VERSIONS,
    Assignment,
    Work,
    encode_assignment,
)
from penstock.cluster.records import (
    ConfigRecord,
    RawProps,
    SessionKey,
    TaskCommit,
    TaskConfig,
    encode_config,
)
from penstock.ids import TaskId

ME, MY_URL, OTHER_URL = "me:8083", "http://me:8083/", "http://other:8083/"
CONFIG: RawProps = {"name": "c", "kind": "source"}
SINK: RawProps = {"name": "s", "kind": "sink"}
KEY = SessionKey(b"k", "HmacSHA256", 1_000_000)
T0, T1, T2 = (TaskId("c", number) for number in range(3))

C = TypeVar("C", bound=e.Command)


def settings(**changes: bool) -> HerderSettings:
    return replace(
        HerderSettings(MY_URL, ME, is_source=lambda config: config.get("kind") == "source"),
        **{"transactional": True, "exactly_once": True, **changes},
    )


class Worker:
    """A herder of an exactly-once cluster, and the config topic it reads."""

    def __init__(self, of: HerderSettings | None = None) -> None:
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

    def phase(self, task: TaskId = T0) -> RunPhase | None:
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


def leader(*records: ConfigRecord, of: HerderSettings | None = None) -> Worker:
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
