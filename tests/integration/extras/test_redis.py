"""penstock without the packages of its extra `redis`, in a process that cannot import them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from penstock.connectors.redis.client.access import REDIS

SCRIPT = """
import json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "redis":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Absent())
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
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == 5
    assert all(f"install them with: {REDIS.command}" in each for each in told)


def test_the_extra_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [each.partition(">")[0] for each in extras[REDIS.name]] == ["redis"]
    assert f"penstock[{REDIS.name}]" in extras["all"]
