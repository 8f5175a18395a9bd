"""The source of local folders, in any format."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Final

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.read.plan import SourcePlan
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
    FolderConnector,
    folder_of,
    folder_plan,
    format_of,
)
from penstock.connectors.files.sources import FileSource
from penstock.connectors.files.stores.local_reading import LocalReadStore

CLASS: Final = "io.penstock.files.LocalFileSourceConnector"


class FolderSource(FileSource):
    """Reads the files of a local folder."""

    kind: FolderConnector = KINDS["Local"]

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
            path = config[key]
            if path and (problem := _problem(_existing(path), os.W_OK | os.X_OK)) is not None:
                yield Finding(key.name, f"Cannot write to {path}: {problem}.")

    def plan(self, config: Config) -> SourcePlan:
        return folder_plan(self.kind, config)

    def store(self, config: Config, connector: str) -> LocalReadStore:
        return LocalReadStore()

    def known_by(self, config: Config) -> str:
        if self.kind.ours:
            return "inode" if config[TAIL] else "path"
        return "fileName"


class LocalFileSource(FolderSource):
    """Reads the files of a local folder: existing files, then new ones."""

    plugin = Plugin(class_name=CLASS, version=VERSION, config=KINDS["Local"].settings, extra=FILES)


def _existing(path: str) -> str:
    """The folder, or its closest parent that exists."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _problem(folder: str, mode: int) -> str | None:
    if not os.path.isdir(folder):
        return "it is not a folder" if os.path.lexists(folder) else "there is no such folder"
    if not os.access(folder, mode):
        return "permission denied for this worker's user"
    return None
