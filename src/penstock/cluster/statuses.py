"""The statuses of a cluster: the fold of its status topic (kafka-connect.md §4.4).

The last record wins, except for an UNASSIGNED that arrives after the next owner's RUNNING. Folding
many records copies each touched dictionary once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, assert_never

from penstock.cluster.records import (
    ConnectorStatus,
    SkippedRecord,
    State,
    Status,
    StatusRecord,
    TaskStatus,
    TopicStatus,
    TopicUse,
)
from penstock.ids import TaskId


@dataclass(frozen=True, slots=True)
class StatusState:
    """The last known status of every connector and task, and the topics connectors use."""

    connectors: Mapping[str, Status] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[int, Status]] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, TopicUse]] = field(default_factory=dict)

    def connector(self, connector: str) -> Status | None:
        """The connector's status, or None when none is known."""
        return self.connectors.get(connector)

    def task(self, task: TaskId) -> Status | None:
        """The task's status, or None when none is known."""
        return self.tasks.get(task.connector, {}).get(task.number)

    def tasks_of(self, connector: str) -> dict[TaskId, Status]:
        """The known statuses of the connector's tasks, by task number."""
        return {TaskId(connector, n): s for n, s in sorted(self.tasks.get(connector, {}).items())}

    def topics_of(self, connector: str) -> dict[str, TopicUse]:
        """The topics the connector is known to use, sorted by name."""
        return dict(sorted(self.topics.get(connector, {}).items()))

    def names(self) -> frozenset[str]:
        """Every connector with a status of its own or of one of its tasks."""
        return frozenset(self.connectors) | frozenset(self.tasks)


def may_put_safely(cached: Status | None, worker_id: str, generation: int) -> bool:
    """Whether UNASSIGNED or FAILED may overwrite this status: no newer generation has reported
    since."""
    return cached is None or cached.worker_id == worker_id or cached.generation <= generation


def fold_status(state: StatusState, record: StatusRecord | SkippedRecord) -> StatusState:
    """The statuses after reading this record."""
    return fold_statuses(state, [record])


def fold_statuses(
    state: StatusState, records: Iterable[StatusRecord | SkippedRecord]
) -> StatusState:
    """The statuses after reading these records in their order."""
    connectors = dict(state.connectors)
    tasks = _Rows(state.tasks)
    topics = _Rows(state.topics)
    for record in records:
        match record:
            case SkippedRecord():
                pass
            case ConnectorStatus(connector, status):
                if status is None:
                    connectors.pop(connector, None)
                    tasks.drop(connector)
                else:
                    connectors[connector] = status
            case TaskStatus(task, status):
                if status is None:
                    tasks.remove(task.connector, task.number)
                elif not _is_late(status, tasks.get(task.connector, task.number)):
                    tasks.put(task.connector, task.number, status)
            case TopicStatus(topic, connector, use):
                if use is None:
                    topics.remove(connector, topic)
                else:
                    topics.put(connector, topic, use)
            case _:
                assert_never(record)
    return StatusState(connectors, tasks.frozen(), topics.frozen())


def _is_late(status: Status, cached: Status | None) -> bool:
    """Whether a worker reports releasing a task after the next owner reported that it runs."""
    return (
        status.state is State.UNASSIGNED
        and cached is not None
        and cached.state is State.RUNNING
        and cached.generation >= status.generation
    )


K = TypeVar("K")
V = TypeVar("V")


class _Rows(Generic[K, V]):
    """Nested mappings, by connector, while they change: a row is copied at its first write."""

    def __init__(self, rows: Mapping[str, Mapping[K, V]]) -> None:
        self._rows = dict(rows)
        self._own: dict[str, dict[K, V]] = {}

    def get(self, connector: str, key: K) -> V | None:
        row = self._rows.get(connector)
        return None if row is None else row.get(key)

    def put(self, connector: str, key: K, value: V) -> None:
        self._row(connector)[key] = value

    def remove(self, connector: str, key: K) -> None:
        if self.get(connector, key) is None:
            return
        row = self._row(connector)
        del row[key]
        if not row:
            self.drop(connector)

    def drop(self, connector: str) -> None:
        self._rows.pop(connector, None)
        self._own.pop(connector, None)

    def frozen(self) -> Mapping[str, Mapping[K, V]]:
        return self._rows

    def _row(self, connector: str) -> dict[K, V]:
        row = self._own.get(connector)
        if row is None:
            row = dict(self._rows.get(connector, {}))
            self._rows[connector] = self._own[connector] = row
        return row
