"""The internal topics as the simulation has them: compacted, read from any offset, with gaps.

A topic also knows what no reader can: everything that was ever written to it. `ConfigTopic.truth`
says from that what the cluster is at each offset, for whoever has read so far.
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
    Skipped,
    TaskCommit,
    TaskConfig,
    decode_config,
    decode_status,
)
from penstock.cluster.state import UNKNOWN, ClusterState, Entry, fold
from penstock.cluster.statuses import StatusState, fold_statuses

Row = tuple[bytes | None, bytes | None]
"""Key and value. Kafka takes no record without a key for a compacted topic; other logs may."""
_KEPT_TRUTHS: Final = 2_000


@dataclass(slots=True)
class Topic:
    """One partition of records by key."""

    rows: list[Row | None] = field(default_factory=list)
    """By offset; None where a record was compacted away, or a transaction ended."""
    _gone: list[int] = field(default_factory=list)  # offsets that were compacted away, sorted
    _cleaned: int = 0  # what lies before has been compacted at least once

    def __len__(self) -> int:
        """The end: the offset of the next record."""
        return len(self.rows)

    def append(self, rows: list[Row]) -> int:
        """The offset of the last of these rows."""
        self.rows += rows
        return len(self.rows) - 1

    def read(self, start: int, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """What there is from `start` to before `end`: offset, key, value."""
        found = enumerate(self.rows[start:end], start)
        return [(at, *row) for at, row in found if row is not None]

    def is_whole(self, start: int, end: int) -> bool:
        """Whether nothing between has been compacted away so far."""
        return bisect_left(self._gone, start) == bisect_left(self._gone, end)

    def compact(self, until: int, forget: int) -> None:
        """Keeps the last record of each key among those before `until`; of tombstones that a
        compaction has kept before, and that lie before `forget`, nothing.

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
    """What the config topic says up to an offset, to a reader who has missed nothing.

    Compaction may take away what a task set was made from: `moved` are the connectors whose
    configuration is newer than their last commit. A later reader does not see their task sets.
    """

    state: ClusterState
    moved: frozenset[str]

    def settled(self, connector: str) -> bool:
        """Whether all that its task set was made from outlives any compaction."""
        entry = self.state.entries.get(connector, UNKNOWN)
        return not (entry.inconsistent or entry.deferred or connector in self.moved)


@dataclass(slots=True)
class ConfigTopic(Topic):
    """The config topic, and the truth about it."""

    _truths: dict[int, Truth] = field(default_factory=dict)
    _latest: Truth = field(default_factory=lambda: Truth(ClusterState(), frozenset()))
    _about: list[str | None] = field(default_factory=list)  # by offset: whose record it is
    _commits: dict[str, list[int]] = field(default_factory=dict)

    def append(self, rows: list[Row]) -> int:
        for at, row in enumerate(rows, len(self.rows)):
            self._learn(at, decode_config(*row))
        # The base class by name: `super()` does not work in dataclasses with slots.
        return Topic.append(self, rows)

    def mark_end_of_transaction(self) -> None:
        """Takes the offset that Kafka gives the marker."""
        self.rows.append(None)
        self._about.append(None)

    def _learn(self, at: int, record: ConfigRecord | Skipped) -> None:
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
        self._about.append(_subject(record))
        self._latest = self._truths[state.offset] = Truth(state, moved)
        while len(self._truths) > _KEPT_TRUTHS:
            del self._truths[next(iter(self._truths))]

    @property
    def state(self) -> ClusterState:
        """The cluster as everything in the topic says."""
        return self._latest.state

    @property
    def offset(self) -> int:
        """The config offset of whoever has read everything."""
        return self.state.offset

    def settled(self, connector: str) -> bool:
        """Whether everybody sees the connector's task set, whatever has been compacted away."""
        return self._latest.settled(connector)

    def truth(self, offset: int) -> Truth | None:
        """What is true at this config offset; None when it was too long ago."""
        return self._truths.get(offset)

    def touched(self, start: int, end: int) -> frozenset[str]:
        """Which connectors the records between these config offsets were about."""
        return frozenset(c for c in self._about[max(start, 0) : max(end, 0)] if c is not None)

    def task_set(self, connector: str, offset: int) -> int:
        """Which of all task sets there were is the connector's at this config offset."""
        return bisect_left(self._commits.get(connector, []), offset)


def _subject(record: ConfigRecord | Skipped) -> str | None:
    match record:
        case TaskConfig(task):
            return task.connector
        case Skipped() | SessionKey() | LoggerLevel() | RestartRequest():
            return None
        case _:
            return record.connector


def differences(
    truth: Truth, seen: ClusterState, connectors: frozenset[str], *, whole: bool
) -> list[str]:
    """How what a worker sees of these connectors differs from the truth at its offset.

    A worker that was shown every record (`whole`) sees exactly the truth. One for which some were
    compacted away need not know, and is not asked for:

    - generations, which count the commits one has read;
    - what waits for a commit, and applied task configurations beyond the task count;
    - connectors that are not configured, but for how many tasks were fenced;
    - the task set of a connector that has been configured anew since its last commit, of one whose
      next set is half written, and of one whose set has holes: what its commit needs may be gone.
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
    found: list[str] = []
    for connector in sorted(connectors):
        true = truth.state.entries.get(connector, UNKNOWN)
        theirs = seen.entries.get(connector, UNKNOWN)
        settled = truth.settled(connector)
        if _kept(true, settled=settled) != _kept(theirs, settled=settled):
            found.append(f"{connector}: {theirs} instead of {true}")
    return found


def _kept(entry: Entry, *, settled: bool) -> object:
    """What no compaction may change."""
    if entry.config is None:
        return entry.fencing_count
    kept = (entry.config, entry.target, entry.fencing_count)
    if not settled:
        return kept
    count = entry.task_count or 0
    tasks = [entry.applied.get(number) for number in range(count)]
    configured = entry.applied_config if entry.task_count is not None else None
    made = entry.generation is not None or not count
    return *kept, entry.inconsistent, count, tasks, configured, made, entry.pending_fencing


@dataclass(slots=True)
class StatusTopic(Topic):
    """The status topic, and what it says altogether."""

    _shown: StatusState = field(default_factory=StatusState)

    def shown(self) -> StatusState:
        """The statuses as everything that was ever written says."""
        return self._shown

    def append(self, rows: list[Row]) -> int:
        self._shown = fold_statuses(self._shown, [decode_status(*row) for row in rows])
        return Topic.append(self, rows)

    def now(self) -> StatusState:
        """The statuses as a worker sees them that starts at this moment."""
        return fold_statuses(
            StatusState(), [decode_status(*row) for row in self.rows if row is not None]
        )
