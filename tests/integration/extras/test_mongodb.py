"""penstock without the packages of its extra `mongodb`, in a process that cannot import them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from penstock.connectors.mongodb.client.access import MONGODB

SCRIPT = """
import json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("bson", "pymongo"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Absent())
from penstock.api import NotInstalled
from penstock.connectors.mongodb.sink import MongoSink
from penstock.connectors.mongodb.source import MongoSource

told = []
for cls, given in ((MongoSink, {"database": "d"}), (MongoSource, {})):
    config = cls.plugin.config.parse({"connection.uri": "mongodb://h/", **given})
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
    assert len(told) == 2
    assert all(f"install them with: {MONGODB.command}" in each for each in told)
    assert all("pymongo" in each for each in told)


def test_the_extra_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [each.partition(">")[0] for each in extras[MONGODB.name]] == ["pymongo"]
    assert f"penstock[{MONGODB.name}]" in extras["all"]
