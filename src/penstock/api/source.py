"""The contract of a source connector.

A source is planned in ranges: it is asked how far the next batch may go, how that range splits into
parts that can be read side by side, and to read one part. Positions are what Kafka Connect stores:
`SourceOffset`s, each a source partition (which file, which table) with the offset reached in it.
Nothing here knows Spark; every method may run in another process than the one before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock.api.plugin import Plugin
from penstock.config.define import Config
from penstock.data.records import Records

Primitive = str | int | float | bool | None
Props = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """How far one source partition has been read; `offset` None: nothing is stored."""

    partition: Mapping[str, Primitive]
    offset: Mapping[str, Primitive] | None


Offsets = Sequence[SourceOffset]


class SourceReader(ABC):
    """Reads one task's share of the source system.

    `start` and `end` are positions as `latest` returned them, or what was stored when the task ran
    last; an empty `start` means from the beginning. Raise an error with `retriable` to be asked
    again; any other error fails the task.
    """

    schema: ClassVar[pa.Schema]
    """The columns of the Arrow batches that `read` yields."""

    @abstractmethod
    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        """Where the next batch ends: at most about `max_bytes` after `start`, and equal to `start`
        when there is nothing to read yet."""

    def parts(self, start: Offsets, end: Offsets) -> Sequence[tuple[Offsets, Offsets]]:
        """The ranges of one batch that may be read side by side. Records of different parts may
        reach Kafka in any order; by default the batch is one part, so order is kept."""
        return [(start, end)]

    @abstractmethod
    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        """Everything in one part, in order, in batches of any size."""

    @abstractmethod
    def records(self, batch: pa.RecordBatch) -> Records:
        """The Connect records of one batch that `read` yielded."""


class SourceConnector(ABC):
    """Moves data from another system into Kafka."""

    plugin: ClassVar[Plugin]

    @abstractmethod
    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        """The configurations of the tasks to run, at most `max_tasks` of them."""

    @abstractmethod
    def open(self, config: Config) -> SourceReader:
        """A reader for one task; `config` is the task's own configuration."""
