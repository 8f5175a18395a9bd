"""The source of Google Cloud Storage (connectors.md §13.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import gcs as keys
from penstock.connectors.files.settings.extra import GCS
from penstock.connectors.files.settings.gcs_source import GCS_SOURCE, gcs_source_plan
from penstock.connectors.files.settings.object_source import known_by, modules_of, prefixes_of
from penstock.connectors.files.sources import FileSource
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.gcs_reading import GcsReadStore
from penstock.connectors.files.stores.reading import ReadStore


class GcsSource(FileSource):
    """Reads objects of a bucket: what the sink wrote, or any others."""

    plugin = Plugin(
        class_name="io.confluent.connect.gcs.GcsSourceConnector",
        version=VERSION,
        config=GCS_SOURCE,
        task_class="io.confluent.connect.gcs.GcsSourceTask",
        extra=GCS,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["google.cloud.storage", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.gcs_connection(config)
        store = GcsReadStore(options.checking())
        return findings(store, prefixes_of(config), keys.blame(options))

    def plan(self, config: Config) -> SourcePlan:
        return gcs_source_plan(config)

    def store(self, config: Config, connector: str) -> ReadStore:
        return GcsReadStore(keys.gcs_connection(config))

    def known_by(self, config: Config) -> str:
        return known_by(config)
