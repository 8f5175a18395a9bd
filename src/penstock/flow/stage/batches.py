"""The chunks of a sink's batch, for records that are reported later."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.data.records import Records
from penstock.flow.stage import failures
from penstock.flow.stage.chunks import Chunk
from penstock.flow.stage.failures import Letter
from penstock.flow.stage.tap import Place
from penstock.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Converted:
    """A chunk, and its records after conversion."""

    chunk: Chunk
    records: Records
    bytes: int
    original: failures.Original


class Originals:
    """The chunks of a batch, for records that are reported later."""

    def __init__(self, parts: Sequence[Converted]) -> None:
        self._parts = parts
        self._bases: list[int] = []
        base = 0
        for part in parts:
            self._bases.append(base)
            base += len(part.chunk.records)

    def together(self) -> Records | None:
        """The records of all chunks; None if there are none."""
        pieces = [
            replace(part.records, origins=[at + base for at in part.records.origins])
            if base
            else part.records
            for base, part in zip(self._bases, self._parts, strict=True)
            if len(part.records)
        ]
        if not pieces:
            return None
        return pieces[0] if len(pieces) == 1 else Records.together(*pieces)

    def chunk(self, origin: int) -> Chunk:
        """The chunk of a record, which has its place in Kafka regardless of transforms."""
        return self._parts[self._at(origin)].chunk

    def partition(self, origin: int) -> TopicPartition:
        """The topic partition of a record in Kafka."""
        return self.chunk(origin).partition

    def places(self, records: Records) -> Iterator[Place]:
        """Where records of the batch are in Kafka."""
        for origin, offset in zip(records.origins, records.offsets, strict=True):
            yield *self.chunk(origin).partition, offset

    def __call__(self, origin: int) -> Letter:
        at = self._at(origin)
        return self._parts[at].original(origin - self._bases[at])

    def _at(self, origin: int) -> int:
        return bisect.bisect_right(self._bases, origin) - 1
