"""The plan of a sink task: how records become actions, and how these are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.connectors.search.write.names import (
    TOPIC,
    data_stream_name,
    index_name,
    opensearch_index_name,
)


class Ids(Enum):
    """The origin of documents' ids (`key.ignore.id.strategy`)."""

    KEY = "record.key"
    PLACE = "topic.partition.offset"
    NONE = "none"  # the cluster generates them


class Nulls(Enum):
    """How records without a value are handled."""

    IGNORE = "ignore"
    DELETE = "delete"
    FAIL = "fail"


class Refusals(Enum):
    """How records that the cluster refuses are handled."""

    IGNORE = "ignore"
    WARN = "warn"
    REPORT = "report"
    FAIL = "fail"


class Names(Enum):
    """How a topic's index is named."""

    CONFLUENT = "confluent"
    AIVEN = "aiven"


class Routing(Enum):
    """The origin of documents' routing."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class DataStreams:
    """Documents go to data streams.

    `type`, `dataset`, `namespace` name them, or `prefix` does. `fields`: the first one that a
    record has becomes `@timestamp`; none: the record's timestamp does. `keeps_timestamp`: keep an
    existing one. `template`: the index template that is created if it is missing; None: none is
    created.
    """

    type: str = ""
    dataset: str = ""
    namespace: str = ""
    prefix: str | None = None
    fields: tuple[str, ...] = ()
    keeps_timestamp: bool = False
    sets_timestamp: bool = True
    template: str | None = None
    timestamp_field: str = "@timestamp"


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """How records become documents and requests. Times in ms."""

    names: Names
    resources: Mapping[str, str] | None  # by topic; they exist. None: named after topics
    streams: DataStreams | None
    ignored_ids: Ids  # if keys are ignored
    ignores_keys: bool
    key_topics: frozenset[str]
    ignores_schemas: bool
    schema_topics: frozenset[str]
    makes_ids: bool  # the cluster generates ids for all records
    upsert: bool
    retry_on_conflict: int
    version_header: str
    compact: bool
    routing: Routing
    routing_path: tuple[str, ...]
    nulls: Nulls
    reports_nulls: bool
    drops_invalid: bool
    malformed: Refusals
    conflicts: Refusals | None  # None: those with external versions are ignored
    batch: int
    batch_bytes: int  # -1: no limit
    in_flight: int
    buffered: int
    linger_ms: int
    flush_timeout_ms: int
    retries: int
    backoff_ms: int

    def ids(self, topic: str) -> Ids:
        """The origin of the ids of a topic's documents."""
        return self.ignored_ids if self.ignores_keys or topic in self.key_topics else Ids.KEY

    def maps(self, topic: str) -> bool:
        """Whether the mapping is made from a topic's schema."""
        return not (self.ignores_schemas or topic in self.schema_topics)

    def keyed_resource(self, topic: str) -> str | None:
        """The index or data stream that a topic must not share with another one, because its name
        is made from the topic's, and keys are ids; None: it may."""
        streams = self.streams
        named = streams is None or not streams.type or TOPIC in streams.namespace
        if self.resources is not None or not named or self.ids(topic) is not Ids.KEY:
            return None
        return self.resource(topic)

    def resource(self, topic: str) -> str | None:
        """The index, data stream or alias of a topic; None if a required one is missing."""
        if self.resources is not None:
            return self.resources.get(topic)
        streams = self.streams
        if streams is not None and streams.type:
            return data_stream_name(topic, streams.type, streams.dataset, streams.namespace)
        name = (opensearch_index_name if self.names is Names.AIVEN else index_name)(topic)
        return f"{streams.prefix}-{name}" if streams is not None and streams.prefix else name


def shared_resource(plan: SinkPlan, topic: str, keyed: dict[str, str]) -> str | None:
    """Why documents of a topic would replace those of an earlier one; None if they cannot. `keyed`
    has the topics so far by their `keyed_resource`; the topic is added."""
    resource = plan.keyed_resource(topic)
    if resource is None or (other := keyed.setdefault(resource, topic)) == topic:
        return None
    return (
        f"The topics '{other}' and '{topic}' both go to '{resource}', so documents with the same "
        "key would replace each other. Give one of them another name, for example with "
        "RegexRouter, or use a connector with key.ignore=true."
    )
