"""Aiven's source of S3 (connectors.md §13)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.api import (
    VERSION,
    Finding,
    Offsets,
    PenstockError,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.files.read.ledger import is_of
from penstock.connectors.files.read.reader import FilesReader
from penstock.connectors.files.settings import s3_aiven as keys
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.settings.source import TASK_COUNT, TASK_INDEX, task_props
from penstock.connectors.files.stores.s3_checks import findings
from penstock.connectors.files.stores.s3_reading import S3ReadStore

_SETTINGS: Final[Mapping[str, str]] = {
    "InvalidAccessKeyId": keys.ACCESS_KEY.name,
    "SignatureDoesNotMatch": keys.SECRET_KEY.name,
    "PermanentRedirect": keys.REGION.name,
    "AuthorizationHeaderMalformed": keys.REGION.name,
    "IllegalLocationConstraintException": keys.REGION.name,
}


class AivenS3Source(SourceConnector):
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
        url = keys.ENDPOINT.name if options.url else keys.REGION.name
        return findings(options, [config[keys.PREFIX]], _SETTINGS, keys.BUCKET.name, url)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return task_props(config, max_tasks)

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for each in offsets:
            if each.offset is not None and not is_of(each.partition, "objectKey"):
                raise PenstockError("Partition objects should contain the key 'objectKey'")
        keys.aiven_plan(config).ledger(offsets, 0, 1)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return FilesReader(
            keys.aiven_plan(config),
            S3ReadStore(keys.aiven_options(config, context.task.connector)),
            context,
            config[TASK_INDEX],
            config[TASK_COUNT],
            lambda: time.time_ns() // 1_000_000,
        )
