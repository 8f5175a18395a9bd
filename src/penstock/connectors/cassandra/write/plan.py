"""The plan of a sink task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.connectors.cassandra.text.mapping import Entry
from penstock.connectors.cassandra.text.values import Texts


class Ignore(Enum):
    """Which refused records are skipped (`ignoreErrors`)."""

    NONE = "none"
    ALL = "all"
    DRIVER = "driver"  # records that the cluster refuses


@dataclass(frozen=True, slots=True)
class Mapped:
    """Fields of a topic's records go into columns of a table.

    `setting` and `query_setting`: the names of the mapping and the query in messages. `ttl_s`:
    None for no time to live. Units are Java's.
    """

    keyspace: str
    table: str
    entries: tuple[Entry, ...]
    setting: str
    consistency: str = "LOCAL_ONE"
    ttl_s: int | None = None
    ttl_unit: str = "SECONDS"
    timestamp_unit: str = "MICROSECONDS"
    null_to_unset: bool = True
    deletes: bool = True
    query: str | None = None
    query_setting: str = ""


@dataclass(frozen=True, slots=True)
class Selected:
    """A topic's records go into a table as JSON, with all fields or the selected ones (pairs of
    name and alias). `setting`: the name in messages."""

    keyspace: str
    table: str
    fields: tuple[tuple[str, str], ...]
    everything: bool
    ignored: frozenset[str]
    setting: str
    consistency: str | None = None
    ttl_s: int | None = None
    unset: bool = False  # columns missing in the JSON keep their values
    delete: str | None = None  # the statement for records without a value
    delete_fields: tuple[str, ...] = ()
    delete_setting: str = ""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The tables and text formats for the records of one topic."""

    tables: tuple[Mapped | Selected, ...]
    texts: Texts = field(default_factory=Texts)


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The plans of all topics, and the limits of requests. `topic_setting`: the setting that
    messages name for a topic without a plan."""

    topics: Mapping[str, TopicPlan]
    topic_setting: str
    in_flight: int = 500
    batch: int = 32
    ignore: Ignore = Ignore.NONE
