"""The sink to S3 under the name and with the settings of Aiven's connector (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import aiven as keys
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.s3 import S3Store
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.write.plan import SinkPlan


class AivenS3Sink(FileSink):
    """Writes records into objects of a bucket whenever offsets are committed."""

    plugin = Plugin(
        class_name="io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        version=VERSION,
        config=keys.AIVEN_S3_SINK,
        task_class="io.aiven.kafka.connect.s3.S3SinkTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        avro = config[keys.OUTPUT_TYPE].lower() == "avro"
        return ["boto3", "fastavro"] if avro else ["boto3"]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.aiven_options(config, config.props.get("name", ""))
        store = S3Store(options.checking())
        prefix = (config[keys.PREFIX] or "").partition("{{")[0]
        return findings(store, [f"{prefix}.penstock"], keys.blame(options))

    def plan(self, config: Config) -> SinkPlan:
        return keys.aiven_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return S3Store(keys.aiven_options(config, connector))
