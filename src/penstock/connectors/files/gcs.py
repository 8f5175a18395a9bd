"""The sink to Google Cloud Storage (connectors.md §13.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import gcs as keys
from penstock.connectors.files.settings.extra import GCS, modules_of
from penstock.connectors.files.settings.objects import name_to_check
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.gcs import GcsStore
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.write.plan import SinkPlan


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
        store = GcsStore(options.checking())
        return findings(store, [name_to_check(config)], keys.blame(options))

    def plan(self, config: Config) -> SinkPlan:
        return keys.gcs_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return GcsStore(keys.gcs_options(config))
