"""penstock without the package of its extra `couchbase`, and the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock.connectors.couchbase.client.access import COUCHBASE

SCRIPT = """
import json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "couchbase":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Absent())
from penstock.api import NotInstalled
from penstock.connectors.couchbase.sink import CouchbaseSink
from penstock.connectors.couchbase.source import CouchbaseSource

told = []
common = {f"couchbase.{name}": "x" for name in ("seed.nodes", "username", "password", "bucket")}
handler = "com.couchbase.connect.kafka.handler.source.RawJsonSourceHandler"
for cls, given in ((CouchbaseSink, {}), (CouchbaseSource, {"couchbase.source.handler": handler})):
    config = cls.plugin.config.parse({**common, **given})
    try:
        cls().check_installed(config)
    except NotInstalled as error:
        told.append(str(error))
print(json.dumps(told))
"""


def test_without_its_package_a_configuration_is_refused_with_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == 2
    assert all(f"install them with: {COUCHBASE.command}" in each for each in told)


def test_the_extra_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [each.partition(">")[0] for each in extras[COUCHBASE.name]] == ["couchbase"]
    assert f"penstock[{COUCHBASE.name}]" in extras["all"]


@pytest.mark.parametrize(
    "name",
    ["client.keyspace", "settings.ids", "settings.texts", "write.documents", "read.events"],
)
def test_examples_in_docstrings_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"penstock.connectors.couchbase.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
