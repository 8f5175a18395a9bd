"""Tasks of DataStax's sink for one table, and what they report."""

from __future__ import annotations

from typing import Any

from penstock.api import Failed, SinkWriter
from penstock.connectors.cassandra.sink import CassandraSink
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from tests.servers.cassandra import DATACENTER, CassandraServer

KS = "sinks"
CREATE_KEYSPACE = (
    f"CREATE KEYSPACE IF NOT EXISTS {KS} WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}"
)
_TABLE_SETTINGS = {
    "consistencyLevel", "ttl", "nullToUnset", "deletesEnabled", "ttlTimeUnit",
    "timestampTimeUnit", "query",
}  # fmt: skip


class Task:
    """A writer of the sink for one table, opened by its first write."""

    def __init__(self, server: CassandraServer, table: str, mapping: str, **given: str) -> None:
        self.topic = f"topic-{table}"
        prefix = f"topic.{self.topic}."
        self.props = {
            "topics": self.topic,
            "contactPoints": "127.0.0.1",
            "loadBalancing.localDc": DATACENTER,
            "port": str(server.port),
            f"{prefix}{KS}.{table}.mapping": mapping,
        }
        for name, value in given.items():
            if name in _TABLE_SETTINGS:
                name = f"{prefix}{KS}.{table}.{name}"
            elif name.startswith("codec_"):
                name = f"{prefix}codec.{name[6:]}"
            self.props[name.replace("_", ".")] = value
        self.connector = CassandraSink()
        self.context = SinkContextStub(tolerates_errors=True)
        self.writer: SinkWriter | None = None

    def findings(self, **changes: str) -> list[tuple[str, str]]:
        """Validation findings for the settings, with these changes."""
        config = CassandraSink.plugin.config.parse({**self.props, **changes})
        return [(each.setting, each.error or "") for each in self.connector.validate_live(config)]

    def write(self, *values: Any, **given: Any) -> Failed:
        failed: Failed = {}
        if self.writer is None:
            config = CassandraSink.plugin.config.parse(self.props)
            self.writer = self.connector.open(config, self.context)
        records = records_of(list(values), topic=self.topic, **given)
        self.writer.write(records, failed)
        self.writer.flush()
        return failed

    def close(self) -> None:
        """Ends the writer; the next write opens another."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.close()


def rows(server: CassandraServer, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    return sorted(server.execute(f"SELECT {columns} FROM {KS}.{table}"))
