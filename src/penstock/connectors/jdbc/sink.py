"""The JDBC sink (connectors.md §3). The package `write` writes its records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
    SinkConnector,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.database import JDBC
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import EXACTLY_ONCE, JDBC_SINK, OFFSETS_TABLE
from penstock.connectors.jdbc.validation.sink import sink_findings
from penstock.connectors.jdbc.write.dialect import TableName
from penstock.connectors.jdbc.write.offsets import OffsetsTable
from penstock.connectors.jdbc.write.settings import dialect_of, settings_of
from penstock.connectors.jdbc.write.writer import JdbcWriter


class JdbcSink(SinkConnector):
    """Writes records to tables of a relational database."""

    plugin = Plugin(
        class_name="io.confluent.connect.jdbc.JdbcSinkConnector",
        version=VERSION,
        config=JDBC_SINK,
        task_class="io.confluent.connect.jdbc.sink.JdbcSinkTask",
        also=("io.aiven.connect.jdbc.JdbcSinkConnector",),
        extra=JDBC,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return database_of(config).modules

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return sink_findings(config)

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        if not config[EXACTLY_ONCE]:
            return True
        # The table decides where writing resumes, not the offsets in Kafka.
        dialect, table = dialect_of(config), TableName.parse(config[OFFSETS_TABLE])
        stored = OffsetsTable(dialect, table, config.props.get("name", ""))
        with database_of(config).connect() as connection:
            if stored.exists(connection):
                with connection.transaction():
                    stored.replace(
                        connection,
                        {TopicPartition(*at): offset or 0 for at, offset in offsets.items()},
                    )
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        settings = settings_of(config, context.task.connector)
        return JdbcWriter(database_of(config), dialect_of(config), settings, context)
