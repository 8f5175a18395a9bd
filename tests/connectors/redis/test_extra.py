"""penstock without the packages of its extra `redis`, in a process that cannot import them."""

from __future__ import annotations

import json

from penstock.connectors.redis.client.access import REDIS
from tests.connectors.absent import extras, without

PACKAGES = ("redis",)
SCRIPT = """
import json
from penstock.api import NotInstalled
from penstock.connectors.redis import sink, source

told = []
host = {"connect.redis.host": "h", "connect.redis.port": "1"}
for cls, given in (
    (sink.RedisSink, {}),
    (sink.JcustenborderRedisSink, {}),
    (sink.LensesRedisSink, {**host, "connect.redis.kcql": "SELECT * FROM t PK id"}),
    (source.RedisStreamSource, {"redis.stream.name": "s"}),
    (source.RedisKeysSource, {}),
):
    config = cls.plugin.config.parse(given)
    try:
        cls().check_installed(config)
    except NotInstalled as error:
        told.append(str(error))
print(json.dumps(told))
"""


def test_without_its_packages_a_configuration_is_refused_with_the_command() -> None:
    reported = json.loads(without(PACKAGES, SCRIPT))
    assert len(reported) == 5
    assert all(f"install them with: {REDIS.command}" in each for each in reported)


def test_the_extra_is_the_projects() -> None:
    declared = extras()
    assert [each.partition(">")[0] for each in declared[REDIS.name]] == ["redis"]
    assert f"penstock[{REDIS.name}]" in declared["all"]
