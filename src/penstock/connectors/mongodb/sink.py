"""The MongoDB sink (connectors.md §6.2): `write` writes its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.api import VERSION, Finding, Plugin, SinkConnector, SinkContext, SinkWriter
from penstock.api.settings import Config
from penstock.connectors.mongodb.client.access import MONGODB
from penstock.connectors.mongodb.settings.connection import access_of
from penstock.connectors.mongodb.settings.sink import CONNECTION_URI, MONGODB_SINK
from penstock.connectors.mongodb.validation.sink import sink_findings


class MongoSink(SinkConnector):
    """Writes records as documents to MongoDB collections."""

    plugin = Plugin(
        class_name="com.mongodb.kafka.connect.MongoSinkConnector",
        version=VERSION,
        config=MONGODB_SINK,
        task_class="com.mongodb.kafka.connect.sink.MongoSinkTask",
        extra=MONGODB,
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return sink_findings(config)

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        from penstock.connectors.mongodb.write.plan import plan_of
        from penstock.connectors.mongodb.write.writer import MongoWriter

        access = access_of(config, CONNECTION_URI, "sink")
        return MongoWriter(access, lambda topic: plan_of(config, topic), context)

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter:
        from penstock.connectors.mongodb.write.plan import plan_of
        from penstock.connectors.mongodb.write.preview import PreviewWriter

        return PreviewWriter(lambda topic: plan_of(config, topic), show)
