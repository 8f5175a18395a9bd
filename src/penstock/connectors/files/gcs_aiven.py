"""The sink to Google Cloud Storage under the name and with the settings of Aiven's connector
(connectors.md §13.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import aiven, gcs
from penstock.connectors.files.settings import gcs_aiven as keys
from penstock.connectors.files.settings.extra import GCS
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.gcs import GcsStore
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.write.plan import SinkPlan


class AivenGcsSink(FileSink):
    """Writes records into objects of a bucket whenever offsets are committed."""

    plugin = Plugin(
        class_name="io.aiven.kafka.connect.gcs.GcsSinkConnector",
        version=VERSION,
        config=keys.AIVEN_GCS_SINK,
        task_class="io.aiven.kafka.connect.gcs.GcsSinkTask",
        extra=GCS,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        avro = config[aiven.OUTPUT_TYPE].lower() == "avro"
        return ["google.cloud.storage", *(["fastavro"] if avro else [])]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.aiven_gcs_options(config)
        store = GcsStore(options.checking())
        blame = gcs.blame(options, url=keys.ENDPOINT)
        return findings(store, [f"{config[keys.PREFIX]}.penstock"], blame)

    def plan(self, config: Config) -> SinkPlan:
        return keys.aiven_gcs_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return GcsStore(keys.aiven_gcs_options(config))
