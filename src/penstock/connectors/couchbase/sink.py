"""The Couchbase sink (connectors.md §11): `write` writes its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.api import VERSION, Finding, Plugin, SinkConnector, SinkContext, SinkWriter
from penstock.api.settings import Config
from penstock.connectors.couchbase.client.access import COUCHBASE
from penstock.connectors.couchbase.client.connecting import connect
from penstock.connectors.couchbase.settings.connection import access_of
from penstock.connectors.couchbase.settings.sink import COUCHBASE_SINK, sink_plan
from penstock.connectors.couchbase.validation import sink_findings


class CouchbaseSink(SinkConnector):
    """Writes records as documents to Couchbase collections."""

    plugin = Plugin(
        class_name="com.couchbase.connect.kafka.CouchbaseSinkConnector",
        version=VERSION,
        config=COUCHBASE_SINK,
        task_class="com.couchbase.connect.kafka.CouchbaseSinkTask",
        extra=COUCHBASE,
        experimental="Not tested against a Couchbase server.",
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return sink_findings(config)

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        from penstock.connectors.couchbase.write.writer import CouchbaseWriter

        access = access_of(config)
        return CouchbaseWriter(sink_plan(config), lambda: connect(access), context)

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter:
        from penstock.connectors.couchbase.write.preview import PreviewStore
        from penstock.connectors.couchbase.write.writer import CouchbaseWriter

        return CouchbaseWriter(sink_plan(config), lambda: PreviewStore(show), context)
