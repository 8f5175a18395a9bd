"""The settings of the sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    Key,
    at_least,
    between,
    checking,
    one_of,
)
from penstock.connectors.search.read.plan import SEQ_NO, Format, ReadPlan
from penstock.connectors.search.read.shards import Shard
from penstock.connectors.search.settings import elasticsearch, opensearch, shared

_READING: Final = "Reading"
_MAX_INT: Final = 2**31 - 1


def _query_problem(text: str | None) -> str | None:
    if not text:
        return None
    try:
        query = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"Not valid JSON: {error}"
    return None if isinstance(query, dict) and query else "A query must be a JSON object"


INDICES: Final = Key(
    "indices",
    LIST,
    default=REQUIRED,
    importance=HIGH,
    doc="What to read: names of indices, data streams and aliases, or patterns with `*`; those "
    "that begin with `-` are excluded. Filters of aliases are ignored.",
    group=_READING,
)
TOPIC: Final = Key(
    "topic",
    STRING,
    default="${index}",
    importance=HIGH,
    doc="The topic; `${index}` is replaced by the index, or by its data stream. Characters not "
    "allowed in topics become `_`.",
    group=_READING,
)
POSITION: Final = Key(
    "position.field",
    STRING,
    default=SEQ_NO,
    importance=HIGH,
    doc="The field by which documents are read, in ascending order: a date or a number that is "
    "higher in later documents. With `_seq_no` documents are read in the order in which they were "
    "written, and again after changes.",
    group=_READING,
)
QUERY: Final = Key(
    "query",
    STRING,
    default="",
    importance=MEDIUM,
    check=checking("a query, as JSON", _query_problem),
    doc="Which documents to read: a query of the cluster, as JSON. Default: all.",
    group=_READING,
)
FIELDS: Final = Key(
    "fields",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Which fields to read; `*` stands for any part of a name. Default: all.",
    group=_READING,
)
FORMAT: Final = Key(
    "value.format",
    STRING,
    default=Format.MAP.value,
    importance=MEDIUM,
    check=one_of(*(choice.value for choice in Format)),
    doc="The value of a record: map, the document without a schema, or json, a string.",
    group=_READING,
)
POLL: Final = Key(
    "poll.interval.ms",
    INT,
    default=5_000,
    importance=MEDIUM,
    check=at_least(1),
    doc="How long to wait after the end of a shard before looking for new documents.",
    group=_READING,
)
DELAY: Final = Key(
    "delay.ms",
    INT,
    default=0,
    importance=MEDIUM,
    check=at_least(0),
    doc="How much later than its position a document may become searchable. Dates are read once "
    "they are this old by the worker's clock, numbers once they have been the highest for this "
    "long. Documents that appear later are not read.",
    group=_READING,
)
REFRESH: Final = Key(
    "refresh",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="With `_seq_no`: whether to refresh indices with new writes before reading them. If false, "
    "`delay.ms` must be longer than their `refresh_interval`.",
    group=_READING,
)
BATCH: Final = Key(
    "batch.size",
    INT,
    default=5_000,
    importance=MEDIUM,
    check=between(1, 10_000),
    doc="Maximum number of documents per request; fewer are requested if they exceed 1 MB.",
    group=_READING,
)
IN_FLIGHT: Final = Key(
    shared.IN_FLIGHT.name,
    INT,
    default=4,
    importance=MEDIUM,
    check=between(1, 1_000),
    doc="How many shards a task reads concurrently.",
    group=_READING,
)
KEEP_ALIVE: Final = Key(
    "point.in.time.keep.alive.ms",
    INT,
    default=300_000,
    importance=LOW,
    check=at_least(0),
    doc="How long the cluster keeps a point in time after a request; 0: do not use any. "
    "Elasticsearch before 7.10 and OpenSearch before 2.4 do not support them.",
    group=_READING,
)
INDICES_POLL: Final = Key(
    "indices.poll.interval.ms",
    INT,
    default=60_000,
    importance=LOW,
    check=at_least(1),
    doc="How often to look for new indices.",
    group=_READING,
)
READ_TIMEOUT: Final = Key(
    shared.READ_TIMEOUT.name,
    INT,
    default=60_000,
    importance=LOW,
    check=between(0, _MAX_INT),
    doc="How long to wait for a response before the request is retried; 0: indefinitely.",
    group=shared.CONNECTION,
)
SHARDS: Final = Key(
    "penstock.task.shards",
    LIST,
    default=(),
    importance=LOW,
    doc="The shards that a task reads. Do not set.",
    group=_READING,
)


def _delay_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if (
        parsed.get(POSITION.name) == SEQ_NO
        and parsed.get(REFRESH.name) is False
        and parsed.get(DELAY.name) == 0
    ):
        yield (
            DELAY.name,
            f"With {REFRESH.name}=false and {POSITION.name}={SEQ_NO} {DELAY.name} must be longer "
            "than the indices' refresh_interval, or documents are lost.",
        )


_COMMON: Final[tuple[Key[Any], ...]] = (
    shared.URLS,
    INDICES,
    TOPIC,
    POSITION,
    QUERY,
    FIELDS,
    FORMAT,
    POLL,
    DELAY,
    REFRESH,
    BATCH,
    IN_FLIGHT,
    KEEP_ALIVE,
    INDICES_POLL,
    SHARDS,
    shared.USERNAME,
    shared.PASSWORD_KEY,
    shared.CONNECT_TIMEOUT,
    READ_TIMEOUT,
)

ELASTICSEARCH_SOURCE: Final = ConfigDef(
    *_COMMON,
    *elasticsearch.ACCESS_KEYS,
    rules=(shared.credentials_rule, *elasticsearch.ACCESS_RULES, _delay_rule),
)
OPENSEARCH_SOURCE: Final = ConfigDef(
    *_COMMON,
    *opensearch.ACCESS_KEYS,
    rules=(shared.credentials_rule, *opensearch.ACCESS_RULES, _delay_rule),
)


def read_plan(config: Config) -> ReadPlan:
    """The plan of a valid configuration."""
    return ReadPlan(
        indices=",".join(config[INDICES]),
        topic=config[TOPIC],
        field=config[POSITION],
        query=orjson.loads(config[QUERY]) if config[QUERY] else None,
        source=config[FIELDS],
        format=Format(config[FORMAT]),
        poll_ms=config[POLL],
        delay_ms=config[DELAY],
        refreshes=config[REFRESH],
        batch=config[BATCH],
        in_flight=config[IN_FLIGHT],
        keep_alive_ms=config[KEEP_ALIVE],
    )


def shards_of_task(config: Config) -> list[Shard]:
    """The shards of a task's configuration."""
    return [Shard.parse(text) for text in config[SHARDS]]
