"""What a worker knows and intends, as one value; and when it has to look at it again.

`herder.step` makes the next one of it. Nothing here decides anything. Sources: reference §4.2,
§5.3, §6; KIP-415, KIP-507, KIP-618.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from penstock.cluster import events as e
from penstock.cluster.assign import Item, Memory
from penstock.cluster.fencing import Preflight, Round
from penstock.cluster.protocol import NO_WORK, VERSIONS, Assignment, Work
from penstock.cluster.records import ConfigRecord, RawProps, State
from penstock.cluster.recovery import NO_RESTARTS, Recovery, RestartPolicy
from penstock.cluster.state import ClusterState
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId


def _no_source(config: RawProps) -> bool:
    return False


def _no_restarts(config: RawProps) -> RestartPolicy:
    return NO_RESTARTS


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker knows of itself before anything happened.

    `is_source` says whether a connector's configuration is a source connector's, `restarts` how
    what fails of it is restarted; both always say the same of the same configuration.
    `transactional`: leaders write in transactions; `exactly_once`: source tasks do, too.
    """

    url: str
    worker_id: str
    max_delay_ms: int = 300_000
    sync_timeout_ms: int = 3_000
    unsync_backoff_ms: int = 300_000
    key_ttl_ms: int = 3_600_000
    key_algorithm: str = "HmacSHA256"
    topic_tracking: bool = True
    transactional: bool = False  # exactly.once.source.support is preparing or enabled
    exactly_once: bool = False  # … is enabled
    is_source: Callable[[RawProps], bool] = _no_source
    restarts: Callable[[RawProps], RestartPolicy] = _no_restarts


@dataclass(frozen=True, slots=True)
class Member:
    """This worker's place in the group since the last completed round."""

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


class Phase(Enum):
    """Where a connector instance or task is on this worker."""

    WAITING = "waiting"  # a task, for Spark to be there
    FENCING = "fencing"  # a task, for the older tasks of its connector to be fenced
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    PAUSED = "paused"  # nothing runs because the target state says so
    STOPPED = "stopped"  # the same of a connector whose target state is STOPPED
    FAILED = "failed"


PHASE_MOVES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.WAITING: frozenset({Phase.FENCING, Phase.STARTING, Phase.PAUSED}),
    Phase.FENCING: frozenset({Phase.STARTING, Phase.PAUSED, Phase.FAILED}),
    Phase.STARTING: frozenset({Phase.RUNNING, Phase.FAILED}),
    Phase.RUNNING: frozenset({Phase.STOPPING, Phase.FAILED}),
    Phase.STOPPING: frozenset(),  # ends by leaving the table; what comes next begins anew
    Phase.PAUSED: frozenset({Phase.WAITING, Phase.FENCING, Phase.STARTING}),
    Phase.FAILED: frozenset({Phase.WAITING, Phase.FENCING, Phase.STARTING, Phase.PAUSED}),
}
"""How the phases of a task follow each other; absent tasks begin in WAITING, FENCING, STARTING or
PAUSED.

A connector has no STOPPING: its instance plans tasks and holds nothing, so a new one may replace
it in any phase.
"""


SHOWN: Final[Mapping[Phase, State]] = {
    Phase.RUNNING: State.RUNNING,
    Phase.PAUSED: State.PAUSED,
    Phase.STOPPED: State.STOPPED,
    Phase.FAILED: State.FAILED,
}
"""The status of what stays in a phase; the other phases end by themselves."""


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a connector instance or task; `stale`: it has to be started anew."""

    run: int
    phase: Phase
    stale: bool = False
    trace: str | None = None  # why it failed


@dataclass(frozen=True, slots=True)
class Write:
    """Config records on their way: what was appended, who waits, and what follows.

    Writes about one connector follow each other: two task sets whose records mix would commit a
    set with holes (reference §4.3).
    """

    connector: str | None  # None: the session key
    reply: e.Reply | None  # None: this worker wants it itself
    result: e.Result
    deadline: int
    then: tuple[tuple[ConfigRecord, ...], ...] = ()  # groups of records still to append, in order
    read_back: bool = True  # whether it is done when read back, or already when stored
    offset: int | None = None  # of its last record, once stored
    round: int | None = None  # the round of fencing that ends with it


class Claim(Enum):
    """Whether a leader may write, where that takes a producer that fences its predecessors."""

    NONE = "none"
    ASKED = "asked"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Retry:
    """A task set could not be published; the connector is asked again at `at` (None: it is)."""

    at: int | None
    attempts: int


@dataclass(frozen=True, slots=True)
class Asking:
    """A running connector is asked for its tasks every so often, next `at` (None: it is, and
    `again`: what it says may be from before its request, so it is asked once more)."""

    at: int | None
    every_ms: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class HerderState:
    """Everything a worker knows and intends."""

    settings: Settings
    cluster: ClusterState = field(default_factory=ClusterState)
    statuses: StatusState = field(default_factory=StatusState)
    memory: Memory = field(default_factory=Memory)
    member: Member | None = None
    last_generation: int = -1  # of the last round that was completed
    ready: bool = False  # the topics have been read once
    spark_ready: bool = False
    held: bool = False  # out of the group until Spark is there
    stopping: bool = False
    left: bool = False
    joining: bool = False  # a round was asked for and is not complete
    metadata_for: e.Reply | None = None  # who waits to be told what runs here
    syncing: bool = False  # the config topic is being read to its end
    offered: Assignment | None = None  # one this worker may not begin with yet
    assigned: Work = NO_WORK
    handing_over: Work = NO_WORK  # revoked, and not all of it has stopped
    rejoin_at: int | None = None  # the delay of held back work ends
    out: bool = False  # of the group, until the config topic can be read
    back_at: int | None = None  # when that is tried again
    waits: int = 0  # how often this worker has waited for that, and kept what it runs
    owners: Mapping[Item, str] = field(default_factory=dict)  # as this leader has shared out: URLs
    connectors: Mapping[str, Run] = field(default_factory=dict)
    tasks: Mapping[TaskId, Run] = field(default_factory=dict)
    writes: Mapping[int, Write] = field(default_factory=dict)
    queued: tuple[tuple[e.Reply, e.Operation], ...] = ()
    plans: Mapping[str, tuple[RawProps, ...]] = field(default_factory=dict)  # to be published
    retries: Mapping[str, Retry] = field(default_factory=dict)
    asking: Mapping[str, Asking] = field(default_factory=dict)
    recoveries: Mapping[Item, Recovery] = field(default_factory=dict)  # of what runs here
    making_key: bool = False  # until it is read back
    key_retry_at: int = 0
    claim: Claim = Claim.NONE
    claim_ticket: int = 0
    claim_at: int = 0  # not to be asked for before
    rounds: Mapping[str, Round] = field(default_factory=dict)  # of fencing, as leader
    preflights: Mapping[str, Preflight] = field(default_factory=dict)
    next_number: int = 1  # for runs and tickets

    def running(self) -> Work:
        """What the group has to be told this worker runs."""
        # What is on its way out comes first, for that is where balancing takes from: so a round
        # that begins meanwhile takes it again, and not something else.
        return self.handing_over.plus(self.assigned) if self.handing_over else self.assigned

    def settled(self) -> bool:
        """Between rounds: everybody knows who leads and who owns what."""
        return self.member is not None and not self.joining and self.offered is None

    def may_start(self) -> bool:
        return self.settled() and not self.stopping

    def may_write(self) -> bool:
        """Whether this worker leads, and nobody else can write as leader any more."""
        leads = self.member is not None and self.member.leads
        return leads and (not self.settings.transactional or self.claim is Claim.HELD)

    def may_ask_fence(self) -> bool:
        """Whether there is somebody to ask for a round of fencing."""
        if self.member is None or not self.may_start():
            return False
        return self.may_write() if self.member.leads else bool(self.member.leader_url)


def next_wakeup(state: HerderState) -> int | None:
    """When a `Tick` is due, if nothing else happens before."""
    times = [write.deadline for write in state.writes.values()]
    times += [retry.at for retry in state.retries.values() if retry.at is not None]
    times += [asking.at for asking in state.asking.values() if asking.at is not None]
    if state.may_start():
        times += [each.at for each in state.recoveries.values() if each.at is not None]
    due = (state.rejoin_at, state.back_at, key_due(state), claim_due(state))
    times += [at for at in due if at is not None]
    if state.preflights and state.may_ask_fence():
        times += [
            each.at for each in state.preflights.values() if not (each.ticket or each.granted)
        ]
    return min(times, default=None)


def key_due(state: HerderState) -> int | None:
    """When this worker has to make a session key; only the leader of a signing group does."""
    member, key, settings = state.member, state.cluster.session_key, state.settings
    if member is None or not member.leads or member.protocol != "sessioned":
        return None
    if state.making_key or not (state.may_start() and state.may_write()):
        return None
    if key is None or key.algorithm != settings.key_algorithm:
        return state.key_retry_at
    return max(key.created_ms + settings.key_ttl_ms, state.key_retry_at)


def claim_due(state: HerderState) -> int | None:
    """When this worker has to claim the config topic; only a leader does, where it has to."""
    if not state.settings.transactional or state.member is None or not state.member.leads:
        return None
    return None if state.stopping or state.claim is not Claim.NONE else state.claim_at


K = TypeVar("K")


class Runs(Generic[K]):
    """What runs, being changed: copied at the first change, however many follow.

    `touched` are the keys to be looked at again: with a thousand tasks, one that has started must
    not cost a look at all the others.
    """

    def __init__(self, rows: Mapping[K, Run]) -> None:
        self._rows = rows
        self._own: dict[K, Run] | None = None
        self.touched: dict[K, None] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def items(self) -> Iterable[tuple[K, Run]]:
        return self._rows.items()

    def get(self, key: K) -> Run | None:
        return self._rows.get(key)

    def touch(self, keys: Iterable[K]) -> None:
        self.touched |= dict.fromkeys(keys)

    def touch_unsettled(self, wanted: Iterable[K]) -> None:
        """Touches what could not go on before, or has not begun yet."""
        idle = (
            key for key, run in self._rows.items() if run.stale or run.phase is not Phase.RUNNING
        )
        self.touch(idle)
        self.touch(key for key in wanted if key not in self._rows)

    def set(self, key: K, run: Run | None) -> None:
        if self._own is None:
            self._rows = self._own = dict(self._rows)
        self.touched[key] = None
        if run is None:
            self._own.pop(key, None)
        else:
            self._own[key] = run

    def frozen(self) -> Mapping[K, Run]:
        return self._rows
