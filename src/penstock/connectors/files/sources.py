"""The base of the sources of object stores and of folders."""

from __future__ import annotations

import time
from abc import abstractmethod

from penstock.api import (
    Offsets,
    PenstockError,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.files.read.ledger import is_of
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.read.reader import FilesReader
from penstock.connectors.files.settings.source import TASK_COUNT, TASK_INDEX, task_props
from penstock.connectors.files.stores.reading import ReadStore


class FileSource(SourceConnector):
    """Reads files. A connector defines where they are (`store`), and which are read and how
    (`plan`)."""

    @abstractmethod
    def plan(self, config: Config) -> SourcePlan: ...

    @abstractmethod
    def store(self, config: Config, connector: str) -> ReadStore:
        """`connector` is the name of the connector."""

    @abstractmethod
    def known_by(self, config: Config) -> str:
        """The key in source partitions that names the file or folder of an offset."""

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return task_props(config, max_tasks)

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        name = self.known_by(config)
        for source_offset in offsets:
            if source_offset.offset is not None and not is_of(source_offset.partition, name):
                raise PenstockError(f"Partition objects should contain the key '{name}'")
        self.plan(config).ledger(offsets, 0, 1)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return FilesReader(
            self.plan(config),
            self.store(config, context.task.connector),
            context,
            config[TASK_INDEX],
            config[TASK_COUNT],
            lambda: time.time_ns() // 1_000_000,
        )
