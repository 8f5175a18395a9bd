"""The source of Google Cloud Storage (connectors.md §13.4)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import replace
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
from penstock.connectors.files.settings import gcs as keys
from penstock.connectors.files.settings.extra import GCS
from penstock.connectors.files.settings.gcs_source import GCS_SOURCE, gcs_source_plan
from penstock.connectors.files.settings.object_source import (
    GENERIC,
    MODE,
    formats_of,
    prefixes_of,
)
from penstock.connectors.files.settings.source import TASK_COUNT, TASK_INDEX, task_props
from penstock.connectors.files.stores.checks import findings
from penstock.connectors.files.stores.gcs_reading import GcsReadStore
from penstock.connectors.files.stores.tries import Tries

_CHECK_S: Final = 5


class GcsSource(SourceConnector):
    """Reads objects of a bucket: what the sink wrote, or any others."""

    plugin = Plugin(
        class_name="io.confluent.connect.gcs.GcsSourceConnector",
        version=VERSION,
        config=GCS_SOURCE,
        task_class="io.confluent.connect.gcs.GcsSourceTask",
        extra=GCS,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["google.cloud.storage", *(["fastavro"] if "Avro" in formats_of(config) else [])]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        options = keys.gcs_connection(config)
        store = GcsReadStore(replace(options, tries=Tries(0), timeout_s=_CHECK_S))

        def check() -> None:
            for prefix in prefixes_of(config):
                store.check(prefix)

        try:
            yield from findings(check, keys.reasons(options), keys.BUCKET.name, keys.away(options))
        finally:
            store.close()

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return task_props(config, max_tasks)

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        name = "fileName" if config[MODE] == GENERIC else "folder"
        for each in offsets:
            if each.offset is not None and not is_of(each.partition, name):
                raise PenstockError(f"Partition objects should contain the key '{name}'")
        gcs_source_plan(config).ledger(offsets, 0, 1)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return FilesReader(
            gcs_source_plan(config),
            GcsReadStore(keys.gcs_connection(config)),
            context,
            config[TASK_INDEX],
            config[TASK_COUNT],
            lambda: time.time_ns() // 1_000_000,
        )
