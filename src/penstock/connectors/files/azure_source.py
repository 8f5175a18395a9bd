"""The source of Azure Blob Storage (connectors.md §13.4)."""

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
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import azure as keys
from penstock.connectors.files.settings.azure_source import AZURE_SOURCE, azure_source_plan
from penstock.connectors.files.settings.extra import AZURE
from penstock.connectors.files.settings.object_source import (
    GENERIC,
    MODE,
    formats_of,
    prefixes_of,
)
from penstock.connectors.files.sources import FileSource
from penstock.connectors.files.stores.azure_reading import AzureReadStore
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.reading import ReadStore
from penstock.connectors.files.stores.tries import Tries

_CHECK_S: Final = 5


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
        return ["azure.storage.blob", *(["fastavro"] if "Avro" in formats_of(config) else [])]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.azure_connection(config)
        store = AzureReadStore(replace(options, tries=Tries(0), timeout_s=_CHECK_S))

        def check() -> None:
            for prefix in prefixes_of(config):
                store.check(prefix)

        try:
            yield from findings(
                check, keys.reasons(options), keys.CONTAINER.name, keys.away(options)
            )
        finally:
            store.close()

    def plan(self, config: Config) -> SourcePlan:
        return azure_source_plan(config)

    def store(self, config: Config, connector: str) -> ReadStore:
        return AzureReadStore(keys.azure_connection(config))

    def known_by(self, config: Config) -> str:
        return "fileName" if config[MODE] == GENERIC else "folder"
