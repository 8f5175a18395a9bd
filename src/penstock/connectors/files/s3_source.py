"""The source of S3 (connectors.md §13)."""

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
from penstock.connectors.files.settings import s3 as keys
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.settings.object_source import (
    GENERIC,
    MODE,
    formats_of,
    prefixes_of,
)
from penstock.connectors.files.settings.s3_source import S3_SOURCE, s3_source_plan
from penstock.connectors.files.settings.source import TASK_COUNT, TASK_INDEX, task_props
from penstock.connectors.files.stores.s3_checks import findings
from penstock.connectors.files.stores.s3_reading import S3ReadStore

_SETTINGS: Final[Mapping[str, str]] = {
    "InvalidAccessKeyId": keys.ACCESS_KEY.name,
    "SignatureDoesNotMatch": keys.SECRET_KEY.name,
    "ExpiredToken": keys.SESSION_TOKEN.name,
    "InvalidToken": keys.SESSION_TOKEN.name,
    "PermanentRedirect": keys.REGION.name,
    "AuthorizationHeaderMalformed": keys.REGION.name,
    "IllegalLocationConstraintException": keys.REGION.name,
}
"""The setting that is wrong, by what S3 says; else it is the bucket."""


class S3Source(SourceConnector):
    """Reads objects of a bucket: what the sink wrote, or any others."""

    plugin = Plugin(
        class_name="io.confluent.connect.s3.source.S3SourceConnector",
        version=VERSION,
        config=S3_SOURCE,
        task_class="io.confluent.connect.s3.source.S3SourceTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["boto3", *(["fastavro"] if "Avro" in formats_of(config) else [])]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.s3_connection(config, config.props.get("name", ""))
        url = keys.STORE_URL.name if options.url else keys.REGION.name
        return findings(options, prefixes_of(config), _SETTINGS, keys.BUCKET.name, url)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return task_props(config, max_tasks)

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        name = "fileName" if config[MODE] == GENERIC else "folder"
        for each in offsets:
            if each.offset is not None and not is_of(each.partition, name):
                raise PenstockError(f"Partition objects should contain the key '{name}'")
        s3_source_plan(config).ledger(offsets, 0, 1)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return FilesReader(
            s3_source_plan(config),
            S3ReadStore(keys.s3_connection(config, context.task.connector)),
            context,
            config[TASK_INDEX],
            config[TASK_COUNT],
            lambda: time.time_ns() // 1_000_000,
        )
