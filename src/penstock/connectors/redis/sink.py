"""The Redis sinks, under the names of three connectors (connectors.md §8)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
    SinkConnector,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.api.settings import Config
from penstock.connectors.redis.client.access import REDIS, Access
from penstock.connectors.redis.settings import jcustenborder, lenses, redis_sink
from penstock.connectors.redis.validation.live import findings
from penstock.connectors.redis.write.kcql import Store, parse_kcql
from penstock.connectors.redis.write.plan import Kind, SinkPlan

_COMMANDS: Mapping[Kind, Sequence[str]] = {
    Kind.STRING: ("SET", "DEL"),
    Kind.HASH: ("HSET", "DEL"),
    Kind.JSON: ("JSON.SET", "DEL"),
    Kind.STREAM: ("XADD",),
    Kind.LIST: ("RPUSH", "LREM"),
    Kind.LIST_HEAD: ("LPUSH", "LREM"),
    Kind.SET: ("SADD", "SREM"),
    Kind.ZSET: ("ZADD", "ZREM"),
    Kind.TIMESERIES: ("TS.ADD",),
    Kind.DELETE: ("DEL",),
}


class _RedisSink(SinkConnector):
    @abstractmethod
    def access(self, config: Config) -> Access:
        """Connection parameters of the servers."""

    @abstractmethod
    def sink_plan(self, config: Config) -> SinkPlan:
        """The plan of a task."""

    def commands(self, config: Config) -> tuple[Sequence[str], str]:
        """The commands that a task sends, and the setting that selects them."""
        return (), ""

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return findings(self.access(config), *self.commands(config))

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        plan = self.sink_plan(config)
        if not plan.offsets:
            return True
        from penstock.connectors.redis.client.servers import Servers
        from penstock.connectors.redis.write.offsets import store_offsets

        servers = Servers(self.access(config))
        try:
            by_partition = {
                TopicPartition(*position): offset for position, offset in offsets.items()
            }
            store_offsets(servers, plan.offsets, by_partition)
        finally:
            servers.close()
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        from penstock.connectors.redis.write.writer import RedisWriter

        return RedisWriter(self.sink_plan(config), self.access(config), context)

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter:
        from penstock.connectors.redis.write.writer import PreviewWriter

        return PreviewWriter(self.sink_plan(config).maker, show)


class RedisSink(_RedisSink):
    """Writes records to Redis as strings, hashes, JSON documents, or entries of streams, lists,
    sets, sorted sets and time series."""

    plugin = Plugin(
        class_name="com.redis.kafka.connect.RedisSinkConnector",
        version=VERSION,
        config=redis_sink.REDIS_SINK,
        task_class="com.redis.kafka.connect.sink.RedisSinkTask",
        extra=REDIS,
    )

    def access(self, config: Config) -> Access:
        from penstock.connectors.redis.settings.connection import access_of

        return access_of(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return redis_sink.sink_plan(config)

    def commands(self, config: Config) -> tuple[Sequence[str], str]:
        props = config.props
        has_old_name = redis_sink.COMMAND.name in props and redis_sink.TYPE.name not in props
        setting = redis_sink.COMMAND.name if has_old_name else redis_sink.TYPE.name
        return _COMMANDS[redis_sink.kind_of(config)], setting


class JcustenborderRedisSink(_RedisSink):
    """Writes records to Redis as strings by key; a record without a value deletes its key."""

    plugin = Plugin(
        class_name="com.github.jcustenborder.kafka.connect.redis.RedisSinkConnector",
        version=VERSION,
        config=jcustenborder.JCUSTENBORDER_SINK,
        task_class="com.github.jcustenborder.kafka.connect.redis.RedisSinkTask",
        extra=REDIS,
    )

    def access(self, config: Config) -> Access:
        return jcustenborder.access_of(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return jcustenborder.sink_plan(config)


class LensesRedisSink(_RedisSink):
    """Writes records to Redis as KCQL statements specify: JSON by key, sorted sets, geo positions,
    streams, channel messages."""

    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.redis.sink.RedisSinkConnector",
        version=VERSION,
        config=lenses.LENSES_SINK,
        task_class="io.lenses.streamreactor.connect.redis.sink.RedisSinkTask",
        extra=REDIS,
    )

    def access(self, config: Config) -> Access:
        return lenses.access_of(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return lenses.sink_plan(config)

    def commands(self, config: Config) -> tuple[Sequence[str], str]:
        stores = {statement.store for statement in parse_kcql(config[lenses.KCQL])}
        needed = {
            Store.CACHE: "SET",
            Store.SORTED_SET: "ZADD",
            Store.PUBSUB: "PUBLISH",
            Store.GEO: "GEOADD",
            Store.STREAM: "XADD",
        }
        return [needed[store] for store in Store if store in stores], lenses.KCQL.name


class DatamountaineerRedisSink(LensesRedisSink):
    """The same as Lenses' connector, under its older name."""

    plugin = Plugin(
        class_name="com.datamountaineer.streamreactor.connect.redis.sink.RedisSinkConnector",
        version=VERSION,
        config=lenses.LENSES_SINK,
        task_class="com.datamountaineer.streamreactor.connect.redis.sink.RedisSinkTask",
        extra=REDIS,
    )
