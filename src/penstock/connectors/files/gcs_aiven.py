"""The sink to Google Cloud Storage under the name and with the settings of Aiven's connector
(connectors.md §13.4)."""

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
from penstock.connectors.files.settings import aiven, gcs
from penstock.connectors.files.settings import gcs_aiven as keys
from penstock.connectors.files.settings.extra import GCS
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.gcs import GcsStore
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.stores.tries import Tries
from penstock.connectors.files.write.plan import SinkPlan

_CHECK_S: Final = 5


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
        store = GcsStore(replace(options, tries=Tries(0), timeout_s=_CHECK_S))
        path = f"{config[keys.PREFIX]}.penstock"
        away = keys.ENDPOINT.name if options.url else gcs.BUCKET.name
        try:
            yield from findings(
                lambda: store.check(path), gcs.reasons(options), gcs.BUCKET.name, away
            )
        finally:
            store.close()

    def plan(self, config: Config) -> SinkPlan:
        return keys.aiven_gcs_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return GcsStore(keys.aiven_gcs_options(config))
