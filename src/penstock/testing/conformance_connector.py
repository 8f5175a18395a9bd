"""The tests of the conformance suite for every connector; see `conformance`."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Final

import pytest

from penstock.api import (
    Connector,
    PenstockError,
    Plugin,
    Props,
    SourceConnector,
)
from penstock.config import connector as connector_config
from penstock.plugins.registry import InstalledPlugin
from penstock.testing.conformance_case import Case
from penstock.testing.contexts import SinkContextStub, SourceContextStub

_IMPORT_S: Final = 60.0
_END_S: Final = 2.0  # how long a thread may take to end


class ConnectorChecks(Case):
    """The guarantees of both sources and sinks."""

    def test_the_plugin_declares_its_class_and_version(self) -> None:
        plugin = self._connector_class().plugin
        assert isinstance(plugin, Plugin)
        assert InstalledPlugin.of(self._connector_class()).plugin is plugin
        assert plugin.class_name.replace(".", "").replace("_", "").replace("$", "").isalnum()
        assert plugin.version.strip() == plugin.version != ""

    def test_every_setting_is_documented(self) -> None:
        keys = self._connector_class().plugin.config.keys
        undocumented = [key.name for key in keys if not key.doc]
        assert not undocumented, f"settings without a `doc`: {undocumented}"

    def test_no_setting_has_the_name_of_a_common_setting(self) -> None:
        is_source = issubclass(self._connector_class(), SourceConnector)
        reserved = {
            key.name
            for key in (connector_config.SOURCE if is_source else connector_config.SINK).keys
        }
        own = {key.name for key in self._connector_class().plugin.config.keys}
        assert not own & reserved, "these names belong to the framework; use other ones"

    def test_the_configuration_is_valid(self) -> None:
        definition = self._connector_class().plugin.config
        problems = {setting.name: setting.errors for setting in definition.validate(self._props())}
        assert not {name: errors for name, errors in problems.items() if errors}

    def test_a_bad_configuration_is_refused_with_a_reason(self) -> None:
        if not self.bad_configs:
            pytest.skip("`bad_configs` are not defined")
        for changes, text in self.bad_configs:
            merged = {**self._props(), **changes}
            props = {name: value for name, value in merged.items() if value is not None}
            refusal = self._refusal(props)
            assert refusal is not None, (
                f"{changes} is accepted; remove it from `bad_configs` if it is valid"
            )
            assert text in refusal, (
                f"{changes} is refused, but the message lacks '{text}'; change the text in "
                "`bad_configs` if the message is right"
            )

    def _refusal(self, props: Props) -> str | None:
        try:
            self._open_task(props)
        except PenstockError as refused:
            return str(refused)
        return None

    def _open_task(self, props: Props) -> None:
        """Does everything up to the first record."""
        connector = self._connector_class()()
        planned = connector.plan_tasks(connector.plugin.config.parse(props), 1)
        config = connector.plugin.config.parse(planned[0])
        if isinstance(connector, SourceConnector):
            connector.open(config, SourceContextStub()).close()
        else:
            connector.open(config, SinkContextStub()).close()

    @pytest.mark.parametrize("most", [1, 2, 7])
    def test_tasks_max_limits_the_planned_tasks(self, most: int) -> None:
        planned = self._connector_class()().plan_tasks(self._parsed(), most)
        assert len(planned) <= most, "see `tasks.max`"
        for props in planned:
            for name, text in props.items():
                assert isinstance(name, str), f"the setting {name!r} is not a string"
                assert isinstance(text, str), f"the value of '{name}' is not a string: {text!r}"
            self._connector_class().plugin.config.parse(props)

    def test_planning_again_plans_the_same(self) -> None:
        # A different result would restart the running tasks.
        first, second = (
            [dict(props) for props in self._connector_class()().plan_tasks(self._parsed(), 3)]
            for _ in range(2)
        )
        assert first == second

    def test_planning_leaves_the_configuration_as_it_is(self) -> None:
        config = self._parsed()
        before = dict(config.props)
        self._connector_class()().plan_tasks(config, 2)
        assert config.props == before

    def test_nothing_is_open_when_tasks_are_planned(self) -> None:
        config = self._parsed()
        check_releases(
            lambda: self._connector_class()().plan_tasks(config, 2), culprit="`plan_tasks`"
        )

    def test_another_process_can_import_the_class_without_side_effects(
        self,
    ) -> None:
        connector = self._connector_class()
        assert pickle.loads(pickle.dumps(connector)) is connector
        done = _import_in_new_process(connector)
        assert done.returncode == 0, (
            f"'{connector.__module__}' cannot be imported in a new process; a connector has to be "
            f"in a module that Spark's Python workers can import:\n{done.stderr}"
        )
        result = json.loads(done.stdout.splitlines()[-1])
        assert result["class_name"] == connector.plugin.class_name
        output = done.stdout.splitlines()[:-1] + done.stderr.splitlines()
        assert not output, f"importing it prints: {output}"
        assert not result["changed"], f"importing it changes: {result['changed']}"


@cache
def _import_in_new_process(connector: type[Connector]) -> subprocess.CompletedProcess[str]:
    """Imports the class in another process; once per connector, because it takes a second."""
    request = {"module": connector.__module__, "path": sys.path}
    request["pickled"] = pickle.dumps(connector).hex()
    return subprocess.run(
        [sys.executable, "-c", _IMPORT, json.dumps(request)],
        capture_output=True,
        text=True,
        timeout=_IMPORT_S,
        check=False,
    )


_IMPORT: Final = """
import importlib, json, logging, os, pickle, signal, sys, threading
request = json.loads(sys.argv[1])
sys.path[:] = request["path"]
importlib.import_module("penstock.data.arrow").keep_pandas_out()  # as Spark's Python workers do
for name in ("penstock.api", "penstock.api.schema", "penstock.api.settings"):
    importlib.import_module(name)

def links():
    folder = "/proc/self/fd"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    paths = (os.path.join(folder, name) for name in names)
    return sorted(os.readlink(path) for path in paths if os.path.lexists(path))

def state():
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "open files": [name for name in links() if "/proc/" not in name],
        "the working folder": os.getcwd(),
        "the path of modules": list(sys.path),
        "signal handlers": [str(signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGINT)],
        "handlers of the root logger": [str(handler) for handler in logging.root.handlers],
        "the level of the root logger": logging.root.level,
    }

before = state()
importlib.import_module(request["module"])
after = state()
connector = pickle.loads(bytes.fromhex(request["pickled"]))
changed = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
print(json.dumps({"class_name": connector.plugin.class_name, "changed": changed}))
"""


class _Resources:
    """The open files and running threads of this process at one moment."""

    def __init__(self) -> None:
        self._files = _open_files()
        self._threads = set(threading.enumerate())

    def added(self) -> list[str]:
        """Files and threads added since. Stopping threads get a moment to end."""
        threads = set(threading.enumerate()) - self._threads
        for thread in threads:
            thread.join(_END_S)
        return [
            *(_open_files() - self._files).elements(),
            *(f"the thread '{thread.name}'" for thread in threads if thread.is_alive()),
        ]


def check_releases(act: Callable[[], object], culprit: str) -> None:
    """Fails if `act` leaves open files or threads behind, twice in a row: the first time they may
    be caches, or belong to another thread of the tests."""
    added: list[str] = []
    for _ in range(2):
        before = _Resources()
        act()
        added = before.added()
        if not added:
            return
    raise AssertionError(f"{culprit} leaves behind: {', '.join(added)}")


def _open_files() -> Counter[str]:
    """The open files of this process, if the system lists them."""
    folder = "/proc/self/fd"
    files: Counter[str] = Counter()
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            files[os.readlink(os.path.join(folder, name))] += 1
        except OSError:  # the listing's own file
            continue
    return files
