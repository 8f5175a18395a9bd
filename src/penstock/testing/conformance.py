"""What every connector promises, as tests that its author runs.

    class TestNotesSource(SourceConformance, SourceEndToEnd):
        connector = NotesSource

        def config(self) -> dict[str, str]:
            return {"notes.folder": str(self.folder), "topic": "notes"}

        def add(self, numbers: range) -> None:
            for number in numbers:
                (self.folder / f"{number:06}.txt").write_text(f"note {number}")

`SourceConformance` and `SinkConformance` check the words of `penstock.api` against the connector's
classes alone, in well under a second each; `SourceEndToEnd` and `SinkEndToEnd` start a real worker
with Spark, and a broker unless there is a fixture `broker`, and take about a minute.

A subclass says how to reach the other system: what the methods of `SourceCase` or `SinkCase` say.
Every test has a `folder` of its own, and starts with a system in which nothing is.
"""

import pytest

# For what an assertion compares to be told when it fails, as in test modules; before the import.
pytest.register_assert_rewrite("penstock.testing.conformance_checks")

from penstock.testing.conformance_checks import (  # noqa: E402 - the order is the point
    Running,
    SinkCase,
    SinkConformance,
    SinkEndToEnd,
    SourceCase,
    SourceConformance,
    SourceEndToEnd,
    records_of,
)

__all__ = [
    "Running",
    "SinkCase",
    "SinkConformance",
    "SinkEndToEnd",
    "SourceCase",
    "SourceConformance",
    "SourceEndToEnd",
    "records_of",
]
