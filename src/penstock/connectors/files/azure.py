"""The sink to Azure Blob Storage (connectors.md §13.4)."""

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
from penstock.connectors.files.settings import azure as keys
from penstock.connectors.files.settings.extra import AZURE, modules_of
from penstock.connectors.files.settings.sink import TOPICS_DIR
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.azure import AzureStore
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan

_CHECK_S: Final = 5


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
        store = AzureStore(replace(options, tries=Tries(0), timeout_s=_CHECK_S))
        root = config[TOPICS_DIR]
        path = f"{root}/.penstock" if root else ".penstock"
        try:
            yield from findings(
                lambda: store.check(path),
                keys.reasons(options),
                keys.CONTAINER.name,
                keys.away(options),
            )
        finally:
            store.close()

    def plan(self, config: Config) -> SinkPlan:
        return keys.azure_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return AzureStore(keys.azure_options(config))
