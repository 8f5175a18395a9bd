"""The sink to a local or mounted folder."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from penstock.api import VERSION, Finding, Plugin
from penstock.api.settings import Config
from penstock.connectors.files.settings.extra import FILES, modules_of
from penstock.connectors.files.settings.local import LOCAL_SINK, STORE_URL, folder_of, local_plan
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.local import LocalStore
from penstock.connectors.files.write.plan import SinkPlan

CLASS: Final = "io.penstock.files.LocalFileSinkConnector"


class LocalFileSink(FileSink):
    """Writes records into files of a local folder."""

    plugin = Plugin(class_name=CLASS, version=VERSION, config=LOCAL_SINK, extra=FILES)

    def required_modules(self, config: Config) -> Collection[str]:
        return modules_of(config)

    def validate_live(self, config: Config) -> Iterable[Finding]:
        folder = folder_of(config)
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        problem = _problem(folder)
        if problem is not None:
            yield Finding(STORE_URL.name, f"Cannot write to {folder_of(config)}: {problem}.")

    def plan(self, config: Config) -> SinkPlan:
        return local_plan(config)

    def store(self, config: Config, connector: str) -> LocalStore:
        return LocalStore(folder_of(config))


def _problem(folder: Path) -> str | None:
    if not folder.is_dir():
        return f"{folder} is not a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this worker's user may not write to {folder}"
    return None
