"""Source offsets, as Kafka Connect stores them in the offset topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Primitive = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A source partition and its offset; `offset` None: none is stored."""

    partition: Mapping[str, Primitive]
    offset: Mapping[str, Primitive] | None


Offsets = Sequence[SourceOffset]
