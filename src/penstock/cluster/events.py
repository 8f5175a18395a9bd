"""A worker's events, and the commands they cause: the values that `herder.step` maps.

Events are past, commands are orders. `reply` and `ticket` are the shell's handles: the herder
returns them and never looks inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cluster.protocol import MemberMetadata
from penstock.cluster.records import ConfigRecord, RawProps, Status, StatusRecord, Target
from penstock.ids import TaskId

Reply = object
"""Who waits for an answer."""


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """Configure a new connector; its configuration has been validated."""

    connector: str
    config: RawProps
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class PutConfig:
    """Create a connector or replace its configuration, which has been validated."""

    connector: str
    config: RawProps


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    connector: str


@dataclass(frozen=True, slots=True)
class SetTarget:
    """Pause, resume or stop a connector."""

    connector: str
    target: Target


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """Restart the connector instance only."""

    connector: str


@dataclass(frozen=True, slots=True)
class RestartAll:
    """Restart the connector instance, its tasks too, or only what failed (KIP-745)."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class RestartTask:
    task: TaskId


@dataclass(frozen=True, slots=True)
class FindTask:
    """Where is a task? Done: here."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class PutTasks:
    """Publish a connector's new task set; requested by the worker that runs its instance."""

    connector: str
    configs: tuple[RawProps, ...]


@dataclass(frozen=True, slots=True)
class CheckExists:
    """Does the connector exist? Asked of the leader, whose view of the config topic counts."""

    connector: str


@dataclass(frozen=True, slots=True)
class CheckStopped:
    """May a connector's offsets be changed? Asked of the leader (KIP-875)."""

    connector: str


@dataclass(frozen=True, slots=True)
class ResetTopics:
    """Forget which topics a connector has used (KIP-558)."""

    connector: str


@dataclass(frozen=True, slots=True)
class SetLevel:
    """Have every worker set a logger's level (KIP-976)."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class FenceZombies:
    """Fence the zombie source tasks of a connector (KIP-618)."""

    connector: str


@dataclass(frozen=True, slots=True)
class CheckStart:
    """May an exactly-once task still start, now that its producer is initialized (KIP-618)?"""

    task: TaskId
    run: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class Ping:
    """Do nothing; the answer shows that the worker's loop runs."""


Operation = (
    CreateConnector
    | PutConfig
    | DeleteConnector
    | SetTarget
    | RestartConnector
    | RestartAll
    | RestartTask
    | FindTask
    | PutTasks
    | CheckExists
    | CheckStopped
    | ResetTopics
    | SetLevel
    | FenceZombies
    | CheckStart
    | Ping
)


@dataclass(frozen=True, slots=True)
class Restarting:
    """A restart request was written. The statuses are as of its acceptance, with RESTARTING where
    it applies: the workers' may be newer by the time these are shown (KIP-745)."""

    connector: Status
    tasks: Mapping[int, Status]


@dataclass(frozen=True, slots=True)
class Done:
    """The request is served; `created` when it created a connector, `restarting` when it was a
    `RestartAll`."""

    created: bool = False
    restarting: Restarting | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another worker has to serve it; `url` None: that worker is unknown."""

    url: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The request cannot be served: HTTP status and message."""

    status: int
    message: str


Result = Done | Elsewhere | Refused


@dataclass(frozen=True, slots=True)
class ConfigRead:
    """Records of the config topic, in order: offset, key, value."""

    entries: tuple[tuple[int, bytes | None, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class StatusRead:
    """Records of the status topic, in order per partition: key, value."""

    entries: tuple[tuple[bytes | None, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class LogsReady:
    """All topics have been read to their ends once; the worker may join the group.

    `others`: the group has members, which do the work meanwhile; so this worker joins only once
    Spark has started.
    """

    others: bool = False


@dataclass(frozen=True, slots=True)
class ConfigEndReached:
    """A `ReadConfigToEnd` has ended; its records were delivered before."""

    in_time: bool
    ticket: int = 0


@dataclass(frozen=True, slots=True)
class MetadataRequested:
    """A rebalance begins: the group needs this worker's metadata."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class AssignmentRequested:
    """This worker was elected leader and has to assign the work."""

    reply: Reply
    member: str
    protocol: str
    generation: int
    members: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Joined:
    """A rebalance is complete; `data` is this worker's assignment."""

    generation: int
    member: str
    protocol: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The group's coordinator has not been reachable for a heartbeat interval."""


@dataclass(frozen=True, slots=True)
class Requested:
    reply: Reply
    operation: Operation


@dataclass(frozen=True, slots=True)
class Appended:
    """Config records are stored, the last one at `offset`; or they are not, because of `error`.

    `fenced`: the leader's transactional producer was fenced or has failed for good.
    """

    ticket: int
    offset: int
    error: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class WriteAccessAcquired:
    """The elected leader acquired write access to the config topic; or it failed: `error`."""

    ticket: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ProducersFenced:
    """The zombie source tasks of a connector are fenced; or fencing failed: `error`."""

    connector: str
    ticket: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FenceForwarded:
    """The leader has fenced a connector's zombie source tasks, or why it has not."""

    connector: str
    ticket: int
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class SessionKeyMade:
    key: bytes
    algorithm: str


@dataclass(frozen=True, slots=True)
class ConnectorPlanned:
    """A connector instance runs, and has generated its task configurations; or it failed.

    `again_ms`: it generates them again after that, because its source may change.
    """

    connector: str
    run: int
    configs: tuple[RawProps, ...]
    trace: str | None = None
    retriable: bool = False
    again_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectorFailed:
    """A running connector instance has failed by itself."""

    connector: str
    run: int
    trace: str
    retriable: bool = False  # whether a retry may succeed


@dataclass(frozen=True, slots=True)
class ReconfigurationRequested:
    """A connector instance requests a reconfiguration of its tasks."""

    connector: str
    run: int


@dataclass(frozen=True, slots=True)
class TasksForwarded:
    """The leader has published a task set; or not: `error`."""

    connector: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TaskStarted:
    task: TaskId
    run: int


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task could not be started, or has failed."""

    task: TaskId
    run: int
    trace: str
    retriable: bool = False  # whether a retry may succeed


@dataclass(frozen=True, slots=True)
class TaskStopped:
    task: TaskId
    run: int


@dataclass(frozen=True, slots=True)
class TopicUsed:
    """A task has moved records of this topic."""

    task: TaskId
    topic: str


@dataclass(frozen=True, slots=True)
class SparkReady:
    """Tasks can be started without waiting for Spark."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The worker is to shut down cleanly."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    ConfigRead
    | StatusRead
    | LogsReady
    | ConfigEndReached
    | MetadataRequested
    | AssignmentRequested
    | Joined
    | CoordinatorLost
    | Requested
    | Appended
    | WriteAccessAcquired
    | ProducersFenced
    | FenceForwarded
    | SessionKeyMade
    | ConnectorPlanned
    | ConnectorFailed
    | ReconfigurationRequested
    | TasksForwarded
    | TaskStarted
    | TaskFailed
    | TaskStopped
    | TopicUsed
    | SparkReady
    | StopRequested
    | Tick
)


@dataclass(frozen=True, slots=True)
class AppendConfig:
    """Append records to the config topic, together and in order; comes back as `Appended`.

    `as_leader`: in a transaction of the producer that `AcquireWriteAccess` has initialized.
    """

    ticket: int
    records: tuple[ConfigRecord, ...]
    as_leader: bool = False


@dataclass(frozen=True, slots=True)
class AcquireWriteAccess:
    """Initialize the leader's producer, which fences those of earlier leaders; comes back as
    `WriteAccessAcquired` (KIP-618)."""

    ticket: int


@dataclass(frozen=True, slots=True)
class AppendStatus:
    record: StatusRecord


@dataclass(frozen=True, slots=True)
class NoteSkipped:
    """Log that a record of the config or status topic has no effect, and why."""

    topic: str
    at: int | None  # its offset, if known
    reason: str


@dataclass(frozen=True, slots=True)
class ReadConfigToEnd:
    """Comes back as `ConfigEndReached`."""

    timeout_ms: int
    ticket: int = 0  # 0: for the group


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Join or rejoin the group."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Leave the group until the next `JoinGroup`, but stop nothing: this worker cannot read the
    config topic (kafka-connect.md §5.6)."""


@dataclass(frozen=True, slots=True)
class ReturnMetadata:
    reply: Reply
    metadata: MemberMetadata


@dataclass(frozen=True, slots=True)
class ReturnAssignment:
    """The assignment bytes of every member."""

    reply: Reply
    shares: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class RefuseAssignment:
    """Nothing can be assigned in this rebalance: it fails, and is retried."""

    reply: Reply
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    reply: Reply
    result: Result


@dataclass(frozen=True, slots=True)
class MakeSessionKey:
    """Make a random key; comes back as `SessionKeyMade`."""


@dataclass(frozen=True, slots=True)
class StartConnector:
    """Start a connector instance and generate its task configurations; comes back as
    `ConnectorPlanned`."""

    connector: str
    run: int
    config: RawProps


@dataclass(frozen=True, slots=True)
class AskConnector:
    """Have a running connector instance generate its task configurations again; comes back as
    `ConnectorPlanned`."""

    connector: str
    run: int
    config: RawProps


@dataclass(frozen=True, slots=True)
class ForwardTasks:
    """Forward a task set to the leader; comes back as `TasksForwarded`."""

    leader_url: str
    connector: str
    configs: tuple[RawProps, ...]


@dataclass(frozen=True, slots=True)
class FenceProducers:
    """Fence the transactional ids of tasks 0 to `tasks` - 1; comes back as `ProducersFenced`."""

    connector: str
    ticket: int
    config: RawProps
    tasks: int


@dataclass(frozen=True, slots=True)
class ForwardFence:
    """Have the leader fence a connector's zombie source tasks; comes back as `FenceForwarded`."""

    leader_url: str
    connector: str
    ticket: int


@dataclass(frozen=True, slots=True)
class StartTask:
    """Comes back as `TaskStarted` or `TaskFailed`. `generation`: of the connector's task set;
    `unclean`: the task's last run, here or on a worker that died, may not have left its consumer
    group."""

    task: TaskId
    run: int
    connector_config: RawProps
    task_config: RawProps
    generation: int | None = None
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class StopTask:
    """Comes back as `TaskStopped`."""

    task: TaskId
    run: int


@dataclass(frozen=True, slots=True)
class ApplyLevel:
    """Set the level of a logger and all below it."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Everything has stopped: leave the group and end the worker."""


Command = (
    AppendConfig
    | AcquireWriteAccess
    | AppendStatus
    | NoteSkipped
    | ReadConfigToEnd
    | JoinGroup
    | BackOff
    | ReturnMetadata
    | ReturnAssignment
    | RefuseAssignment
    | Answer
    | MakeSessionKey
    | StartConnector
    | AskConnector
    | ForwardTasks
    | FenceProducers
    | ForwardFence
    | StartTask
    | StopTask
    | ApplyLevel
    | LeaveGroup
)
