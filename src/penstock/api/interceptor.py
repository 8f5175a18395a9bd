"""The contract of interceptors: they see what a task's producer sends and its consumer reads.

An interceptor is created in the task's process when the task starts. One thread calls it there,
with batches: keys, values and header values are bytes. Its exceptions are logged, and no record is
lost.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.data.records import Records
from penstock.ids import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class Figure:
    """A number for `/metrics`; every figure gets the labels `connector` and `task`, too.

    If its name ends in `_total`, it counts up from 0 as long as the interceptor lives. `help`
    describes it in `/metrics`.
    """

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    help: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Records that Kafka has acknowledged in one topic partition: their number, the last offset,
    and the time since `on_send`, total and maximum, in milliseconds."""

    records: int
    last_offset: int
    ms: float
    ms_max: float


@dataclass(frozen=True, slots=True)
class StageDone:
    """A batch has passed a stage of a task: `convert` (converters and transforms) or `put` (a
    sink's writer). Times are in nanoseconds since the epoch; `failed` of its records failed."""

    stage: str
    records: int
    failed: int
    began_ns: int
    ended_ns: int
    error: str | None = None  # of a batch that is retried, or that fails the task


class InterceptorContext(Protocol):
    """An interceptor's context."""

    @property
    def task(self) -> TaskId:
        """The task whose client it belongs to."""


class Interceptor(ABC):
    """What interceptors of producers and consumers have in common."""

    plugin: ClassVar[Plugin]

    def __init__(self, config: Config, context: InterceptorContext) -> None:
        """`config` has the client's settings under Kafka's names, parsed by `plugin.config`."""
        self.config = config
        self.context = context

    def on_stage(self, done: StageDone) -> None:  # noqa: B027
        """A batch has passed a stage of the task."""

    def figures(self) -> Iterable[Figure]:
        """The current figures; called about once a second, by another thread."""
        return ()

    def close(self) -> None:  # noqa: B027
        """The last call: the task ends."""


class ProducerInterceptor(Interceptor):
    """Sees what a source task sends."""

    def on_send(self, records: Records) -> Records:
        """Returns the records to send: these, or changed ones. Topics, partitions (None: the
        producer chooses) and timestamps are those of the batch. May drop records."""
        return records

    def on_acknowledgement(
        self,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        refused: Sequence[tuple[str, str]],
    ) -> None:
        """The results of the records sent since the last call: those acknowledged, and the topic
        and error of each record that Kafka refused."""


class ConsumerInterceptor(Interceptor):
    """Sees what a sink task reads."""

    def on_consume(self, records: Records) -> Records:
        """Returns the records of one topic partition to convert: these, or changed ones. May drop
        records."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Offsets were committed."""
