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
        return f"It is not JSON: {error}"
    return None if isinstance(query, dict) and query else "It is not a query: a JSON object"


INDICES: Final = Key(
    "indices",
    LIST,
    default=REQUIRED,
    importance=HIGH,
    doc="What is read: names of indices, data streams and aliases, patterns with `*`; those that "
    "begin with `-` are skipped. Of an alias, its filter is not used.",
    group=_READING,
)
TOPIC: Final = Key(
    "topic",
    STRING,
    default="${index}",
    importance=HIGH,
    doc="The topic; `${index}` in it is the index, or the data stream that the index is of. "
    "Characters that topics cannot have become `_`.",
    group=_READING,
)
POSITION: Final = Key(
    "position.field",
    STRING,
    default=SEQ_NO,
    importance=HIGH,
    doc="The field by which documents are read, in ascending order: a date or a number that later "
    "documents have more of. With `_seq_no` documents are read as they are written, and "
    "again when they are changed.",
    group=_READING,
)
QUERY: Final = Key(
    "query",
    STRING,
    default="",
    importance=MEDIUM,
    check=checking("a query, as JSON", _query_problem),
    doc="Which documents are read: a query of the cluster's, as JSON. By default all.",
    group=_READING,
)
FIELDS: Final = Key(
    "fields",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="The fields that are read, with `*` for any part of their names. By default all.",
    group=_READING,
)
FORMAT: Final = Key(
    "value.format",
    STRING,
    default=Format.MAP.value,
    importance=MEDIUM,
    check=one_of(*(choice.value for choice in Format)),
    doc="What the value of a record is: map, the document without a schema, or json, its text.",
    group=_READING,
)
POLL: Final = Key(
    "poll.interval.ms",
    INT,
    default=5_000,
    importance=MEDIUM,
    check=at_least(1),
    doc="How long after it has read a shard to its end the source looks for new documents.",
    group=_READING,
)
DELAY: Final = Key(
    "delay.ms",
    INT,
    default=0,
    importance=MEDIUM,
    check=at_least(0),
    doc="How much later than its position a document may become searchable. Dates are read "
    "when they are so old, by the worker's clock; numbers when they have been the highest so long "
    "ago. Documents that come later still are not read.",
    group=_READING,
)
REFRESH: Final = Key(
    "refresh",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="With `_seq_no`: whether indices with new writes are refreshed before they are read. "
    "Without, `delay.ms` must be longer than their `refresh_interval`.",
    group=_READING,
)
BATCH: Final = Key(
    "batch.size",
    INT,
    default=5_000,
    importance=MEDIUM,
    check=between(1, 10_000),
    doc="The most documents of a request; fewer are asked for where they are more than 1 MB.",
    group=_READING,
)
IN_FLIGHT: Final = Key(
    shared.IN_FLIGHT.name,
    INT,
    default=4,
    importance=MEDIUM,
    check=between(1, 1_000),
    doc="How many shards a task reads at once.",
    group=_READING,
)
KEEP_ALIVE: Final = Key(
    "point.in.time.keep.alive.ms",
    INT,
    default=300_000,
    importance=LOW,
    check=at_least(0),
    doc="How long the cluster keeps a point in time after a request; 0: none are used. Clusters "
    "before Elasticsearch 7.10 and OpenSearch 2.4 have none.",
    group=_READING,
)
INDICES_POLL: Final = Key(
    "indices.poll.interval.ms",
    INT,
    default=60_000,
    importance=LOW,
    check=at_least(1),
    doc="How often the source looks for new indices.",
    group=_READING,
)
READ_TIMEOUT: Final = Key(
    shared.READ_TIMEOUT.name,
    INT,
    default=60_000,
    importance=LOW,
    check=between(0, _MAX_INT),
    doc="How long to wait for an answer before the request is repeated; 0: without end.",
    group=shared.CONNECTION,
)
SHARDS: Final = Key(
    "penstock.task.shards",
    LIST,
    default=(),
    importance=LOW,
    doc="Of a task: the shards that it reads. Not to be set.",
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
            f"With {REFRESH.name}=false and {POSITION.name}={SEQ_NO} {DELAY.name} has to be longer "
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
