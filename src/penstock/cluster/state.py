"""The state of a cluster: the fold of its config topic (kafka-connect.md §4.3).

- Task configurations wait ("deferred") until a commit names their number; a commit whose set has
  holes makes the connector inconsistent, and then it has no tasks until a full set is written.
- `offset` is the offset of the last record plus one. Workers only start work when it is equal on
  all of them, so it also counts records that had no effect.
- Restart requests, logger levels and all other `Changes` are for listeners. While the topic is
  replayed at start-up there are none: drop the changes of that fold, keep the state.

Each connector is one frozen `ConnectorEntry`. Folding many records copies the dictionary of entries
once and the dictionaries of each touched connector at most once, however many records there are; so
a replay is linear. Folding one record costs one copy of the dictionary of connectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    RawProps,
    RestartRequest,
    SessionKey,
    SkippedRecord,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
)
from penstock.ids import TaskId

TaskConfigs = Mapping[int, RawProps]
"""Task configurations of one connector, by task number."""


@dataclass(frozen=True, slots=True)
class ConnectorEntry:
    """The content of the config topic about one connector, also after its deletion."""

    config: RawProps | None = None  # None: not configured (any more)
    target: Target | None = None
    task_count: int | None = None
    applied: TaskConfigs = field(default_factory=dict)
    deferred: TaskConfigs = field(default_factory=dict)
    generation: int | None = None  # how often a task set was applied, from 0
    inconsistent: bool = False
    pending_fencing: bool = False
    fencing_count: int | None = None
    applied_config: RawProps | None = None  # the `config` the applied tasks were made from


UNKNOWN = ConnectorEntry()


@dataclass(frozen=True, slots=True)
class Changes:
    """What listeners must know after a fold, unordered except for restarts and logger levels.

    A connector deleted and created again in one fold is in both `removed` and `added`.
    """

    added: frozenset[str] = frozenset()
    updated: frozenset[str] = frozenset()  # a configuration was written, perhaps the same one
    removed: frozenset[str] = frozenset()
    committed: frozenset[str] = frozenset()  # a task set was committed, perhaps empty or with holes
    tasks: frozenset[TaskId] = frozenset()  # whose configurations a commit has applied
    targets: frozenset[str] = frozenset()  # existing connectors whose target state has changed
    session_key: SessionKey | None = None
    restarts: tuple[RestartRequest, ...] = ()
    logger_levels: tuple[LoggerLevel, ...] = ()

    @property
    def need_rebalance(self) -> bool:
        """Connectors came or went, or a task set was committed (kafka-connect.md §5.7)."""
        return bool(self.added or self.removed or self.committed)

    def then(self, later: Changes) -> Changes:
        """These changes followed by `later` ones."""
        return Changes(
            added=self.added | later.added,
            updated=self.updated | later.updated,
            removed=self.removed | later.removed,
            committed=self.committed | later.committed,
            tasks=self.tasks | later.tasks,
            targets=self.targets | later.targets,
            session_key=later.session_key or self.session_key,
            restarts=self.restarts + later.restarts,
            logger_levels=self.logger_levels + later.logger_levels,
        )


NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a worker knows of its cluster after reading the config topic up to `offset`."""

    offset: int = -1  # that of the last record plus one; −1 before anything was read
    entries: Mapping[str, ConnectorEntry] = field(default_factory=dict)
    session_key: SessionKey | None = None

    def connectors(self) -> tuple[str, ...]:
        """The configured connectors, sorted by name."""
        return tuple(sorted(c for c, entry in self.entries.items() if entry.config is not None))

    def contains(self, connector: str) -> bool:
        """Whether this connector is configured."""
        return self._entry(connector).config is not None

    def config(self, connector: str) -> RawProps | None:
        """The connector's raw configuration, or None when it is not configured."""
        return self._entry(connector).config

    def target(self, connector: str) -> Target | None:
        """The target state; None if unknown, which never applies to a configured connector."""
        return self._entry(connector).target

    def tasks(self, connector: str) -> tuple[TaskId, ...]:
        """The connector's tasks by number; none while its task set is inconsistent."""
        entry = self._entry(connector)
        if entry.inconsistent or entry.task_count is None:
            return ()
        return tuple(TaskId(connector, number) for number in range(entry.task_count))

    def task_config(self, task: TaskId) -> RawProps | None:
        """The task's applied raw configuration, also of a task beyond the task count."""
        return self._entry(task.connector).applied.get(task.number)

    def task_configs(self, connector: str) -> tuple[RawProps, ...]:
        """The applied raw configurations of `tasks(connector)`, by task number."""
        applied = self._entry(connector).applied
        return tuple(applied.get(task.number, {}) for task in self.tasks(connector))

    def task_count(self, connector: str) -> int:
        """How many tasks the last commit named, consistent or not; 0 without one."""
        return self._entry(connector).task_count or 0

    def generation(self, connector: str) -> int | None:
        """How often a task set was applied, from 0; None before the first. Outlives deletion."""
        return self._entry(connector).generation

    def fencing_count(self, connector: str) -> int | None:
        """The size of the last task set whose producers were fenced. Outlives deletion."""
        return self._entry(connector).fencing_count

    def applied_connector_config(self, connector: str) -> RawProps | None:
        """The connector configuration that was current when the applied tasks were committed."""
        return self._entry(connector).applied_config

    @property
    def inconsistent(self) -> frozenset[str]:
        """Configured connectors whose last task set had holes (kafka-connect.md §4.3)."""
        return frozenset(
            c
            for c, entry in self.entries.items()
            if entry.inconsistent and entry.config is not None
        )

    @property
    def pending_fencing(self) -> frozenset[str]:
        """Connectors with a task set newer than their last fencing (KIP-618)."""
        return frozenset(c for c, entry in self.entries.items() if entry.pending_fencing)

    def _entry(self, connector: str) -> ConnectorEntry:
        return self.entries.get(connector, UNKNOWN)


def fold(
    state: ClusterState, offset: int, record: ConfigRecord | SkippedRecord
) -> tuple[ClusterState, Changes]:
    """The state after reading the record at this offset, and what listeners must know."""
    return fold_all(state, [(offset, record)])


def fold_all(
    state: ClusterState, records: Iterable[tuple[int, ConfigRecord | SkippedRecord]]
) -> tuple[ClusterState, Changes]:
    """The state after reading these records, in the order of their offsets, and all changes."""
    folding = _Folding(state)
    for offset, record in records:
        if isinstance(record, SkippedRecord):
            if not record.unreadable:
                folding.offset = offset + 1
            continue
        folding.offset = offset + 1
        folding.read(record)
    return folding.state(), folding.changes()


@dataclass(slots=True)
class _Draft:
    """An `ConnectorEntry` while records are folded into it; it owns its dictionaries."""

    config: RawProps | None
    target: Target | None
    task_count: int | None
    applied: dict[int, RawProps]
    deferred: dict[int, RawProps]
    generation: int | None
    inconsistent: bool
    pending_fencing: bool
    fencing_count: int | None
    applied_config: RawProps | None

    @classmethod
    def of(cls, entry: ConnectorEntry) -> _Draft:
        return cls(
            config=entry.config,
            target=entry.target,
            task_count=entry.task_count,
            applied=dict(entry.applied),
            deferred=dict(entry.deferred),
            generation=entry.generation,
            inconsistent=entry.inconsistent,
            pending_fencing=entry.pending_fencing,
            fencing_count=entry.fencing_count,
            applied_config=entry.applied_config,
        )

    def entry(self) -> ConnectorEntry:
        return ConnectorEntry(
            config=self.config,
            target=self.target,
            task_count=self.task_count,
            applied=self.applied,
            deferred=self.deferred,
            generation=self.generation,
            inconsistent=self.inconsistent,
            pending_fencing=self.pending_fencing,
            fencing_count=self.fencing_count,
            applied_config=self.applied_config,
        )

    def remove(self) -> None:
        """Applies a tombstone; target, generation and fencing stay (kafka-connect.md §4.3)."""
        self.config = None
        self.task_count = None
        self.applied = {}
        self.deferred = {}
        self.applied_config = None


class _Folding:
    """One `fold_all` in progress: drafts of the touched connectors, and the changes so far."""

    def __init__(self, state: ClusterState) -> None:
        self.offset = state.offset
        self._entries = state.entries
        self._session_key = state.session_key
        self._drafts: dict[str, _Draft] = {}
        self._added: set[str] = set()
        self._updated: set[str] = set()
        self._removed: set[str] = set()
        self._committed: set[str] = set()
        self._tasks: set[TaskId] = set()
        self._targets: set[str] = set()
        self._new_session_key: SessionKey | None = None
        self._restarts: list[RestartRequest] = []
        self._logger_levels: list[LoggerLevel] = []

    def state(self) -> ClusterState:
        entries = self._entries
        if self._drafts:
            folded = dict(entries)
            for connector, draft in self._drafts.items():
                entry = draft.entry()
                if entry == UNKNOWN:
                    folded.pop(connector, None)
                else:
                    folded[connector] = entry
            entries = folded
        return ClusterState(self.offset, entries, self._session_key)

    def changes(self) -> Changes:
        return Changes(
            added=frozenset(self._added),
            updated=frozenset(self._updated),
            removed=frozenset(self._removed),
            committed=frozenset(self._committed),
            tasks=frozenset(self._tasks),
            targets=frozenset(self._targets),
            session_key=self._new_session_key,
            restarts=tuple(self._restarts),
            logger_levels=tuple(self._logger_levels),
        )

    def read(self, record: ConfigRecord) -> None:
        match record:
            case ConnectorConfig(connector, properties):
                if properties is None:
                    self._delete(connector)
                else:
                    self._configure(connector, properties)
            case TaskConfig(task, properties):
                self._draft(task.connector).deferred[task.number] = properties
            case TaskCommit(connector, tasks):
                self._commit(connector, tasks)
            case TargetState(connector, target):
                self._aim(connector, target)
            case TaskFencing(connector, tasks):
                draft = self._draft(connector)
                draft.fencing_count = tasks
                draft.pending_fencing = False
            case SessionKey():
                self._session_key = self._new_session_key = record
            case RestartRequest():
                self._restarts.append(record)
            case LoggerLevel():
                self._logger_levels.append(record)
            case _:
                assert_never(record)

    def _configure(self, connector: str, properties: RawProps) -> None:
        draft = self._draft(connector)
        (self._added if draft.config is None else self._updated).add(connector)
        draft.config = properties
        draft.target = draft.target or Target.STARTED

    def _delete(self, connector: str) -> None:
        draft = self._draft(connector)
        if draft.config is not None:
            self._removed.add(connector)
        draft.remove()

    def _commit(self, connector: str, count: int) -> None:
        draft = self._draft(connector)
        if draft.config is None:
            # The connector's configuration and its tombstone were both compacted away.
            draft.remove()
            return
        complete = all(number in draft.deferred for number in range(count))
        if complete:
            # Also tasks beyond the count: a smaller set may follow a larger, unfinished one.
            draft.applied |= draft.deferred
            self._tasks.update(TaskId(connector, number) for number in draft.deferred)
            if draft.deferred:
                draft.generation = 0 if draft.generation is None else draft.generation + 1
            draft.applied_config = draft.config
        draft.inconsistent = not complete
        draft.deferred = {}
        draft.task_count = count
        draft.pending_fencing = True
        self._committed.add(connector)

    def _aim(self, connector: str, target: Target | None) -> None:
        draft = self._draft(connector)
        exists = draft.config is not None
        if target is None and exists:
            target = Target.STARTED
        if exists and target is not draft.target:
            self._targets.add(connector)
        draft.target = target

    def _draft(self, connector: str) -> _Draft:
        draft = self._drafts.get(connector)
        if draft is None:
            draft = self._drafts[connector] = _Draft.of(self._entries.get(connector, UNKNOWN))
        return draft
