"""What a sink task does, as a value: how records become actions, and how these are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.connectors.search.write.names import (
    data_stream_name,
    index_name,
    opensearch_index_name,
)


class Ids(Enum):
    """Where ids of documents are from (`key.ignore.id.strategy`)."""

    KEY = "record.key"
    PLACE = "topic.partition.offset"
    NONE = "none"  # the cluster makes them


class Nulls(Enum):
    """What is done with records without a value."""

    IGNORE = "ignore"
    DELETE = "delete"
    FAIL = "fail"


class Refusals(Enum):
    """What is done with records that the cluster refuses."""

    IGNORE = "ignore"
    WARN = "warn"
    REPORT = "report"
    FAIL = "fail"


class Names(Enum):
    """How a topic's index is named."""

    CONFLUENT = "confluent"
    AIVEN = "aiven"


class Routing(Enum):
    """Where the routing of documents is from."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class DataStreams:
    """Documents go to data streams.

    `type`, `dataset`, `namespace` name them, or `prefix` does. `fields`: where `@timestamp` is
    from, the first one that a record has; none: the record's timestamp. `keeps_timestamp`: where a
    document has one already. `template`: the index template that is made where there is none;
    None: none is made.
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
    """What a configuration says of records, documents and requests. Times in ms."""

    names: Names
    resources: Mapping[str, str] | None  # by topic; they exist. None: named after topics
    streams: DataStreams | None
    ignored_ids: Ids  # where keys are ignored
    ignores_keys: bool
    key_topics: frozenset[str]
    ignores_schemas: bool
    schema_topics: frozenset[str]
    makes_ids: bool  # the cluster does, for all records
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
    conflicts: Refusals | None  # None: those with external versions are left out
    batch: int
    batch_bytes: int  # -1: as many as there are
    in_flight: int
    buffered: int
    linger_ms: int
    flush_timeout_ms: int
    retries: int
    backoff_ms: int

    def ids(self, topic: str) -> Ids:
        """Where the ids of a topic's documents are from."""
        return self.ignored_ids if self.ignores_keys or topic in self.key_topics else Ids.KEY

    def maps(self, topic: str) -> bool:
        """Whether the mapping is made of a topic's schema."""
        return not (self.ignores_schemas or topic in self.schema_topics)

    def resource(self, topic: str) -> str | None:
        """The index, data stream or alias of a topic; None for a topic that is to have one, and
        does not."""
        if self.resources is not None:
            return self.resources.get(topic)
        streams = self.streams
        if streams is not None and streams.type:
            return data_stream_name(topic, streams.type, streams.dataset, streams.namespace)
        name = (opensearch_index_name if self.names is Names.AIVEN else index_name)(topic)
        return f"{streams.prefix}-{name}" if streams is not None and streams.prefix else name
