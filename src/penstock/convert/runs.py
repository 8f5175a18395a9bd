"""The runs of a column, found while it is read."""

from __future__ import annotations

from typing import Final

from penstock.data.records import Run
from penstock.data.schema import Schema, Type


class RunStarts:
    """The starts of runs of one schema. `schema` is that of the current run, which includes rows
    that failed."""

    def __init__(self) -> None:
        self.schema: Schema | None = _NOT_YET
        self._starts: list[tuple[int, Schema | None]] = []

    def begin(self, row: int, schema: Schema | None) -> None:
        """Begins a run, unless the current one has an equal schema."""
        if not self._starts or self.schema != schema:
            self._starts.append((row, schema))
        self.schema = schema

    def runs(self, count: int) -> list[Run]:
        """The runs of a column of `count` rows; rows that failed at its beginning are in the first
        run."""
        if not count:
            return []
        schemas = [schema for _, schema in self._starts] or [None]
        stops = [row for row, _ in self._starts[1:]] + [count]
        return [Run(stop, schema) for stop, schema in zip(stops, schemas, strict=True)]


_NOT_YET: Final = Schema(Type.BOOLEAN)
"""Not the same object as the schema of any row."""
