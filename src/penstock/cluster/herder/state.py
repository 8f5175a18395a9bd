"""What a worker knows and intends, as one value with a part for each subject.

`herder.step` returns the next one, `next_wakeup` when time alone requires a step. Nothing here
makes decisions. Sources: kafka-connect.md §4.2, §5.3, §6; KIP-415, KIP-507, KIP-618.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeVar, assert_never

from penstock.cluster import events as e
from penstock.cluster.assign import Item, Memory
from penstock.cluster.fencing import Preflight, Round
from penstock.cluster.herder.runs import Run
from penstock.cluster.protocol import NO_WORK, VERSIONS, Assignment, Work
from penstock.cluster.records import ConfigRecord, RawProps, SessionKey
from penstock.cluster.recovery import NO_RESTARTS, Recovery, RestartPolicy
from penstock.cluster.state import ClusterState
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId


def _no_source(config: RawProps) -> bool:
    return False


def _no_restarts(config: RawProps) -> RestartPolicy:
    return NO_RESTARTS


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """What a worker knows of itself from the start.

    `is_source` returns whether a configuration is a source connector's, `restarts` its restart
    policy; both are pure. `transactional`: leaders write in transactions; `exactly_once`: source
    tasks do, too.
    """

    url: str
    worker_id: str
    max_delay_ms: int = 300_000
    sync_timeout_ms: int = 3_000
    unsync_backoff_ms: int = 300_000
    key_ttl_ms: int = 3_600_000
    key_algorithm: str = "HmacSHA256"
    key_bytes: int | None = None  # the length of session keys; None: any
    topic_tracking: bool = True
    transactional: bool = False  # exactly.once.source.support is preparing or enabled
    exactly_once: bool = False  # … is enabled
    is_source: Callable[[RawProps], bool] = _no_source
    restarts: Callable[[RawProps], RestartPolicy] = _no_restarts

    def makes(self, key: SessionKey) -> bool:
        """Whether this worker would make such a session key; a leader replaces any other."""
        return key.algorithm == self.key_algorithm and self.key_bytes in (None, len(key.key))


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """This worker's place in the group since the last completed rebalance."""

    id: str
    generation: int
    protocol: str
    leader: str
    leader_url: str

    @property
    def leads(self) -> bool:
        return self.id == self.leader

    @property
    def eager(self) -> bool:
        return VERSIONS[self.protocol] == 0


@dataclass(frozen=True, slots=True)
class Replaying:
    """The topics have not been read to their ends yet."""


@dataclass(frozen=True, slots=True)
class AwaitingSpark:
    """The group has members, so this worker joins once Spark has started."""


@dataclass(frozen=True, slots=True)
class Joining:
    """A rebalance was requested, or is in progress; `member`: as of the last one, if still valid.

    `offered`: the last one's assignment, if this worker was still `Syncing` at the request.
    """

    member: GroupPlace | None = None
    offered: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Syncing:
    """The rebalance is complete, but `offered` must not start yet: this worker first reads the
    config topic up to the leader's offset (kafka-connect.md §5.3)."""

    member: GroupPlace
    offered: Assignment


@dataclass(frozen=True, slots=True)
class Stable:
    """Between rebalances: everybody knows who leads and who owns what."""

    member: GroupPlace


InGroup = Joining | Syncing | Stable


@dataclass(frozen=True, slots=True)
class BackingOff:
    """This worker left the group, because it cannot read the config topic (kafka-connect.md §5.6,
    `worker.unsync.backoff.ms`). It retries at `retry_at` (None: in progress), after `attempts`
    waits in which it kept its assignment.

    `last` is the rebalance it took part in last: one may still complete while it leaves.
    """

    last: InGroup
    retry_at: int | None
    attempts: int


GroupPhase = Replaying | AwaitingSpark | InGroup | BackingOff

GROUP_MOVES: Final[Mapping[type[GroupPhase], frozenset[type[GroupPhase]]]] = {
    Replaying: frozenset({AwaitingSpark, Joining}),
    AwaitingSpark: frozenset({Joining}),
    Joining: frozenset({Joining, Syncing, BackingOff}),
    Syncing: frozenset({Joining, Syncing, Stable, BackingOff}),
    Stable: frozenset({Joining, Syncing}),
    BackingOff: frozenset({BackingOff, Joining}),
}
"""How the phases of a membership follow each other."""


class Life(Enum):
    """The progress of this worker's shutdown, independent of its membership's phase."""

    RUNNING = "running"
    STOPPING = "stopping"
    LEFT = "left"  # everything has stopped; it has left the group


@dataclass(frozen=True, slots=True)
class NoAccess:
    """Earlier leaders may still write to the config topic; the next attempt is at `retry_at`."""

    retry_at: int = 0


@dataclass(frozen=True, slots=True)
class AcquiringAccess:
    """The leader's producer is being initialized, which fences those of earlier leaders."""

    ticket: int


@dataclass(frozen=True, slots=True)
class WriteAccess:
    """No earlier leader can write any more (KIP-618)."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """What a worker knows as leader, and only as long as it leads."""

    memory: Memory = field(default_factory=Memory)
    owners: Mapping[Item, str] = field(default_factory=dict)  # URLs, as this leader has assigned
    access: NoAccess | AcquiringAccess | WriteAccess = NoAccess()


@dataclass(frozen=True, slots=True)
class Membership:
    """This worker in its group, and its assignment."""

    phase: GroupPhase = Replaying()
    life: Life = Life.RUNNING
    last_generation: int = -1  # of the last rebalance that was completed
    syncing: bool = False  # the config topic is being read to its end
    metadata_for: e.Reply | None = None  # a rebalance that waits for this worker's metadata
    assigned: Work = NO_WORK
    handing_over: Work = NO_WORK  # revoked, and not all of it has stopped
    rejoin_at: int | None = None  # when the scheduled rebalance delay ends
    leadership: Leadership = Leadership()

    @property
    def ready(self) -> bool:
        """Whether the topics have been read to their ends once."""
        return not isinstance(self.phase, Replaying)

    @property
    def stopping(self) -> bool:
        """Whether this worker is stopping or has stopped."""
        return self.life is not Life.RUNNING

    @property
    def left(self) -> bool:
        return self.life is Life.LEFT

    @property
    def last(self) -> InGroup | None:
        """The last rebalance this worker took part in."""
        match self.phase:
            case Replaying() | AwaitingSpark():
                return None
            case BackingOff(last):
                return last
            case Joining() | Syncing() | Stable():
                return self.phase
            case _:
                assert_never(self.phase)

    @property
    def member(self) -> GroupPlace | None:
        return None if self.last is None else self.last.member

    @property
    def offered(self) -> Assignment | None:
        """The assignment that waits for the config topic."""
        return self.last.offered if isinstance(self.last, Joining | Syncing) else None

    @property
    def leads(self) -> bool:
        return self.member is not None and self.member.leads

    @property
    def generation(self) -> int:
        return self.member.generation if self.member else self.last_generation

    @property
    def leader_url(self) -> str | None:
        return self.member.leader_url or None if self.member else None

    @property
    def owned(self) -> Work:
        """The assignment for this worker's metadata: what it runs."""
        # Revoked work comes first, because balancing takes from the front: a rebalance that begins
        # meanwhile takes it again, and nothing else.
        return self.handing_over.plus(self.assigned) if self.handing_over else self.assigned

    @property
    def settled(self) -> bool:
        """Between rebalances: everybody knows who leads and who owns what."""
        return isinstance(self.last, Stable)

    def may_start(self) -> bool:
        return self.settled and not self.stopping

    def enter(self, phase: GroupPhase) -> Membership:
        """The membership in another phase; AssertionError when `GROUP_MOVES` lacks the move."""
        if type(phase) not in GROUP_MOVES[type(self.phase)]:
            raise AssertionError(f"the membership goes from {self.phase} to {phase}")
        return replace(self, phase=phase)

    def rebalanced(self, last: InGroup) -> Membership:
        """The membership at this point of a rebalance; `BackingOff` stays `BackingOff`."""
        if isinstance(self.phase, BackingOff):
            return self.enter(replace(self.phase, last=last))
        return self.enter(last)

    def with_access(self, access: NoAccess | AcquiringAccess | WriteAccess) -> Membership:
        return replace(self, leadership=replace(self.leadership, access=access))


@dataclass(frozen=True, slots=True)
class Write:
    """Config records that are being written: who waits for them, and what follows.

    Writes about one connector follow each other: two task sets whose records mix would commit a
    set with holes (kafka-connect.md §4.3).
    """

    connector: str | None  # None: the session key
    reply: e.Reply | None  # None: this worker requested it
    result: e.Result
    deadline: int
    then: tuple[tuple[ConfigRecord, ...], ...] = ()  # groups of records still to append, in order
    read_back: bool = True  # whether it is done when read back, or already when stored
    offset: int | None = None  # of its last record, once stored
    round: int | None = None  # the round of fencing that ends with it


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """The session key of the group, which its leader renews (KIP-507)."""

    pending: bool = False  # a key was made, and is not read back yet
    retry_at: int = 0


@dataclass(frozen=True, slots=True)
class Requests:
    """What waits for the leader, for a rebalance or for the config topic."""

    queued: tuple[tuple[e.Reply, e.Operation], ...] = ()
    plans: Mapping[str, tuple[RawProps, ...]] = field(default_factory=dict)  # to be published
    writes: Mapping[int, Write] = field(default_factory=dict)
    key: KeyRotation = KeyRotation()

    def writing(self) -> set[str | None]:
        """The connectors about which records are being written; None: the session key."""
        return {write.connector for write in self.writes.values()}

    def with_write(self, ticket: int, write: Write | None) -> Requests:
        return replace(self, writes=with_entry(self.writes, ticket, write))

    def with_plan(self, connector: str, configs: tuple[RawProps, ...] | None) -> Requests:
        return replace(self, plans=with_entry(self.plans, connector, configs))


@dataclass(frozen=True, slots=True)
class Fencing:
    """Zombie fencing: `rounds` as leader, `preflights` for this worker's own tasks (KIP-618)."""

    rounds: Mapping[str, Round] = field(default_factory=dict)
    preflights: Mapping[str, Preflight] = field(default_factory=dict)

    def granted(self, connector: str) -> bool:
        """Whether every zombie task of the connector has been fenced."""
        preflight = self.preflights.get(connector)
        return preflight is not None and preflight.granted

    def with_round(self, connector: str, round: Round | None) -> Fencing:
        return replace(self, rounds=with_entry(self.rounds, connector, round))

    def with_preflight(self, connector: str, preflight: Preflight | None) -> Fencing:
        return replace(self, preflights=with_entry(self.preflights, connector, preflight))


@dataclass(frozen=True, slots=True)
class Retry:
    """A task set could not be published; its connector generates it again at `at` (None: now)."""

    at: int | None
    attempts: int


@dataclass(frozen=True, slots=True)
class Replan:
    """A running connector generates its task configurations again from time to time, next at `at`
    (None: in progress; `again`: repeated afterwards, because it may have begun before the
    request)."""

    at: int | None
    every_ms: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class RunningWork:
    """The connector instances and tasks of this worker, and when they are reconciled again."""

    spark_ready: bool = False
    connectors: Mapping[str, Run] = field(default_factory=dict)
    tasks: Mapping[TaskId, Run] = field(default_factory=dict)
    retries: Mapping[str, Retry] = field(default_factory=dict)
    asking: Mapping[str, Replan] = field(default_factory=dict)
    recoveries: Mapping[Item, Recovery] = field(default_factory=dict)

    def with_retry(self, connector: str, retry: Retry | None) -> RunningWork:
        return replace(self, retries=with_entry(self.retries, connector, retry))

    def with_asking(self, connector: str, asking: Replan | None) -> RunningWork:
        return replace(self, asking=with_entry(self.asking, connector, asking))

    def with_recovery(self, item: Item, recovery: Recovery | None) -> RunningWork:
        return replace(self, recoveries=with_entry(self.recoveries, item, recovery))


@dataclass(frozen=True, slots=True)
class HerderState:
    """Everything a worker knows and intends."""

    settings: HerderSettings
    cluster: ClusterState = field(default_factory=ClusterState)
    statuses: StatusState = field(default_factory=StatusState)
    membership: Membership = Membership()
    requests: Requests = Requests()
    fencing: Fencing = Fencing()
    running: RunningWork = RunningWork()
    next_number: int = 1  # for runs and tickets

    def may_write(self) -> bool:
        """Whether this worker leads, and no earlier leader can write any more."""
        access = self.membership.leadership.access
        return self.membership.leads and (
            not self.settings.transactional or isinstance(access, WriteAccess)
        )

    def may_ask_fence(self) -> bool:
        """Whether there is a leader to ask for a round of fencing."""
        if not self.membership.may_start():
            return False
        return self.may_write() if self.membership.leads else self.membership.leader_url is not None


def next_wakeup(state: HerderState) -> int | None:
    """When a `Tick` is due, if nothing else happens before."""
    membership, running = state.membership, state.running
    times = [write.deadline for write in state.requests.writes.values()]
    times += [retry.at for retry in running.retries.values() if retry.at is not None]
    times += [asking.at for asking in running.asking.values() if asking.at is not None]
    if membership.may_start():
        times += [
            recovery.at for recovery in running.recoveries.values() if recovery.at is not None
        ]
    phase = membership.phase
    back_at = phase.retry_at if isinstance(phase, BackingOff) else None
    due = (membership.rejoin_at, back_at, key_due(state), access_due(state))
    times += [at for at in due if at is not None]
    if state.fencing.preflights and state.may_ask_fence():
        preflights = state.fencing.preflights.values()
        times += [
            preflight.at for preflight in preflights if not (preflight.ticket or preflight.granted)
        ]
    return min(times, default=None)


def key_due(state: HerderState) -> int | None:
    """When this worker has to make a session key; only the leader of a signing group does."""
    member, key, settings = state.membership.member, state.cluster.session_key, state.settings
    if member is None or not member.leads or member.protocol != "sessioned":
        return None
    rotation = state.requests.key
    if rotation.pending or not (state.membership.may_start() and state.may_write()):
        return None
    if key is None or not settings.makes(key):
        return rotation.retry_at
    return max(key.created_ms + settings.key_ttl_ms, rotation.retry_at)


def access_due(state: HerderState) -> int | None:
    """When this worker has to acquire write access to the config topic; only a leader does, and
    only where leaders write in transactions."""
    membership = state.membership
    if not state.settings.transactional or not membership.leads or membership.stopping:
        return None
    access = membership.leadership.access
    return access.retry_at if isinstance(access, NoAccess) else None


K = TypeVar("K")
V = TypeVar("V")


def with_entry(table: Mapping[K, V], key: K, value: V | None) -> Mapping[K, V]:
    """The table with `key` set to `value`, or without it."""
    if value is None and key not in table:
        return table
    changed = dict(table)
    if value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed
