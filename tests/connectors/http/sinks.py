"""Tasks of the HTTP sinks, and records for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.api import Failed, Records, SinkWriter
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.http.sink import ConfluentHttpSink
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub

ROW = struct({"id": INT64, "name": STRING.as_optional()}, name="row")


class Task:
    """A writer, and what it reports."""

    def __init__(
        self, url: str, connector: Any = None, *, tolerates_errors: bool = True, **given: str
    ) -> None:
        settings = {key.replace("_", "."): value for key, value in given.items()}
        self.connector = connector or ConfluentHttpSink()
        base = {"http.api.url": url, "retry.backoff.ms": "10"}
        if connector is not None:
            base = {}
        self.config = self.connector.plugin.config.parse({**base, **settings})
        self.connector.plan_tasks(self.config, 1)
        self.context = SinkContextStub(tolerates_errors=tolerates_errors)
        self.writer: SinkWriter = self.connector.open(self.config, self.context)

    def write(self, records: Records) -> dict[int, str]:
        """Writes and flushes; the messages of refused rows."""
        failed: Failed = {}
        self.writer.write(records, failed)
        self.writer.flush()
        return {row: str(error) for row, error in failed.items()}


Make = Callable[..., Task]


@contextmanager
def tasks() -> Iterator[Make]:
    """Opens tasks, and closes them at the end."""
    made: list[Task] = []

    def make(url: str, connector: Any = None, **given: Any) -> Task:
        made.append(Task(url, connector, **given))
        return made[-1]

    yield make
    for each in made:
        each.writer.close()


def rows(numbers: range, **given: Any) -> Records:
    return records_of(
        [{"id": number, "name": f"name {number}"} for number in numbers],
        schema=ROW,
        keys=[f"k{number}" for number in numbers],
        key_schema=STRING,
        first=numbers.start,
        **given,
    )
