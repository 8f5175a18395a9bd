"""What a task's flow consists of, as a value: everything the query and its Python stage need.

A plan is complete (no look-ups later), picklable (it travels to Spark's Python workers), and can be
printed: `describe` is what users see when they ask what a task will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.api import Converter, Offsets, SinkConnector, SourceConnector
from penstock.config.define import Config
from penstock.config.regex import compile_java
from penstock.ids import TaskId

Settings = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class ConverterPlan:
    """A converter class with the settings it is made from."""

    kind: type[Converter]
    config: Config

    def build(self, *, is_key: bool) -> Converter:
        return self.kind(self.config, is_key=is_key)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What becomes of records that fail (`errors.*`)."""

    tolerate_all: bool = False
    log: bool = False
    log_messages: bool = False


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """One group of `topic.creation.*`: which topics it is for and how they are made."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    partitions: int
    replication: int
    settings: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        def any_of(patterns: Sequence[str]) -> bool:
            return any(compile_java(pattern).fullmatch(topic) for pattern in patterns)

        return any_of(self.include) and not any_of(self.exclude)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """One source task: what to read from where on, and how its records go to Kafka."""

    task: TaskId
    run: int  # which start of the task this is; results of an older one are not mistaken for ours
    connector: type[SourceConnector]
    config: Config
    key: ConverterPlan
    value: ConverterPlan
    tolerance: Tolerance
    producer: Settings = field(repr=False)  # librdkafka's names; may hold secrets
    topic_groups: tuple[TopicGroup, ...]  # empty: topics are the broker's business
    start: Offsets

    def describe(self) -> str:
        """The flow on a few lines, for people."""
        read = f"{self.connector.__name__} from {[dict(o.offset or {}) for o in self.start]}"
        return (
            f"{self.task}: read {read}\n"
            f"  convert key {self.key.kind.__name__}, value {self.value.kind.__name__}\n"
            f"  produce to {self.producer.get('bootstrap.servers')}"
        )


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One sink task: what to consume, and how its records go to the target."""

    task: TaskId
    run: int
    connector: type[SinkConnector]
    config: Config
    key: ConverterPlan
    value: ConverterPlan
    tolerance: Tolerance
    topics: tuple[str, ...]
    topics_regex: str | None
    consumer: Settings = field(repr=False)  # the group member, in librdkafka's names
    spark_kafka: Mapping[str, str] = field(repr=False)  # the reader, in Java's names

    def describe(self) -> str:
        """The flow on a few lines, for people."""
        what = self.topics_regex or ", ".join(self.topics)
        return (
            f"{self.task}: consume {what} as {self.consumer.get('group.id')}\n"
            f"  convert key {self.key.kind.__name__}, value {self.value.kind.__name__}\n"
            f"  write with {self.connector.__name__}"
        )


FlowPlan = SourcePlan | SinkPlan
