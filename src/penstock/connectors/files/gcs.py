"""The sink to Google Cloud Storage (connectors.md §13.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import gcs as keys
from penstock.connectors.files.settings.extra import GCS, modules_of
from penstock.connectors.files.settings.sink import TOPICS_DIR
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.gcs import GcsStore
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan

_CHECK_S: Final = 5


class GcsSink(FileSink):
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

    def plan(self, config: Config) -> SinkPlan:
        return keys.gcs_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return GcsStore(keys.gcs_options(config))
