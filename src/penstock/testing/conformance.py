"""The guarantees of every connector, as tests for its author.

    class TestNotesSource(SourceConformance, SourceEndToEnd):
        connector = NotesSource

        def config(self) -> dict[str, str]:
            return {"notes.folder": str(self.folder), "topic": "notes"}

        def add(self, numbers: range) -> None:
            for number in numbers:
                (self.folder / f"{number:06}.txt").write_text(f"note {number}")

`SourceConformance` and `SinkConformance` test the connector's classes against the contracts of
`penstock.api`, in well under a second each; `SourceEndToEnd` and `SinkEndToEnd` start a real worker
with Spark, and a broker unless there is a fixture `broker`, and take about a minute.

A subclass implements the methods of `SourceCase` or `SinkCase` for the external system. Every test
has a `folder` of its own, and starts with an empty system.
"""

import pytest

# For assertion messages with the compared values, as in test modules; before the imports.
for _checks in ("case", "connector", "source", "sink", "worker"):
    pytest.register_assert_rewrite(f"penstock.testing.conformance_{_checks}")

from penstock.testing.conformance_case import (  # noqa: E402 - the order is the point
    SinkCase,
    SourceCase,
    records_of,
)
from penstock.testing.conformance_sink import SinkConformance  # noqa: E402
from penstock.testing.conformance_source import SourceConformance  # noqa: E402
from penstock.testing.conformance_worker import (  # noqa: E402
    RunningConnector,
    SinkEndToEnd,
    SourceEndToEnd,
)

__all__ = [
    "RunningConnector",
    "SinkCase",
    "SinkConformance",
    "SinkEndToEnd",
    "SourceCase",
    "SourceConformance",
    "SourceEndToEnd",
    "records_of",
]
