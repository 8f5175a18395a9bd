"""The settings of Redis' sources (connectors.md §8)."""

from __future__ import annotations

import re
from typing import Final

from penstock.api.settings import (
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    REQUIRED,
    STRING,
    ConfigDef,
    Key,
    between,
    checking,
    non_empty,
    one_of,
)
from penstock.connectors.redis.settings.connection import CONNECTION_KEYS, connection_rule

STREAM: Final = "${stream}"
TASK: Final = "${task}"
TASK_ID: Final = "task.id"
AT_LEAST_ONCE: Final = "at-least-once"
AT_MOST_ONCE: Final = "at-most-once"
LIVE: Final = "LIVE"
LIVE_ONLY: Final = "LIVEONLY"

_ENTRY: Final = re.compile(r"\d+(-\d+)?|\$", re.ASCII)
_MAX_INT: Final = 2**31 - 1
_DAY_MS: Final = 86_400_000


def _entry_problem(text: str | None) -> str | None:
    if text is None or _ENTRY.fullmatch(text):
        return None
    return "Must be an entry id, such as 0-0 for all entries, or $ for new ones only"


BATCH: Final = Key(
    "batch.size",
    INT,
    default=500,
    importance=LOW,
    check=between(1, 1_000_000),
    doc="Maximum number of records per read.",
)
NAME: Final = Key(
    "redis.stream.name",
    STRING,
    default=REQUIRED,
    importance=HIGH,
    check=non_empty(),
    doc="The stream to read.",
)
STREAM_TOPIC: Final = Key(
    "topic",
    STRING,
    default=STREAM,
    importance=MEDIUM,
    check=non_empty(),
    doc=f"The topic; `{STREAM}` is replaced by the name of the stream.",
)
OFFSET: Final = Key(
    "redis.stream.offset",
    STRING,
    default="0-0",
    importance=MEDIUM,
    check=checking("an entry's id, or $", _entry_problem),
    doc="Where the consumer group begins if it does not exist: after this entry. 0-0: at the first "
    "entry, $: at new ones.",
)
DELIVERY: Final = Key(
    "redis.stream.delivery",
    STRING,
    default=AT_LEAST_ONCE,
    importance=MEDIUM,
    check=one_of(AT_LEAST_ONCE, AT_MOST_ONCE),
    doc="at-least-once: entries are acknowledged after their records and offsets are stored in "
    "Kafka. at-most-once: as they are read.",
)
GROUP: Final = Key(
    "redis.stream.consumer.group",
    STRING,
    default="kafka-consumer-group",
    importance=MEDIUM,
    check=non_empty(),
    doc="The consumer group; created if it does not exist.",
)
CONSUMER: Final = Key(
    "redis.stream.consumer.name",
    STRING,
    default=f"consumer-{TASK}",
    importance=MEDIUM,
    check=non_empty(),
    doc=f"The consumer's name; `{TASK}` is replaced by the task number.",
)
BLOCK: Final = Key(
    "redis.stream.block",
    LONG,
    default=100,
    importance=LOW,
    check=between(0, _DAY_MS),
    doc="Maximum number of ms a read waits for entries; 0: as long as the worker allows.",
)
REDIS_STREAM_SOURCE: Final = ConfigDef(
    *CONNECTION_KEYS,
    BATCH,
    STREAM_TOPIC,
    NAME,
    OFFSET,
    DELIVERY,
    GROUP,
    CONSUMER,
    BLOCK,
    rules=(connection_rule,),
)

KEYS_TOPIC: Final = Key(
    "topic",
    STRING,
    default="rediskeys",
    importance=MEDIUM,
    check=non_empty(),
    doc="The topic.",
)
PATTERN: Final = Key(
    "redis.keys.pattern",
    STRING,
    default="*",
    importance=MEDIUM,
    check=non_empty(),
    doc="The keys to read, as a glob pattern.",
)
IDLE_MS: Final = Key(
    "redis.keys.timeout",
    LONG,
    default=0,
    importance=LOW,
    check=between(0, _MAX_INT),
    doc="After how many ms without a change Kafka Connect's task stops reading. Ignored: the "
    "source reads until it is stopped.",
)
MODE: Final = Key(
    "mode",
    STRING,
    default=LIVE,
    importance=MEDIUM,
    check=one_of(LIVE, LIVE_ONLY),
    doc="LIVE: the existing keys, then changes. LIVEONLY: changes only.",
)
REDIS_KEYS_SOURCE: Final = ConfigDef(
    *CONNECTION_KEYS,
    BATCH,
    KEYS_TOPIC,
    PATTERN,
    IDLE_MS,
    MODE,
    rules=(connection_rule,),
)
