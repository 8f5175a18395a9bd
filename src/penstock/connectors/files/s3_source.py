"""The source of S3 (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import s3 as keys
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.settings.object_source import known_by, modules_of, prefixes_of
from penstock.connectors.files.settings.s3_source import S3_SOURCE, s3_source_plan
from penstock.connectors.files.sources import FileSource
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.reading import ReadStore
from penstock.connectors.files.stores.s3_reading import S3ReadStore


class S3Source(FileSource):
    """Reads objects of a bucket: what the sink wrote, or any others."""

    plugin = Plugin(
        class_name="io.confluent.connect.s3.source.S3SourceConnector",
        version=VERSION,
        config=S3_SOURCE,
        task_class="io.confluent.connect.s3.source.S3SourceTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["boto3", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.s3_connection(config, config.props.get("name", ""))
        store = S3ReadStore(options.checking())
        return findings(store, prefixes_of(config), keys.blame(options))

    def plan(self, config: Config) -> SourcePlan:
        return s3_source_plan(config)

    def store(self, config: Config, connector: str) -> ReadStore:
        return S3ReadStore(keys.s3_connection(config, connector))

    def known_by(self, config: Config) -> str:
        return known_by(config)
