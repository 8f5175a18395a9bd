"""The settings of Redis' own sink, including versions before 1.0 (connectors.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    Config,
    ConfigDef,
    Group,
    one_of,
    unless_none,
)
from penstock.connectors.redis.settings.connection import CONNECTION_KEYS, connection_rule
from penstock.connectors.redis.settings.shared import (
    CHARSET_CHECK,
    PIPELINE_KEYS,
    charset_of,
    limits_of,
)
from penstock.connectors.redis.write.keyed import TOPIC, KeyedMaker
from penstock.connectors.redis.write.plan import KeyedPlan, Kind, SinkPlan

OFFSETS: Final = "com.redis.kafka.connect.sink.offset"
_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1

TYPES: Final[Mapping[str, Kind]] = {
    "HASH": Kind.HASH,
    "JSON": Kind.JSON,
    "TIMESERIES": Kind.TIMESERIES,
    "STRING": Kind.STRING,
    "STREAM": Kind.STREAM,
    "LIST": Kind.LIST,
    "SET": Kind.SET,
    "ZSET": Kind.ZSET,
}
COMMANDS: Final[Mapping[str, Kind]] = {
    "HSET": Kind.HASH,
    "JSONSET": Kind.JSON,
    "TSADD": Kind.TIMESERIES,
    "SET": Kind.STRING,
    "XADD": Kind.STREAM,
    "LPUSH": Kind.LIST_HEAD,
    "RPUSH": Kind.LIST,
    "SADD": Kind.SET,
    "ZADD": Kind.ZSET,
    "DEL": Kind.DELETE,
}
"""The values of `redis.command`, used instead of types before version 1.0."""

_TRANSACTIONS: Final = ("STREAM", "LIST", "SET", "ZSET")

# fmt: off
_SETTINGS: Final = Group()
CHARSET: Final = _SETTINGS.text("redis.charset", "UTF-8",
    "The charset of keys and strings.", check=CHARSET_CHECK, importance=HIGH)
TYPE: Final = _SETTINGS.choice("redis.type", "STREAM", tuple(TYPES),
    "What each record is written as: a string, hash or JSON document under the record's key, or "
    "an entry of the topic's stream, list, set, sorted set or time series.", importance=HIGH)
KEYSPACE: Final = _SETTINGS.text("redis.keyspace", TOPIC,
    "The key of a stream, list, set, sorted set or time series; for other types, the prefix of "
    f"keys. `{TOPIC}` is the topic. Empty: the record's key alone.")
SEPARATOR: Final = _SETTINGS.text("redis.separator", ":",
    "Separator between the keyspace and the record's key.")
MULTI_EXEC: Final = _SETTINGS.flag("redis.multiexec", False,
    "Whether to run each pipeline as a transaction (MULTI, EXEC), so that its writes become "
    "visible together.")
REPLICAS: Final = _SETTINGS.number("redis.wait.replicas", 0,
    "How many replicas must have the records before they count as written (WAIT).", at_least=0,
    at_most=_MAX_INT)
REPLICAS_MS: Final = _SETTINGS.long("redis.wait.timeout", 1_000,
    "How many ms to wait for the replicas before the batch is retried.", at_least=0,
    at_most=_MAX_LONG)
KEY_TTL: Final = _SETTINGS.long("redis.key.ttl", -1,
    "After how many seconds written keys expire; -1: never. A record header with this name takes "
    "precedence.", at_least=-1, at_most=_MAX_INT)
COMMAND: Final = _SETTINGS.text("redis.command", None,
    "Replaced by `redis.type` in version 1.0, which takes precedence.",
    check=unless_none(one_of(*COMMANDS)), importance=LOW)
OLD_KEYSPACE: Final = _SETTINGS.text("redis.key", None,
    "Replaced by `redis.keyspace` in version 0.9, which takes precedence.", importance=LOW)
# fmt: on


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if not parsed.get(MULTI_EXEC.name):
        return
    kind = TYPES.get(str(parsed.get(TYPE.name)))
    if parsed.get(TYPE.name) == TYPE.default:
        kind = COMMANDS.get(str(parsed.get(COMMAND.name)), kind)
    if kind is not None and (not kind.is_collection or kind is Kind.TIMESERIES):
        yield (
            MULTI_EXEC.name,
            f"{MULTI_EXEC.name}: multi/exec is only supported with these data structures "
            f"({TYPE.name}): {', '.join(_TRANSACTIONS)}",
        )


REDIS_SINK: Final = ConfigDef(
    *CONNECTION_KEYS,
    *_SETTINGS,
    *PIPELINE_KEYS,
    rules=(connection_rule, _rule),
)


def kind_of(config: Config) -> Kind:
    """The structure that records are written to."""
    command = config[COMMAND]
    if command is not None and TYPE.name not in config.props:
        return COMMANDS[command]
    return TYPES[config[TYPE]]


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a task."""
    old_keyspace = config[OLD_KEYSPACE]
    keyspace = config[KEYSPACE]
    if old_keyspace is not None and KEYSPACE.name not in config.props:
        keyspace = old_keyspace
    plan = KeyedPlan(
        kind_of(config),
        charset_of(config[CHARSET]),
        keyspace=keyspace.strip(),
        separator=config[SEPARATOR].strip(),
        ttl_s=config[KEY_TTL],
    )
    limits = replace(
        limits_of(config),
        transactions=config[MULTI_EXEC],
        replicas=config[REPLICAS],
        replicas_ms=config[REPLICAS_MS],
    )
    return SinkPlan(KeyedMaker(plan), limits, offsets=OFFSETS)
