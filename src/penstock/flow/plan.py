"""A task's flow as a value: everything the stage that hosts it needs.

A plan is complete (no look-ups later), names plugins by `PluginRef`, is picklable (it travels to
Spark's Python workers), and can be printed: `describe` shows users what a task will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from penstock.api import (
    ConsumerInterceptor,
    HeaderConverter,
    Predicate,
    ProducerInterceptor,
    SinkConnector,
    SourceConnector,
    Transform,
    Use,
)
from penstock.config.define import Config
from penstock.config.regex import compile_java
from penstock.ids import TaskId
from penstock.kafka.group_members import Member
from penstock.kafka.limits import ProducerLimits
from penstock.plugins.ref import PluginRef

Settings = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class ConverterPlan:
    """A converter with its settings."""

    plugin: PluginRef[HeaderConverter]
    config: Config

    def build(self, use: Use) -> HeaderConverter:
        return self.plugin.load()(self.config, use)


@dataclass(frozen=True, slots=True)
class PredicatePlan:
    """A predicate with its settings."""

    plugin: PluginRef[Predicate]
    config: Config

    def build(self) -> Predicate:
        return self.plugin.load()(self.config)


@dataclass(frozen=True, slots=True)
class TransformPlan:
    """One transform of the chain, and the predicate that selects its records."""

    alias: str
    plugin: PluginRef[Transform]
    config: Config
    predicate: PredicatePlan | None = None
    negate: bool = False

    def describe(self) -> str:
        condition = ""
        if self.predicate is not None:
            condition = f" if {'not ' if self.negate else ''}{self.predicate.plugin.name}"
        return f"{self.alias} ({self.plugin.name}{condition})"

    def build(self) -> Transform:
        return self.plugin.load()(self.config)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of records between Kafka and the connector, in either direction."""

    key: ConverterPlan
    value: ConverterPlan
    header: ConverterPlan
    transforms: tuple[TransformPlan, ...] = ()

    def describe(self) -> str:
        chain = ", ".join(transform.describe() for transform in self.transforms)
        return (
            f"convert key {self.key.plugin.name}, value {self.value.plugin.name}, "
            f"headers {self.header.plugin.name}" + (f"; transform {chain}" if chain else "")
        )


@dataclass(frozen=True, slots=True)
class InterceptorPlan:
    """An interceptor with the client's settings."""

    plugin: PluginRef[ProducerInterceptor | ConsumerInterceptor]
    config: Config = field(repr=False)  # may hold secrets


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letter queue for failed records (`errors.deadletterqueue.*`)."""

    topic: str
    replication: int
    context_headers: bool
    producer: Settings = field(repr=False)  # librdkafka's names; may hold secrets
    admin: Settings = field(repr=False)
    limits: ProducerLimits | None = None  # of records; None: the producer applies them


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How failed records are handled (`errors.*`). `retry_timeout_ms` -1: retried for ever."""

    tolerate_all: bool = False
    log: bool = False
    log_messages: bool = False
    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    dead_letters: DeadLetters | None = None


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """One group of `topic.creation.*`: the topics it matches, and how they are created."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    partitions: int
    replication: int
    settings: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        def any_of(patterns: Sequence[str]) -> bool:
            return any(compile_java(pattern).fullmatch(topic) for pattern in patterns)

        return any_of(self.include) and not any_of(self.exclude)


class Boundary(Enum):
    """Where transactions end (`transaction.boundary`)."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


@dataclass(frozen=True, slots=True)
class Transactions:
    """Exactly once: records and offsets go to Kafka in transactions (KIP-618)."""

    boundary: Boundary
    interval_ms: int
    offsets_topic: str


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """One source task: what to read, and how its records go to Kafka."""

    task: TaskId
    run: int  # which start of the task this is; results of an older one are not mistaken for ours
    connector: PluginRef[SourceConnector]
    config: Config
    conversion: Conversion
    tolerance: Tolerance
    producer: Settings = field(repr=False)  # librdkafka's names; may hold secrets
    topic_groups: tuple[TopicGroup, ...] = ()  # empty: left to the broker
    transactions: Transactions | None = None  # None: at least once
    interceptors: tuple[InterceptorPlan, ...] = ()
    admin: Settings = field(default_factory=dict, repr=False)  # creates topics of the groups
    limits: ProducerLimits | None = None  # of records; None: the producer applies them

    def describe(self) -> str:
        """The flow on a few lines, for people."""
        once = ""
        if self.transactions is not None:
            once = f", exactly once, a transaction per {self.transactions.boundary.value}"
        return (
            f"{self.task}: read {self.connector.name}\n"
            f"  {self.conversion.describe()}{_interceptor_text(self.interceptors)}\n"
            f"  produce to {self.producer.get('bootstrap.servers')}{once}"
        )


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One sink task: what to consume, and how its records go to the target."""

    task: TaskId
    run: int
    connector: PluginRef[SinkConnector]
    config: Config
    conversion: Conversion
    tolerance: Tolerance
    topics: tuple[str, ...]
    topics_regex: str | None
    consumer: Mapping[str, str] = field(repr=False)  # Java's names; may hold secrets
    admin: Settings | None = field(
        repr=False
    )  # for lags and topic ids; None: librdkafka cannot connect
    group_admin: Member | None = field(default=None, repr=False)
    """Settings of the admin client that removes group members."""
    commit_interval_ms: int = 60_000
    interceptors: tuple[InterceptorPlan, ...] = ()

    def describe(self) -> str:
        """The flow on a few lines, for people."""
        topics = self.topics_regex or ", ".join(self.topics)
        return (
            f"{self.task}: consume {topics} as {self.consumer.get('group.id')}\n"
            f"  {self.conversion.describe()}{_interceptor_text(self.interceptors)}\n"
            f"  write with {self.connector.name}"
        )


def _interceptor_text(interceptors: Sequence[InterceptorPlan]) -> str:
    names = ", ".join(interceptor.plugin.name for interceptor in interceptors)
    return f"; intercept {names}" if names else ""


FlowPlan = SourcePlan | SinkPlan
