"""The base of all sinks of files."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.api import SinkConnector, SinkContext, SinkWriter
from penstock.api.settings import Config
from penstock.connectors.files.stores.preview import PreviewStore
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.write.plan import SinkPlan
from penstock.connectors.files.write.writer import FileWriter


class FileSink(SinkConnector):
    """Writes records into files. A connector defines where they are (`store`), and how they are
    named, written and ended (`plan`)."""

    @abstractmethod
    def plan(self, config: Config) -> SinkPlan: ...

    @abstractmethod
    def store(self, config: Config, connector: str) -> Store:
        """`connector` is the name of the connector."""

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        store = self.store(config, context.task.connector)
        return FileWriter(self._task_plan(config), store, context, _now)

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter | None:
        return FileWriter(self._task_plan(config), PreviewStore(show), context, _now)

    def _task_plan(self, config: Config) -> SinkPlan:
        topics = [name for name in config.props.get("topics", "").split(",") if name.strip()]
        return replace(self.plan(config), one_topic=len({name.strip() for name in topics}) == 1)


def _now() -> int:
    return time.time_ns() // 1_000_000
