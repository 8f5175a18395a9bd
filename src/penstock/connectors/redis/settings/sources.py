"""The settings of Redis' sources (connectors.md §8)."""

from __future__ import annotations

import re
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    REQUIRED,
    ConfigDef,
    Group,
    checking,
    non_empty,
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


# fmt: off
_SETTINGS: Final = Group()
BATCH: Final = _SETTINGS.number("batch.size", 500,
    "Maximum number of records per read.", at_least=1, at_most=1_000_000, importance=LOW)
NAME: Final = _SETTINGS.text("redis.stream.name", REQUIRED,
    "The stream to read.", check=non_empty(), importance=HIGH)
STREAM_TOPIC: Final = _SETTINGS.text("topic", STREAM,
    f"The topic; `{STREAM}` is replaced by the name of the stream.", check=non_empty())
OFFSET: Final = _SETTINGS.text("redis.stream.offset", "0-0",
    "Where the consumer group begins if it does not exist: after this entry. 0-0: at the first "
    "entry, $: at new ones.", check=checking("an entry's id, or $", _entry_problem))
DELIVERY: Final = _SETTINGS.choice(
    "redis.stream.delivery", AT_LEAST_ONCE, (AT_LEAST_ONCE, AT_MOST_ONCE),
    "at-least-once: entries are acknowledged after their records and offsets are stored in "
    "Kafka. at-most-once: as they are read.")
GROUP: Final = _SETTINGS.text("redis.stream.consumer.group", "kafka-consumer-group",
    "The consumer group; created if it does not exist.", check=non_empty())
CONSUMER: Final = _SETTINGS.text("redis.stream.consumer.name", f"consumer-{TASK}",
    f"The consumer's name; `{TASK}` is replaced by the task number.", check=non_empty())
BLOCK: Final = _SETTINGS.long("redis.stream.block", 100,
    "Maximum number of ms a read waits for entries; 0: as long as the worker allows.", at_least=0,
    at_most=_DAY_MS, importance=LOW)
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

KEYS_TOPIC: Final = _SETTINGS.text("topic", "rediskeys", "The topic.", check=non_empty())
PATTERN: Final = _SETTINGS.text("redis.keys.pattern", "*",
    "The keys to read, as a glob pattern.", check=non_empty())
IDLE_MS: Final = _SETTINGS.long("redis.keys.timeout", 0,
    "After how many ms without a change Kafka Connect's task stops reading. Ignored: the source "
    "reads until it is stopped.", at_least=0, at_most=_MAX_INT, importance=LOW)
MODE: Final = _SETTINGS.choice("mode", LIVE, (LIVE, LIVE_ONLY),
    "LIVE: the existing keys, then changes. LIVEONLY: changes only.")
# fmt: on
REDIS_KEYS_SOURCE: Final = ConfigDef(
    *CONNECTION_KEYS,
    BATCH,
    KEYS_TOPIC,
    PATTERN,
    IDLE_MS,
    MODE,
    rules=(connection_rule,),
)
