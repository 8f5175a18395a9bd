"""penstock where no extra is installed."""

from __future__ import annotations

import json
import subprocess
import sys

from penstock.plugins.registry import Registry

OF_THE_CORE = {"httpx"}

IMPORTING = """
import importlib, json, pkgutil, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

absent = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Absent())
import penstock

names = [each.name for each in pkgutil.walk_packages(penstock.__path__, "penstock.")]
whole = ("penstock.connectors.jdbc.", "penstock.connectors.files.")
elsewhere = ("penstock.connectors.", "penstock.testing.", "penstock.interceptors.")
names = [each for each in names if each.startswith(whole) or not each.startswith(elsewhere)]
names = sorted({*names, *json.loads(sys.argv[2])})
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(json.dumps(names))
"""


def test_plugins_can_be_listed_and_whatever_needs_no_extra_runs() -> None:
    """Every module of JDBC and files, parts of which need no package, can be imported."""
    found = Registry.installed().found
    extras = {each.plugin.extra for each in found if each.plugin.extra is not None}
    absent = sorted({module for extra in extras for module in extra.modules} - OF_THE_CORE)
    plugins = sorted({each.cls.__module__ for each in found})
    assert {"psycopg", "boto3", "pymongo", "redis"} <= set(absent)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING, json.dumps(absent), json.dumps(plugins)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout.splitlines()[-1])
    assert "penstock.connectors.jdbc.drivers.jvm.connection" in imported
    assert "penstock.connectors.files.formats.avro" in imported
