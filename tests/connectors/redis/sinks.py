"""Tasks of the Redis sinks, and settings for them, against servers of the tests."""

from __future__ import annotations

import redis

from penstock.api import Failed, Records
from penstock.api import schema as s
from penstock.api.settings import Config
from penstock.connectors.redis.sink import (
    _RedisSink,
)
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from tests.servers.redis import RedisServer

Client = redis.Redis


class Task:
    """A writer, with what it reported."""

    def __init__(
        self, sink: type[_RedisSink], settings: dict[str, str], *, tolerates: bool = True
    ) -> None:
        self.context = SinkContextStub(tolerates_errors=tolerates)
        config = sink.plugin.config.parse({"name": "sink", "topics": "t", **settings})
        self.writer = sink().open(config, self.context)

    def write(self, records: Records) -> Failed:
        failed: Failed = {}
        self.writer.write(records, failed)
        self.writer.flush()
        return failed

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def write(sink: type[_RedisSink], settings: dict[str, str], records: Records) -> Failed:
    with Task(sink, settings) as task:
        return task.write(records)


def ours(server: RedisServer, kind: str = "STRING", **more: str) -> dict[str, str]:
    return {
        "redis.uri": f"redis://{server.address}",
        "redis.type": kind,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def lenses(server: RedisServer, kcql: str, **more: str) -> dict[str, str]:
    return {
        "connect.redis.host": "127.0.0.1",
        "connect.redis.port": str(server.port),
        "connect.redis.kcql": kcql,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def texts(count: int, topic: str = "t", first: int = 0) -> Records:
    return records_of(
        [f"value {number}" for number in range(first, first + count)],
        keys=[f"key-{number}" for number in range(first, first + count)],
        key_schema=s.STRING,
        schema=s.STRING,
        topic=topic,
        first=first,
    )


def findings(sink: type[_RedisSink], settings: dict[str, str]) -> dict[str, str]:
    config: Config = sink.plugin.config.parse({"name": "s", "topics": "t", **settings})
    return {each.setting: str(each.error) for each in sink().validate_live(config)}
