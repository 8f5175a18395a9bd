"""What a sink's batch was made of, for records that are reported later."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.data.records import Records
from penstock.flow.stage import failures
from penstock.flow.stage.chunks import Chunk
from penstock.flow.stage.failures import Letter


@dataclass(frozen=True, slots=True)
class Converted:
    """A chunk, and what came of it on the way to the writer."""

    chunk: Chunk
    records: Records
    bytes: int
    original: failures.Original


class Originals:
    """What a batch was made of, for records that are reported later."""

    def __init__(self, parts: Sequence[Converted]) -> None:
        self._parts = parts
        self._bases: list[int] = []
        base = 0
        for part in parts:
            self._bases.append(base)
            base += len(part.chunk.records)

    def bases(self) -> Iterable[tuple[int, Converted]]:
        return zip(self._bases, self._parts, strict=True)

    def chunk(self, origin: int) -> Chunk:
        """The chunk of a record, which knows its place in Kafka whatever transforms made of it."""
        return self._parts[self._at(origin)].chunk

    def __call__(self, origin: int) -> Letter:
        at = self._at(origin)
        return self._parts[at].original(origin - self._bases[at])

    def _at(self, origin: int) -> int:
        return bisect.bisect_right(self._bases, origin) - 1
