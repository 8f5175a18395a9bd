"""The source of Azure Blob Storage (connectors.md §13.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import azure as keys
from penstock.connectors.files.settings.azure_source import AZURE_SOURCE, azure_source_plan
from penstock.connectors.files.settings.extra import AZURE
from penstock.connectors.files.settings.object_source import known_by, modules_of, prefixes_of
from penstock.connectors.files.sources import FileSource
from penstock.connectors.files.stores.azure_reading import AzureReadStore
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.reading import ReadStore


class AzureBlobSource(FileSource):
    """Reads blobs of a container: what the sink wrote, or any others."""

    plugin = Plugin(
        class_name="io.confluent.connect.azure.blob.storage.AzureBlobStorageSourceConnector",
        version=VERSION,
        config=AZURE_SOURCE,
        task_class="io.confluent.connect.azure.blob.storage.AzureBlobStorageSourceTask",
        extra=AZURE,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["azure.storage.blob", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.azure_connection(config)
        store = AzureReadStore(options.checking())
        return findings(store, prefixes_of(config), keys.blame(options))

    def plan(self, config: Config) -> SourcePlan:
        return azure_source_plan(config)

    def store(self, config: Config, connector: str) -> ReadStore:
        return AzureReadStore(keys.azure_connection(config))

    def known_by(self, config: Config) -> str:
        return known_by(config)
