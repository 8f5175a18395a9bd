"""The sink to Azure Blob Storage (connectors.md §13.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import azure as keys
from penstock.connectors.files.settings.extra import AZURE, modules_of
from penstock.connectors.files.settings.objects import name_to_check
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.azure import AzureStore
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.write.plan import SinkPlan


class AzureBlobSink(FileSink):
    """Writes records into blobs of a container."""

    plugin = Plugin(
        class_name="io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector",
        version=VERSION,
        config=keys.AZURE_SINK,
        task_class="io.confluent.connect.azure.blob.AzureBlobStorageSinkTask",
        extra=AZURE,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["azure.storage.blob", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.azure_options(config)
        store = AzureStore(options.checking())
        return findings(store, [name_to_check(config)], keys.blame(options))

    def plan(self, config: Config) -> SinkPlan:
        return keys.azure_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return AzureStore(keys.azure_options(config))
