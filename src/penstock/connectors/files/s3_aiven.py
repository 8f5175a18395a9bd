"""Aiven's source of S3 (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import s3_aiven as keys
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.sources import FileSource
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.reading import ReadStore
from penstock.connectors.files.stores.s3_reading import S3ReadStore


class AivenS3Source(FileSource):
    """Reads objects of a bucket whose keys match a template."""

    plugin = Plugin(
        class_name="io.aiven.kafka.connect.s3.source.S3SourceConnector",
        version=VERSION,
        config=keys.AIVEN_SOURCE,
        task_class="io.aiven.kafka.connect.s3.source.S3SourceTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["boto3", *(["fastavro"] if keys.aiven_format(config) == "Avro" else [])]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.aiven_options(config, config.props.get("name", ""))
        store = S3ReadStore(options.checking())
        return findings(store, [config[keys.PREFIX]], keys.blame(options))

    def plan(self, config: Config) -> SourcePlan:
        return keys.aiven_plan(config)

    def store(self, config: Config, connector: str) -> ReadStore:
        return S3ReadStore(keys.aiven_options(config, connector))

    def known_by(self, config: Config) -> str:
        return "objectKey"
