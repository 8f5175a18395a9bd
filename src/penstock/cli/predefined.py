"""The connectors that `penstock load NAME` knows without a file: those for which Kafka and
Confluent's platform ship files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PREDEFINED: Final[Mapping[str, Mapping[str, str]]] = {
    "file-source": {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": "test.txt",
        "topic": "connect-test",
    },
    "file-sink": {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": "test.sink.txt",
        "topics": "connect-test",
    },
    "jdbc-source": {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "tasks.max": "1",
        "connection.url": "jdbc:sqlite:test.db",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "test-sqlite-jdbc-",
    },
    "jdbc-sink": {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": "orders",
        "connection.url": "jdbc:sqlite:test.db",
        "auto.create": "true",
    },
}
"""By name; the settings of Kafka's `connect-file-source.properties` and
`connect-file-sink.properties`, and of Confluent's quick starts with SQLite. A relative path starts
at the folder in which the worker was started."""
