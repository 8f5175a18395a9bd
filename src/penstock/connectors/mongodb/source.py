"""The MongoDB source (connectors.md §6.1): `read` reads change streams."""

from __future__ import annotations

from collections.abc import Iterable

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
from penstock.connectors.mongodb.client.access import MONGODB
from penstock.connectors.mongodb.settings import source as k
from penstock.connectors.mongodb.settings.connection import access_of
from penstock.connectors.mongodb.validation.source import source_findings


class MongoSource(SourceConnector):
    """Sends changes of MongoDB collections, and optionally existing documents, to topics."""

    plugin = Plugin(
        class_name="com.mongodb.kafka.connect.MongoSourceConnector",
        version=VERSION,
        config=k.MONGODB_SOURCE,
        task_class="com.mongodb.kafka.connect.source.MongoSourceTask",
        extra=MONGODB,
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return source_findings(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]  # one stream, which is in order

    def exactly_once(self, config: Config) -> bool | None:
        # An interrupted copy starts over.
        return None if k.startup_mode(config) == k.COPY_EXISTING else True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        from penstock.connectors.mongodb.read.offsets import ID, NS, token_of

        for altered in offsets:
            if altered.offset is None:
                continue
            if NS not in altered.partition:
                raise PenstockError(f"Partition objects should contain the key '{NS}'")
            if ID not in altered.offset:
                raise PenstockError(
                    f"Offset objects should either be null or contain the key '{ID}'"
                )
            token_of(altered.offset)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        from penstock.connectors.mongodb.read.reader import MongoReader

        return MongoReader(access_of(config, k.CONNECTION_URI, "source"), config, context)
