"""The batch that flows between Kafka and a connector.

A batch is parallel lists, one entry per record. Keys and values are `Column`s: a list of values and
the runs of rows that share one schema, so that converters and transforms work once per schema, then
once per batch, and only then once per record.

Batches are values: a step makes a new one and modifies neither the lists nor their content.
`origins` maps every row to a record of the batch as it was read, so that the result of each record
is known even if steps drop some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from penstock.data.schema import Schema
from penstock.data.schema import Value as Value
from penstock.ids import TopicPartition

T = TypeVar("T")

Failed = dict[int, Exception]
"""The rows (or headers) of a batch that failed in a step, with their errors."""


@dataclass(frozen=True, slots=True)
class RecordRef:
    """A consumed record, to be reported later; keeps its bytes in memory until then."""

    topic: str
    partition: int
    offset: int
    row: int
    source: object = field(default=None, repr=False, compare=False)


class Header(NamedTuple):
    """A record's header. Names may repeat; the order counts."""

    name: str
    value: Value
    schema: Schema | None = None


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

    def schemas(self) -> list[Schema | None]:
        """The schema of every row."""
        schemas: list[Schema | None] = []
        for schema, start, stop in self.slices():
            schemas += [schema] * (stop - start)
        return schemas

    def only(self, rows: Sequence[int]) -> Column:
        """The values of these rows, in this order."""
        if len(self.runs) == 1:
            return Column.of([self.values[row] for row in rows], self.runs[0].schema)
        schemas = self.schemas()
        return Column.gather([self.values[row] for row in rows], [schemas[row] for row in rows])

    def __len__(self) -> int:
        return len(self.values)


@runtime_checkable
class Consumed(Protocol):
    """The consumed records of a sink's batch, before transforms."""

    def partition(self, origin: int, /) -> TopicPartition:
        """The topic partition of a record, by its origin."""


@dataclass(slots=True)
class Records:
    """A batch of Connect records on its way from or to Kafka.

    `topics`, `partitions`, `timestamps`, `origins` are as long as `keys` and `values`. For sinks
    they say where a record was read, and `offsets` is as long; for sources, where it goes
    (`partitions[i]` None: the producer's partitioner decides), and `offsets` is empty. Timestamps
    are ms since the epoch or None. An empty `headers` means that no record has any; otherwise it is
    as long as the rest. `origins` counts from 0; by default, it is the row numbers.
    """

    topics: list[str]
    partitions: list[int | None]
    timestamps: list[int | None]
    keys: Column
    values: Column
    offsets: list[int] = field(default_factory=list)
    headers: list[Sequence[Header]] = field(default_factory=list)
    origins: Sequence[int] = ()
    source: object = field(default=None, repr=False, compare=False)
    """For the engine: the consumed records, for `RecordRef`s; see `Consumed`."""

    def __post_init__(self) -> None:
        if len(self.origins) != len(self.values):
            self.origins = range(len(self.values))

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(
        cls,
        topic: str,
        values: Sequence[Value],
        *,
        keys: Sequence[Value] | None = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        timestamps: Sequence[int | None] | None = None,
        headers: Sequence[Sequence[Header]] = (),
    ) -> Records:
        """Records for one topic, by default without keys and timestamps; the producer chooses the
        partition."""
        count = len(values)
        return cls(
            topics=[topic] * count,
            partitions=[None] * count,
            timestamps=[None] * count if timestamps is None else list(timestamps),
            keys=Column.of([None] * count if keys is None else list(keys), key_schema),
            values=Column.of(list(values), schema),
            headers=list(headers),
        )

    @classmethod
    def none(cls) -> Records:
        """No records."""
        return cls([], [], [], Column.of([], None), Column.of([], None))

    def by_schema(self) -> Iterator[tuple[Schema | None, Records]]:
        """The records in runs of neighbours whose values have the same schema, in order."""
        if len(self.values.runs) == 1:
            yield self.values.runs[0].schema, self
            return
        for schema, start, stop in self.values.slices():
            yield schema, self.only(range(start, stop))

    def ref(self, row: int) -> RecordRef:
        """The consumed record of a row, to be reported later."""
        partition = self.partitions[row]
        assert partition is not None, "only consumed records can be reported"
        return RecordRef(
            self.topics[row], partition, self.offsets[row], self.origins[row], self.source
        )

    def original(self, row: int) -> TopicPartition:
        """The topic partition from which a row was consumed, whatever topic transforms route it to
        (KIP-793). Offsets are committed for it."""
        if isinstance(self.source, Consumed):
            return self.source.partition(self.origins[row])
        return TopicPartition(self.topics[row], self.partitions[row] or 0)

    def with_topics(self, topics: list[str]) -> Records:
        return replace(self, topics=topics)

    def with_keys(self, keys: Column) -> Records:
        return replace(self, keys=keys)

    def with_values(self, values: Column) -> Records:
        return replace(self, values=values)

    def with_headers(self, headers: list[Sequence[Header]]) -> Records:
        return replace(self, headers=headers)

    def only(self, rows: Sequence[int]) -> Records:
        """The records of these rows, in this order."""

        def chosen(cells: Sequence[T]) -> list[T]:
            return [cells[row] for row in rows] if cells else []

        return Records(
            topics=chosen(self.topics),
            partitions=chosen(self.partitions),
            timestamps=chosen(self.timestamps),
            keys=self.keys.only(rows),
            values=self.values.only(rows),
            offsets=chosen(self.offsets),
            headers=chosen(self.headers),
            origins=chosen(self.origins),
            source=self.source,
        )

    def but(self, rows: Mapping[int, object] | set[int]) -> Records:
        """The records of all other rows."""
        if not rows:
            return self
        return self.only([row for row in range(len(self)) if row not in rows])

    @staticmethod
    def together(*parts: Records) -> Records:
        """The records of all parts, by origin; no origin is in two parts."""
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else parts[0]
        headers: list[Sequence[Header]] = []
        if any(part.headers for part in filled):
            headers = [row for part in filled for row in part.headers or [()] * len(part)]
        origins = [at for part in filled for at in part.origins]
        records = Records(
            topics=[cell for part in filled for cell in part.topics],
            partitions=[cell for part in filled for cell in part.partitions],
            timestamps=[cell for part in filled for cell in part.timestamps],
            keys=_joined([part.keys for part in filled]),
            values=_joined([part.values for part in filled]),
            offsets=[cell for part in filled for cell in part.offsets],
            headers=headers,
            origins=origins,
        )
        return records.only(sorted(range(len(records)), key=origins.__getitem__))


def _joined(columns: list[Column]) -> Column:
    values = [value for column in columns for value in column.values]
    return Column.gather(values, [schema for column in columns for schema in column.schemas()])
