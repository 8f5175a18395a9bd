"""The Redis sources: streams, and keys (connectors.md §8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.api import (
    VERSION,
    Finding,
    Offsets,
    PenstockError,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.redis.client.access import REDIS
from penstock.connectors.redis.settings import sources as k
from penstock.connectors.redis.settings.connection import access_of
from penstock.connectors.redis.validation.live import findings, notification_findings

if TYPE_CHECKING:
    from penstock.connectors.redis.read.streams import StreamPlan


class RedisStreamSource(SourceConnector):
    """Sends the entries of a stream to a topic, as a consumer group."""

    plugin = Plugin(
        class_name="com.redis.kafka.connect.RedisStreamSourceConnector",
        version=VERSION,
        config=k.REDIS_STREAM_SOURCE,
        task_class="com.redis.kafka.connect.source.RedisStreamSourceTask",
        extra=REDIS,
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return findings(access_of(config), ("XREADGROUP", "XACK"), k.NAME.name)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [{**config.props, k.TASK_ID: str(number)} for number in range(max_tasks)]

    def exactly_once(self, config: Config) -> bool | None:
        # Entries that are in Kafka but not acknowledged are read again.
        return False

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        from penstock.connectors.redis.read.streams import OFFSET, move_group

        for source_offset in offsets:
            offset = None if source_offset.offset is None else source_offset.offset.get(OFFSET)
            if source_offset.partition or (
                source_offset.offset is not None and not isinstance(offset, str)
            ):
                raise PenstockError(
                    'The offset of a stream is {"offset": "<entry id>"}, the partition {}'
                )
            move_group(access_of(config), _stream_plan(config), str(offset) if offset else None)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        from penstock.connectors.redis.read.streams import StreamReader

        return StreamReader(_stream_plan(config), access_of(config), context)


def _stream_plan(config: Config) -> StreamPlan:
    from penstock.connectors.redis.read.streams import StreamPlan

    name = config[k.NAME]
    return StreamPlan(
        stream=name,
        topic=config[k.STREAM_TOPIC].replace(k.STREAM, name),
        group=config[k.GROUP],
        consumer=config[k.CONSUMER].replace(k.TASK, config.props.get(k.TASK_ID, "0")),
        start=config[k.OFFSET],
        acknowledges=config[k.DELIVERY] == k.AT_LEAST_ONCE,
        batch=config[k.BATCH],
        block_ms=config[k.BLOCK],
    )


class RedisKeysSource(SourceConnector):
    """Sends keys and their values to a topic whenever they change."""

    plugin = Plugin(
        class_name="com.redis.kafka.connect.RedisKeysSourceConnector",
        version=VERSION,
        config=k.REDIS_KEYS_SOURCE,
        task_class="com.redis.kafka.connect.source.RedisKeysSourceTask",
        extra=REDIS,
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return notification_findings(access_of(config), k.PATTERN.name)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [{**config.props, k.TASK_ID: "0"}]  # every subscriber receives all notifications

    def exactly_once(self, config: Config) -> bool | None:
        return False

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        from penstock.connectors.redis.read.keys import KeysPlan, KeysReader

        access = access_of(config)
        plan = KeysPlan(
            topic=config[k.KEYS_TOPIC],
            pattern=config[k.PATTERN],
            scans=config[k.MODE] == k.LIVE,
            batch=config[k.BATCH],
            database=access.database,
        )
        return KeysReader(plan, access, context)
