"""The sink to Google Cloud Storage (connectors.md §13.4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import gcs as keys
from penstock.connectors.files.settings.extra import GCS, modules_of
from penstock.connectors.files.settings.sink import TOPICS_DIR
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.gcs import GcsStore
from penstock.connectors.files.stores.told import ToldStore
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.writer import FileWriter

_CHECK_S: Final = 5


class GcsSink(SinkConnector):
    """Writes records into objects of a bucket."""

    plugin = Plugin(
        class_name="io.confluent.connect.gcs.GcsSinkConnector",
        version=VERSION,
        config=keys.GCS_SINK,
        task_class="io.confluent.connect.gcs.GcsSinkTask",
        extra=GCS,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["google.cloud.storage", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.gcs_options(config)
        store = GcsStore(replace(options, tries=Tries(0), timeout_s=_CHECK_S))
        root = config[TOPICS_DIR]
        path = f"{root}/.penstock" if root else ".penstock"
        try:
            yield from findings(
                lambda: store.check(path),
                keys.reasons(options),
                keys.BUCKET.name,
                keys.away(options),
            )
        finally:
            store.close()

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        store = GcsStore(keys.gcs_options(config))
        return FileWriter(keys.gcs_plan(config), store, context, _now)

    def open_preview(
        self, config: Config, context: SinkContext, tell: Callable[[str], None]
    ) -> SinkWriter:
        return FileWriter(keys.gcs_plan(config), ToldStore(tell), context, _now)


def _now() -> int:
    return time.time_ns() // 1_000_000
