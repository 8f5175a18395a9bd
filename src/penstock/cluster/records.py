"""Bytes ⇄ value for every record of the config and status topics (kafka-connect.md §4). Those of
the offset topic are in `offset_records`.

- Writers are byte-exact: compact JSON without an envelope, members in the order of the JVM worker,
  spelled as Jackson spells it (`jackson`).
- Readers accept any member order and ignore members they do not know. Records to skip are returned
  as `SkippedRecord` with the reason; a reader never raises.
- A meaningful tombstone is a record whose content is None; others are skipped.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

import orjson

from penstock.cluster.jackson import dump
from penstock.errors import DataError
from penstock.ids import TaskId

RawProps = Mapping[str, str | None]
"""Properties as stored in the config topic: unresolved, and a value may be null."""


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that must have no effect, and why.

    `unreadable` means the value was not JSON at all. The JVM worker does not advance its config
    offset past such a record, and the group only starts work at equal offsets, so neither do we.
    """

    reason: str
    unreadable: bool = False


class Target(StrEnum):
    """The state a user wants a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A connector's raw configuration; None when the connector is deleted."""

    connector: str
    properties: RawProps | None


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """One task's raw configuration; without effect until the connector's next `TaskCommit`."""

    task: TaskId
    properties: RawProps


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """The task configurations written before are the connector's new task set of this size."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TargetState:
    """The target state of a connector; None forgets it."""

    connector: str
    state: Target | None


@dataclass(frozen=True, slots=True)
class TaskFencing:
    """The producers of all task sets up to one of this size have been fenced (KIP-618)."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between workers (KIP-507)."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """An event: restart this connector, its tasks too, or only what failed (KIP-745)."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """An event: every worker sets this logger's level (KIP-976)."""

    namespace: str
    level: str


ConfigRecord = (
    ConnectorConfig
    | TaskConfig
    | TaskCommit
    | TargetState
    | TaskFencing
    | SessionKey
    | RestartRequest
    | LoggerLevel
)

_TARGET_STATE: Final = "target-state-"
_CONNECTOR: Final = "connector-"
_TASK: Final = "task-"
_COMMIT: Final = "commit-"
_RESTART: Final = "restart-connector-"
_FENCING: Final = "tasks-fencing-"
_SESSION_KEY: Final = "session-key"
_LOGGER: Final = "logger-cluster-"

_LONGEST_NAME: Final = 32_767
"""In bytes: the limit of a string in the group protocol (kafka-connect.md §5.2)."""


def encode_config(record: ConfigRecord) -> tuple[bytes, bytes | None]:
    """The key and value of a config topic record."""
    match record:
        case ConnectorConfig(connector, None):
            return _key_bytes(_CONNECTOR + connector), None
        case ConnectorConfig(connector, properties):
            return _key_bytes(_CONNECTOR + connector), dump({"properties": properties})
        case TaskConfig(task, properties):
            return _key_bytes(f"{_TASK}{task}"), dump({"properties": properties})
        case TaskCommit(connector, tasks):
            return _key_bytes(_COMMIT + connector), dump({"tasks": tasks})
        case TargetState(connector, None):
            return _key_bytes(_TARGET_STATE + connector), None
        case TargetState(connector, state):
            # KIP-875: workers that do not know STOPPED read `state` and see PAUSED.
            older = Target.PAUSED if state is Target.STOPPED else state
            return _key_bytes(_TARGET_STATE + connector), dump({"state": older, "state.v2": state})
        case TaskFencing(connector, tasks):
            return _key_bytes(_FENCING + connector), dump({"task-count": tasks})
        case SessionKey(key, algorithm, created_ms):
            members = {
                "key": b64encode(key).decode("ascii"),
                "algorithm": algorithm,
                "creation-timestamp": created_ms,
            }
            return _key_bytes(_SESSION_KEY), dump(members)
        case RestartRequest(connector, include_tasks, only_failed):
            flags = {"include-tasks": include_tasks, "only-failed": only_failed}
            return _key_bytes(_RESTART + connector), dump(flags)
        case LoggerLevel(namespace, level):
            return _key_bytes(_LOGGER + namespace), dump({"level": level})
        case _:
            assert_never(record)


def decode_config(key: bytes | None, value: bytes | None) -> ConfigRecord | SkippedRecord:
    """The record behind a config topic key and value, or why it has no effect."""
    content = load(value)
    if isinstance(content, SkippedRecord):
        return content
    name = _key_text(key)
    if isinstance(name, SkippedRecord):
        return name
    for prefix, read in _CONFIG_KEYS:
        if name.startswith(prefix):
            return read(name[len(prefix) :], content)
    if name == _SESSION_KEY:
        return _session_key(content)
    if name.startswith(_LOGGER):
        return _logger_level(name[len(_LOGGER) :], content)
    return SkippedRecord(f"unknown key '{name}'")


def _connector_config(connector: str, content: object) -> ConnectorConfig | SkippedRecord:
    if len(connector.encode()) > _LONGEST_NAME:
        return SkippedRecord(
            f"a name of more than {_LONGEST_NAME} bytes cannot be assigned to a worker"
        )
    if content is None:
        return ConnectorConfig(connector, None)
    properties = _properties(content)
    if isinstance(properties, SkippedRecord):
        return properties
    return ConnectorConfig(connector, properties)


def _task_config(rest: str, content: object) -> TaskConfig | SkippedRecord:
    connector, hyphen, number = rest.rpartition("-")
    index = _index(number)
    if not hyphen or index is None:
        return SkippedRecord(f"'{_TASK}{rest}' is not the key of a task")
    if content is None:
        return SkippedRecord(f"the configuration of task {rest} is null")
    properties = _properties(content)
    if isinstance(properties, SkippedRecord):
        return properties
    return TaskConfig(TaskId(connector, index), properties)


def _task_commit(connector: str, content: object) -> TaskCommit | SkippedRecord:
    tasks = _count(content, "tasks")
    return tasks if isinstance(tasks, SkippedRecord) else TaskCommit(connector, tasks)


def _target_state(connector: str, content: object) -> TargetState | SkippedRecord:
    if content is None:
        return TargetState(connector, None)
    if not isinstance(content, dict):
        return SkippedRecord(_not_an_object(content))
    state: object = content.get("state.v2")
    if not isinstance(state, str):
        state = content.get("state")
    if isinstance(state, str) and state in Target.__members__:
        return TargetState(connector, Target(state))
    return SkippedRecord(f"unknown target state {state!r}")


def _restart_request(connector: str, content: object) -> RestartRequest | SkippedRecord:
    if not isinstance(content, dict):
        return SkippedRecord(_not_an_object(content))
    return RestartRequest(
        connector,
        include_tasks=content.get("include-tasks") is True,
        only_failed=content.get("only-failed") is True,
    )


def _task_fencing(connector: str, content: object) -> TaskFencing | SkippedRecord:
    tasks = _count(content, "task-count")
    return tasks if isinstance(tasks, SkippedRecord) else TaskFencing(connector, tasks)


def _session_key(content: object) -> SessionKey | SkippedRecord:
    if not isinstance(content, dict):
        return SkippedRecord(_not_an_object(content))
    match (content.get("key"), content.get("algorithm"), content.get("creation-timestamp")):
        case (str(key), str(algorithm), int(created_ms)) if not isinstance(created_ms, bool):
            try:
                return SessionKey(b64decode(key, validate=True), algorithm, created_ms)
            except ValueError:
                return SkippedRecord("the session key is not Base64")
        case _:
            return SkippedRecord("the session key lacks a member or has one of the wrong type")


def _logger_level(namespace: str, content: object) -> LoggerLevel | SkippedRecord:
    if not isinstance(content, dict):
        return SkippedRecord(_not_an_object(content))
    level: object = content.get("level")
    if not isinstance(level, str):
        return SkippedRecord(f"the level of logger '{namespace}' is not a string")
    return LoggerLevel(namespace, level)


_CONFIG_KEYS: Final[
    tuple[tuple[str, Callable[[str, object], ConfigRecord | SkippedRecord]], ...]
] = (
    (_TARGET_STATE, _target_state),
    (_CONNECTOR, _connector_config),
    (_TASK, _task_config),
    (_COMMIT, _task_commit),
    (_RESTART, _restart_request),
    (_FENCING, _task_fencing),
)
"""Key prefixes in the order they are tried; the session key and the loggers come after them."""


class State(StrEnum):
    """The state a connector or task is in. DESTROYED is written as a tombstone."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


VERSIONED: Final = frozenset({State.RUNNING, State.PAUSED, State.STOPPED, State.FAILED})
"""The states with which a 4.3.1 worker reports the version of the plugin it runs, or ran."""


@dataclass(frozen=True, slots=True)
class Status:
    """A state, who reported it, in which group generation, and the version of the running plugin;
    None if the reporter omits it, as workers before 4.1 do, and 4.2 sometimes does for
    UNASSIGNED."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector's status; None when it is gone."""

    connector: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task's status; None when it is gone."""

    task: TaskId
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicUse:
    """The first task seen to use a topic, and when."""

    task: int
    discovered_ms: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A connector uses a topic (KIP-558); None to forget it."""

    topic: str
    connector: str
    use: TopicUse | None


StatusRecord = ConnectorStatus | TaskStatus | TopicStatus

_CONNECTOR_STATUS: Final = "status-connector-"
_TASK_STATUS: Final = "status-task-"
_TOPIC_STATUS: Final = "status-topic-"
_TOPIC_SEPARATOR: Final = ":connector-"


def encode_status(record: StatusRecord) -> tuple[bytes, bytes | None]:
    """The key and value of a status topic record; DESTROYED becomes a tombstone."""
    match record:
        case ConnectorStatus(connector, status):
            return _key_bytes(_CONNECTOR_STATUS + connector), _status_value(status)
        case TaskStatus(task, status):
            return _key_bytes(f"{_TASK_STATUS}{task}"), _status_value(status)
        case TopicStatus(topic, connector, use):
            key = _key_bytes(f"{_TOPIC_STATUS}{topic}{_TOPIC_SEPARATOR}{connector}")
            if use is None:
                return key, None
            members = {
                "name": topic,
                "connector": connector,
                "task": use.task,
                "discoverTimestamp": use.discovered_ms,
            }
            return key, dump({"topic": members})
        case _:
            assert_never(record)


def _status_value(status: Status | None) -> bytes | None:
    if status is None or status.state is State.DESTROYED:
        return None
    return dump(
        {
            "state": status.state,
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }
    )


def decode_status(key: bytes | None, value: bytes | None) -> StatusRecord | SkippedRecord:
    """The record behind a status topic key and value, or why it has no effect."""
    content = load(value)
    if isinstance(content, SkippedRecord):
        return content
    name = _key_text(key)
    if isinstance(name, SkippedRecord):
        return name
    if name.startswith(_CONNECTOR_STATUS):
        return _connector_status(name[len(_CONNECTOR_STATUS) :], content)
    if name.startswith(_TASK_STATUS):
        return _task_status(name[len(_TASK_STATUS) :], content)
    if name.startswith(_TOPIC_STATUS):
        return _topic_status(name[len(_TOPIC_STATUS) :], content)
    return SkippedRecord(f"unknown key '{name}'")


def _connector_status(connector: str, content: object) -> ConnectorStatus | SkippedRecord:
    if not connector:
        return SkippedRecord("the key does not name a connector")
    status = None if content is None else _status(content)
    return status if isinstance(status, SkippedRecord) else ConnectorStatus(connector, status)


def _task_status(rest: str, content: object) -> TaskStatus | SkippedRecord:
    connector, hyphen, number = rest.rpartition("-")
    index = _index(number)
    if not hyphen or index is None:
        return SkippedRecord(f"'{_TASK_STATUS}{rest}' is not the key of a task")
    status = None if content is None else _status(content)
    if isinstance(status, SkippedRecord):
        return status
    return TaskStatus(TaskId(connector, index), status)


def _status(content: object) -> Status | SkippedRecord:
    if not isinstance(content, dict):
        return SkippedRecord(_not_an_object(content))
    state: object = content.get("state")
    worker_id: object = content.get("worker_id")
    generation = _integer(content.get("generation"))
    trace: object = content.get("trace")
    if not isinstance(state, str) or state not in State.__members__:
        return SkippedRecord(f"unknown state {state!r}")
    if not isinstance(worker_id, str) or generation is None:
        return SkippedRecord("the status lacks a worker_id or an integer generation")
    if trace is not None and not isinstance(trace, str):
        return SkippedRecord("the trace is not a string")
    version: object = content.get("version")
    return Status(
        State(state), worker_id, generation, trace, version if isinstance(version, str) else None
    )


def _topic_status(rest: str, content: object) -> TopicStatus | SkippedRecord:
    topic, colon, tail = rest.partition(":")
    connector = (colon + tail).removeprefix(_TOPIC_SEPARATOR)
    if not topic or not connector or connector == colon + tail:
        return SkippedRecord(f"'{_TOPIC_STATUS}{rest}' does not name a topic and a connector")
    if content is None:
        return TopicStatus(topic, connector, None)
    inner: object = content.get("topic") if isinstance(content, dict) else None
    if not isinstance(inner, dict):
        return SkippedRecord("the value has no object called 'topic'")
    task = _integer(inner.get("task"))
    discovered_ms = _integer(inner.get("discoverTimestamp"))
    if task is None or discovered_ms is None:
        return SkippedRecord("the topic status lacks an integer task or discoverTimestamp")
    return TopicStatus(topic, connector, TopicUse(task, discovered_ms))


def load(value: bytes | None) -> object:
    """The JSON value; None for a tombstone, null and blank; `SkippedRecord` for invalid JSON."""
    if value is None or not value.strip():
        return None
    try:
        content: object = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return SkippedRecord(f"the value is not JSON: {error}", unreadable=True)
    return content


def _key_bytes(key: str) -> bytes:
    try:
        return key.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"The record's key is not valid Unicode: {error}") from error


def _key_text(key: bytes | None) -> str | SkippedRecord:
    if key is None:
        return SkippedRecord("the record has no key")
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return SkippedRecord("the key is not UTF-8")


def _properties(content: object) -> RawProps | SkippedRecord:
    properties: object = content.get("properties") if isinstance(content, dict) else None
    if not isinstance(properties, dict):
        return SkippedRecord("the value has no object called 'properties'")
    for name, value in properties.items():
        if value is not None and not isinstance(value, str):
            return SkippedRecord(f"the property '{name}' is not a string")
    return properties


def _count(content: object, name: str) -> int | SkippedRecord:
    count = _integer(content.get(name)) if isinstance(content, dict) else None
    if count is None or count < 0:
        return SkippedRecord(f"the value has no count called '{name}'")
    return count


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _index(text: str) -> int | None:
    """The task number in a key; Java's parser accepts neither blanks nor underscores."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    number = int(text)
    return number if number < 2**31 else None


def _not_an_object(content: object) -> str:
    return f"the value is {type(content).__name__}, not an object"
