"""The source of local folders, in any format."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from typing import Final

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
from penstock.connectors.files.read.ledger import is_of
from penstock.connectors.files.read.reader import FilesReader
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.settings.folder_keys import (
    CLEANUP,
    ERROR_PATH,
    FINISHED_PATH,
    INPUT_PATH,
    TAIL,
)
from penstock.connectors.files.settings.folders import (
    KINDS,
    Kind,
    folder_of,
    folder_plan,
    format_of,
)
from penstock.connectors.files.settings.source import TASK_COUNT, TASK_INDEX, task_props
from penstock.connectors.files.stores.local_reading import LocalReadStore

CLASS: Final = "io.penstock.files.LocalFileSourceConnector"


class FolderSource(SourceConnector):
    """Reads the files of a local folder."""

    kind: Kind = KINDS["Local"]

    def required_modules(self, config: Config) -> Collection[str]:
        return ["fastavro"] if format_of(self.kind, config) == "Avro" else []

    def validate_live(self, config: Config) -> Iterable[Finding]:
        folder = folder_of(config)
        problem = _problem(folder, os.R_OK | os.X_OK)
        if problem is not None:
            yield Finding(INPUT_PATH.name, f"Cannot read {folder}: {problem}.")
        elif config[CLEANUP] != "NONE" and (problem := _problem(folder, os.W_OK)) is not None:
            text = f"{CLEANUP.name}={config[CLEANUP]} is not possible: {problem}."
            yield Finding(CLEANUP.name, text)
        for key in (FINISHED_PATH, ERROR_PATH):
            given = config[key]
            if given and (problem := _problem(_existing(given), os.W_OK | os.X_OK)) is not None:
                yield Finding(key.name, f"Cannot write to {given}: {problem}.")

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return task_props(config, max_tasks)

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        name = "fileName"
        if self.kind.ours:
            name = "inode" if config[TAIL] else "path"
        for each in offsets:
            if each.offset is not None and not is_of(each.partition, name):
                raise PenstockError(f"Partition objects should contain the key '{name}'")
        folder_plan(self.kind, config).ledger(offsets, 0, 1)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return FilesReader(
            folder_plan(self.kind, config),
            LocalReadStore(),
            context,
            config[TASK_INDEX],
            config[TASK_COUNT],
            lambda: time.time_ns() // 1_000_000,
        )


class LocalFileSource(FolderSource):
    """Reads the files of a local folder: those that are there, and those that come."""

    plugin = Plugin(class_name=CLASS, version=VERSION, config=KINDS["Local"].settings, extra=FILES)


def _existing(path: str) -> str:
    """The folder, or the closest one above that exists."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _problem(folder: str, mode: int) -> str | None:
    if not os.path.isdir(folder):
        return "it is not a folder" if os.path.lexists(folder) else "there is no such folder"
    if not os.access(folder, mode):
        return "this worker's user may not"
    return None
