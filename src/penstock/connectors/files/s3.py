"""The sink to S3 (connectors.md §13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import s3 as keys
from penstock.connectors.files.settings.extra import FILES, modules_of
from penstock.connectors.files.settings.objects import name_to_check
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.s3 import S3Store
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.write.plan import SinkPlan


class S3Sink(FileSink):
    """Writes records into objects of a bucket."""

    plugin = Plugin(
        class_name="io.confluent.connect.s3.S3SinkConnector",
        version=VERSION,
        config=keys.S3_SINK,
        task_class="io.confluent.connect.s3.S3SinkTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["boto3", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.s3_options(config, config.props.get("name", ""))
        store = S3Store(options.checking())
        return findings(store, [name_to_check(config)], keys.blame(options))

    def plan(self, config: Config) -> SinkPlan:
        return keys.s3_plan(config)

    def store(self, config: Config, connector: str) -> Store:
        return S3Store(keys.s3_options(config, connector))
