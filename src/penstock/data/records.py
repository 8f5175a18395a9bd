"""The batch that flows between Kafka and a connector.

A batch is parallel lists, one entry per record. Keys and values are `Column`s: a list of values and
the runs of rows that share one schema, so that converters and transforms work once per schema, then
once per batch, and only then once per record. A row that failed stays in the lists (positions never
shift) and has an entry in `errors`; one place at the end of the flow decides what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from penstock.data.schema import Schema
from penstock.data.schema import Value as Value


@dataclass(frozen=True, slots=True)
class Run:
    """Rows up to (not including) `stop`, from the end of the run before, share `schema`."""

    stop: int
    schema: Schema | None  # None: schemaless


@dataclass(slots=True)
class Column:
    """One side of a batch (its keys or its values): values and the schemas of their runs.

    The runs are in order and the last one's `stop` is `len(values)`; an empty column has no runs.
    """

    values: list[Value]
    runs: list[Run]

    @classmethod
    def of(cls, values: list[Value], schema: Schema | None) -> Column:
        """A column whose rows all share one schema."""
        return cls(values, [Run(len(values), schema)] if values else [])

    @classmethod
    def gather(cls, values: list[Value], schemas: Sequence[Schema | None]) -> Column:
        """A column from one schema per row; neighbours with the same schema become one run."""
        runs: list[Run] = []
        for row, schema in enumerate(schemas):
            following = row + 1 < len(values) and (
                schemas[row + 1] is schema or schemas[row + 1] == schema
            )
            if not following:
                runs.append(Run(row + 1, schema))
        return cls(values, runs)

    def slices(self) -> Iterator[tuple[Schema | None, int, int]]:
        """`(schema, start, stop)` of every run, in order."""
        start = 0
        for run in self.runs:
            yield run.schema, start, run.stop
            start = run.stop

    def __len__(self) -> int:
        return len(self.values)


class Stage(Enum):
    """Where a record failed; names as Kafka Connect writes them into dead letter headers."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


@dataclass(frozen=True, slots=True)
class RecordError:
    """Why one record of a batch could not go on."""

    row: int
    stage: Stage
    cause: Exception


@dataclass(slots=True)
class Records:
    """A batch of Connect records on its way from or to Kafka.

    `topics`, `partitions`, `offsets` and `timestamps` are as long as `keys` and `values`.
    For sinks they say where a record was read; for sources where it goes (`partitions[i]` None:
    the producer's partitioner decides; `offsets` empty). Timestamps are ms since the epoch or None.
    `headers[i]` is a list of `(name, value bytes)`; an empty `headers` means no record has any.
    """

    topics: list[str]
    partitions: list[int | None]
    timestamps: list[int | None]
    keys: Column
    values: Column
    offsets: list[int] = field(default_factory=list)
    headers: list[list[tuple[str, bytes | None]]] = field(default_factory=list)
    errors: list[RecordError] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)
