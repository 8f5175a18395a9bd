"""The settings of the sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from penstock.api.settings import (
    HIGH,
    LOW,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    Key,
    checking,
)
from penstock.connectors.search.read.plan import SEQ_NO, Format, ReadPlan
from penstock.connectors.search.read.shards import Shard
from penstock.connectors.search.settings import elasticsearch, opensearch, shared

_MAX_INT: Final = 2**31 - 1


def _query_problem(text: str | None) -> str | None:
    if not text:
        return None
    try:
        query = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"Not valid JSON: {error}"
    return None if isinstance(query, dict) and query else "A query must be a JSON object"


# fmt: off
_READING: Final = Group("Reading", numbered=False)
INDICES: Final = _READING.listing("indices", REQUIRED,
    "What to read: names of indices, data streams and aliases, or patterns with `*`; those that "
    "begin with `-` are excluded. Filters of aliases are ignored.", importance=HIGH)
TOPIC: Final = _READING.text("topic", "${index}",
    "The topic; `${index}` is replaced by the index, or by its data stream. Characters not "
    "allowed in topics become `_`.", importance=HIGH)
POSITION: Final = _READING.text("position.field", SEQ_NO,
    "The field by which documents are read, in ascending order: a date or a number that is "
    "higher in later documents. With `_seq_no` documents are read in the order in which they "
    "were written, and again after changes.", importance=HIGH)
QUERY: Final = _READING.text("query", "",
    "Which documents to read: a query of the cluster, as JSON. Default: all.",
    check=checking("a query, as JSON", _query_problem))
FIELDS: Final = _READING.listing("fields", (),
    "Which fields to read; `*` stands for any part of a name. Default: all.")
FORMAT: Final = _READING.choice(
    "value.format", Format.MAP.value, tuple(choice.value for choice in Format),
    "The value of a record: map, the document without a schema, or json, a string.")
POLL: Final = _READING.number("poll.interval.ms", 5_000,
    "How long to wait after the end of a shard before looking for new documents.", at_least=1)
DELAY: Final = _READING.number("delay.ms", 0,
    "How much later than its position a document may become searchable. Dates are read once they "
    "are this old by the worker's clock, numbers once they have been the highest for this long. "
    "Documents that appear later are not read.", at_least=0)
REFRESH: Final = _READING.flag("refresh", True,
    "With `_seq_no`: whether to refresh indices with new writes before reading them. If false, "
    "`delay.ms` must be longer than their `refresh_interval`.", importance=LOW)
BATCH: Final = _READING.number("batch.size", 5_000,
    "Maximum number of documents per request; fewer are requested if they exceed 1 MB.", at_least=1,
    at_most=10_000)
IN_FLIGHT: Final = _READING.number(shared.IN_FLIGHT.name, 4,
    "How many shards a task reads concurrently.", at_least=1, at_most=1_000)
KEEP_ALIVE: Final = _READING.number("point.in.time.keep.alive.ms", 300_000,
    "How long the cluster keeps a point in time after a request; 0: do not use any. "
    "Elasticsearch before 7.10 and OpenSearch before 2.4 do not support them.", at_least=0,
    importance=LOW)
INDICES_POLL: Final = _READING.number("indices.poll.interval.ms", 60_000,
    "How often to look for new indices.", at_least=1, importance=LOW)
_CONNECTOR: Final = Group("Connector", numbered=False)
READ_TIMEOUT: Final = _CONNECTOR.number(shared.READ_TIMEOUT.name, 60_000,
    "How long to wait for a response before the request is retried; 0: indefinitely.", at_least=0,
    at_most=_MAX_INT, importance=LOW)
SHARDS: Final = _READING.listing("penstock.task.shards", (),
    "The shards that a task reads. Do not set.", importance=LOW)
# fmt: on


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
    *_READING,
    *(shared.USERNAME, shared.PASSWORD_KEY, shared.CONNECT_TIMEOUT, READ_TIMEOUT),
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
