"""The contract of interceptors: they see what a task's producer sends and its consumer reads.

An interceptor is made in the task's process when the task starts, and called there, by one thread,
with batches: keys, values and the values of headers are bytes. Whatever it raises is logged, and
costs no record.
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
    """A number for `/metrics`; labels besides `connector` and `task`, which every figure gets.

    One whose name ends in `_total` counts up from 0 for as long as the interceptor lives.
    """

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What Kafka has acknowledged in one topic partition: how many records, the offset of the last
    one, and how long they took from `on_send`, in all and at most, in milliseconds."""

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
    error: str | None = None  # of a batch that is tried again, or that fails the task


class InterceptorContext(Protocol):
    """Where an interceptor is."""

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
        """The present figures, asked for about once a second; by another thread."""
        return ()

    def close(self) -> None:  # noqa: B027
        """The task ends; the last call."""


class ProducerInterceptor(Interceptor):
    """Sees what a source task sends."""

    def on_send(self, records: Records) -> Records:
        """Records that are about to be sent: these, or changed ones. Topics, partitions (None: the
        producer chooses) and timestamps are those of the batch. May leave records out."""
        return records

    def on_acknowledgement(
        self,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        refused: Sequence[tuple[str, str]],
    ) -> None:
        """What became of the records sent since the last call: those that Kafka has, and the topic
        and the error of each that it refused."""


class ConsumerInterceptor(Interceptor):
    """Sees what a sink task reads."""

    def on_consume(self, records: Records) -> Records:
        """Records of one topic partition, before they are converted: these, or changed ones. May
        leave records out."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Offsets that are committed."""
