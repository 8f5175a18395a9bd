"""The connectors that `penstock load NAME` knows without a file: those Kafka ships files for."""

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
}
"""By name; the settings of Kafka's `connect-file-source.properties` and
`connect-file-sink.properties`. A relative `file` begins at the folder the worker was started in."""
