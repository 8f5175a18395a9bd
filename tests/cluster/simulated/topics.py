"""The simulated internal topics: compacted, read from any offset, with gaps.

A topic also remembers every record ever written to it. `ConfigTopic.truth` derives the cluster's
state at each offset from them, as seen by a reader that has missed nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    SkippedRecord,
    TaskCommit,
    TaskConfig,
    decode_config,
    decode_status,
)
from penstock.cluster.state import UNKNOWN, ClusterState, ConnectorEntry, fold
from penstock.cluster.statuses import StatusState, fold_statuses

Row = tuple[bytes | None, bytes | None]
"""Key and value. Kafka refuses records without a key in a compacted topic; other logs may not."""
_MOST_TRUTHS: Final = 2_000


@dataclass(slots=True)
class Topic:
    """One partition of records by key."""

    rows: list[Row | None] = field(default_factory=list)
    """By offset; None where a record was compacted away, or a transaction ended."""
    _gone: list[int] = field(default_factory=list)  # offsets that were compacted away, sorted
    _cleaned: int = 0  # records before this offset have been compacted at least once

    def __len__(self) -> int:
        """The end: the offset of the next record."""
        return len(self.rows)

    def append(self, rows: list[Row]) -> int:
        """Stores rows; returns the last one's offset."""
        self.rows += rows
        return len(self.rows) - 1

    def read(self, start: int, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """The records at offsets `start:end`: offset, key, value."""
        rows = enumerate(self.rows[start:end], start)
        return [(at, *row) for at, row in rows if row is not None]

    def is_whole(self, start: int, end: int) -> bool:
        """Whether no record at offsets `start:end` has been compacted away so far."""
        return bisect_left(self._gone, start) == bisect_left(self._gone, end)

    def compact(self, until: int, forget: int) -> None:
        """Keeps the last record of each key among those before `until`, without tombstones before
        `forget` that an earlier compaction has kept.

        The last record of the topic always stays, as Kafka's active segment does.
        """
        records = [(at, row) for at, row in enumerate(self.rows) if row is not None]
        records = [(at, row) for at, row in records[:-1] if at < until]
        last = {row[0]: at for at, row in records}
        for at, row in records:
            forgotten = row[1] is None and at < min(forget, self._cleaned)
            if last[row[0]] != at or forgotten:
                self.rows[at] = None
                self._gone.append(at)
        self._gone.sort()
        self._cleaned = max(self._cleaned, until)


@dataclass(frozen=True, slots=True)
class Truth:
    """The config topic up to an offset, as seen by a reader that has missed nothing.

    Compaction may remove records that a task set was made from: `moved` are the connectors whose
    configuration is newer than their last commit. A later reader does not see their task sets.
    """

    state: ClusterState
    moved: frozenset[str]

    def settled(self, connector: str) -> bool:
        """Whether all records that its task set was made from outlive any compaction."""
        entry = self.state.entries.get(connector, UNKNOWN)
        return not (entry.inconsistent or entry.deferred or connector in self.moved)


@dataclass(slots=True)
class ConfigTopic(Topic):
    """The config topic, and the truth about it."""

    _truths: dict[int, Truth] = field(default_factory=dict)
    _latest: Truth = field(default_factory=lambda: Truth(ClusterState(), frozenset()))
    _connectors: list[str | None] = field(default_factory=list)  # by offset: of the record
    _commits: dict[str, list[int]] = field(default_factory=dict)  # offsets, by connector

    def append(self, rows: list[Row]) -> int:
        for at, row in enumerate(rows, len(self.rows)):
            self._learn(at, decode_config(*row))
        # The base class by name: `super()` does not work in dataclasses with slots.
        return Topic.append(self, rows)

    def mark_end_of_transaction(self) -> None:
        """Takes up an offset, as the marker of a transaction does in Kafka."""
        self.rows.append(None)
        self._connectors.append(None)

    def _learn(self, at: int, record: ConfigRecord | SkippedRecord) -> None:
        state, _ = fold(self._latest.state, at, record)
        moved = self._latest.moved
        match record:
            case ConnectorConfig(connector):
                moved |= {connector}
            case TaskCommit(connector):
                moved -= {connector}
                self._commits.setdefault(connector, []).append(at)
            case _:
                pass
        self._connectors.append(_connector_of(record))
        self._latest = self._truths[state.offset] = Truth(state, moved)
        while len(self._truths) > _MOST_TRUTHS:
            del self._truths[next(iter(self._truths))]

    @property
    def state(self) -> ClusterState:
        """The cluster according to everything in the topic."""
        return self._latest.state

    @property
    def offset(self) -> int:
        """The config offset of a worker that has read everything."""
        return self.state.offset

    def settled(self, connector: str) -> bool:
        """Whether every worker sees the connector's task set, despite any compaction."""
        return self._latest.settled(connector)

    def truth(self, offset: int) -> Truth | None:
        """The truth at this config offset; None if it is too old."""
        return self._truths.get(offset)

    def touched(self, start: int, end: int) -> frozenset[str]:
        """The connectors of the records between these config offsets."""
        return frozenset(c for c in self._connectors[max(start, 0) : max(end, 0)] if c is not None)

    def task_set(self, connector: str, offset: int) -> int:
        """The number of the connector's task set at this config offset, counted from its first."""
        return bisect_left(self._commits.get(connector, []), offset)


def _connector_of(record: ConfigRecord | SkippedRecord) -> str | None:
    match record:
        case TaskConfig(task):
            return task.connector
        case SkippedRecord() | SessionKey() | LoggerLevel() | RestartRequest():
            return None
        case _:
            return record.connector


def differences(
    truth: Truth, seen: ClusterState, connectors: frozenset[str], *, whole: bool
) -> list[str]:
    """The differences between these connectors as a worker sees them and the truth at its offset.

    A worker that has read every record (`whole`) sees exactly the truth. If some were compacted
    away, these are not compared:

    - generations, which count the commits a worker has read;
    - records that wait for a commit, and applied task configurations beyond the task count;
    - connectors that are not configured, except for how many tasks were fenced;
    - the task set of a connector that has been reconfigured since its last commit, of one whose
      next set is half written, and of one whose set has holes: records that its commit needs may
      be gone.
    """
    if seen.session_key != truth.state.session_key:
        return [f"session key {seen.session_key} instead of {truth.state.session_key}"]
    if whole:
        return [
            f"{connector}: {seen.entries.get(connector)} instead of"
            f" {truth.state.entries.get(connector)}"
            for connector in sorted(connectors)
            if seen.entries.get(connector) != truth.state.entries.get(connector)
        ]
    different: list[str] = []
    for connector in sorted(connectors):
        true = truth.state.entries.get(connector, UNKNOWN)
        theirs = seen.entries.get(connector, UNKNOWN)
        settled = truth.settled(connector)
        if _invariant(true, settled=settled) != _invariant(theirs, settled=settled):
            different.append(f"{connector}: {theirs} instead of {true}")
    return different


def _invariant(entry: ConnectorEntry, *, settled: bool) -> object:
    """The part of an entry that no compaction may change."""
    if entry.config is None:
        return entry.fencing_count
    config = (entry.config, entry.target, entry.fencing_count)
    if not settled:
        return config
    count = entry.task_count or 0
    tasks = [entry.applied.get(number) for number in range(count)]
    applied = entry.applied_config if entry.task_count is not None else None
    committed = entry.generation is not None or not count
    return *config, entry.inconsistent, count, tasks, applied, committed, entry.pending_fencing


@dataclass(slots=True)
class StatusTopic(Topic):
    """The status topic, and the statuses in it."""

    _shown: StatusState = field(default_factory=StatusState)

    def shown(self) -> StatusState:
        """The statuses according to every record ever written."""
        return self._shown

    def append(self, rows: list[Row]) -> int:
        self._shown = fold_statuses(self._shown, [decode_status(*row) for row in rows])
        return Topic.append(self, rows)

    def now(self) -> StatusState:
        """The statuses as seen by a worker that starts now."""
        return fold_statuses(
            StatusState(), [decode_status(*row) for row in self.rows if row is not None]
        )
