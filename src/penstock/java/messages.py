"""The protocol between a worker and its Java host: orders and their answers, and events.

A frame is JSON after its length in four bytes, big-endian. `JavaHost.java` is the other side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from penstock.cluster.records import RawProps
from penstock.errors import PenstockError
from penstock.ids import TaskId

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FindPlugins:
    """List the plugins of `plugin.path`; needs no `OpenHost`."""

    worker: RawProps


@dataclass(frozen=True, slots=True)
class OpenHost:
    """Connect to Kafka, with the worker's settings; comes before all orders below."""

    worker: RawProps
    worker_id: str
    kafka_cluster: str


@dataclass(frozen=True, slots=True)
class Validate:
    """Validate a connector's configuration: `ConfigInfos`."""

    config: RawProps


@dataclass(frozen=True, slots=True)
class StartJavaConnector:
    """Start a connector instance. Its events carry `run`."""

    connector: str
    run: int
    config: RawProps


@dataclass(frozen=True, slots=True)
class StopJavaConnector:
    """Stop a connector instance, if it runs."""

    connector: str


@dataclass(frozen=True, slots=True)
class GenerateTaskConfigs:
    """Have a running connector instance generate its task configurations: a list of them."""

    connector: str
    config: RawProps


@dataclass(frozen=True, slots=True)
class StartJavaTask:
    """Start a task; false if it could not be created, which `JavaTaskFailed` explains.
    `exactly_once`: it waits for `AllowStart` when its producer is ready."""

    task: TaskId
    run: int
    config: RawProps
    task_config: RawProps
    exactly_once: bool


@dataclass(frozen=True, slots=True)
class AllowStart:
    """The answer to `ProducerReady`; a `refusal` fails the task."""

    task: TaskId
    run: int
    refusal: str | None


@dataclass(frozen=True, slots=True)
class StopJavaTask:
    """Stop a task, or forget one that has failed; it is cancelled when its time has passed."""

    task: TaskId
    run: int


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """List a connector's offsets: `ConnectorOffsets`."""

    connector: str
    config: RawProps


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Alter a stopped connector's offsets, or reset them if they are None: `Message`."""

    connector: str
    config: RawProps
    offsets: Sequence[Json] | None


@dataclass(frozen=True, slots=True)
class CloseHost:
    """Stop all connectors and tasks."""


Order = (
    FindPlugins
    | OpenHost
    | Validate
    | StartJavaConnector
    | StopJavaConnector
    | GenerateTaskConfigs
    | StartJavaTask
    | AllowStart
    | StopJavaTask
    | ReadOffsets
    | AlterOffsets
    | CloseHost
)


@dataclass(frozen=True, slots=True)
class Cause:
    """An error in the host: its class, message and Java's stack trace. `retriable`: it says so."""

    class_name: str
    message: str
    trace: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class JavaConnectorFailed:
    """A running connector instance raised an error."""

    connector: str
    run: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class JavaReconfiguration:
    """A connector instance requests a reconfiguration of its tasks."""

    connector: str
    run: int


@dataclass(frozen=True, slots=True)
class JavaTaskStarted:
    """A task has initialized and started its plugin."""

    task: TaskId
    run: int


@dataclass(frozen=True, slots=True)
class JavaTaskFailed:
    """A task could not be created or started, or has failed."""

    task: TaskId
    run: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ProducerReady:
    """An exactly-once task has fenced its predecessor's producer, and waits for `AllowStart`."""

    task: TaskId
    run: int


@dataclass(frozen=True, slots=True)
class Exiting:
    """A plugin has called `System.exit`: in which thread, and from where."""

    thread: str
    trace: str


Event = (
    JavaConnectorFailed
    | JavaReconfiguration
    | JavaTaskStarted
    | JavaTaskFailed
    | ProducerReady
    | Exiting
)


class JavaError(PenstockError):
    """An order failed in the host, usually in a plugin's code."""

    def __init__(self, cause: Cause) -> None:
        self.cause = cause
        self.java_name = cause.class_name  # type: ignore[misc]  # of this error, not of its class
        super().__init__(cause.message or cause.class_name)


def encoded(number: int, order: Order) -> Json:
    """An order as JSON; `number` ties the answer to it."""
    return {"id": number, **_fields(order)}


def _fields(order: Order) -> Json:
    match order:
        case FindPlugins():
            return {"do": "find", "worker": order.worker}
        case OpenHost():
            return {
                "do": "open",
                "worker": order.worker,
                "workerId": order.worker_id,
                "kafkaCluster": order.kafka_cluster,
            }
        case Validate():
            return {"do": "validate", "config": order.config}
        case StartJavaConnector():
            return {
                "do": "startConnector",
                "connector": order.connector,
                "run": order.run,
                "config": order.config,
            }
        case StopJavaConnector():
            return {"do": "stopConnector", "connector": order.connector}
        case GenerateTaskConfigs():
            return {"do": "taskConfigs", "connector": order.connector, "config": order.config}
        case StartJavaTask():
            return {
                "do": "startTask",
                **_about(order.task, order.run),
                "config": order.config,
                "taskConfig": order.task_config,
                "exactlyOnce": order.exactly_once,
            }
        case AllowStart():
            return {
                "do": "allowStart",
                **_about(order.task, order.run),
                "refusal": order.refusal,
            }
        case StopJavaTask():
            return {"do": "stopTask", **_about(order.task, order.run)}
        case ReadOffsets():
            return {"do": "offsets", "connector": order.connector, "config": order.config}
        case AlterOffsets():
            return {
                "do": "alterOffsets",
                "connector": order.connector,
                "config": order.config,
                "offsets": order.offsets,
            }
        case CloseHost():
            return {"do": "close"}
        case _:
            assert_never(order)


def _about(task: TaskId, run: int) -> Json:
    return {"connector": task.connector, "task": task.number, "run": run}


def event(frame: Mapping[str, Any]) -> Event:
    """The event in a frame. Raises ValueError for an unknown one."""
    match frame["event"]:
        case "connectorFailed":
            return JavaConnectorFailed(frame["connector"], frame["run"], cause(frame["error"]))
        case "reconfigure":
            return JavaReconfiguration(frame["connector"], frame["run"])
        case "taskStarted":
            return JavaTaskStarted(_task(frame), frame["run"])
        case "taskFailed":
            return JavaTaskFailed(_task(frame), frame["run"], cause(frame["error"]))
        case "producerReady":
            return ProducerReady(_task(frame), frame["run"])
        case "exiting":
            return Exiting(frame["thread"], frame["trace"])
        case unknown:
            raise ValueError(f"unknown event {unknown!r}")


def cause(error: Mapping[str, Any]) -> Cause:
    """The error in a frame."""
    return Cause(error["class"], error["message"] or "", error["trace"], error["retriable"])


def _task(frame: Mapping[str, Any]) -> TaskId:
    return TaskId(frame["connector"], frame["task"])
