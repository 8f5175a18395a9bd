"""How far a source has been read: what Kafka Connect stores in the offsets topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Primitive = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """How far one source partition has been read; `offset` None: nothing is stored."""

    partition: Mapping[str, Primitive]
    offset: Mapping[str, Primitive] | None


Offsets = Sequence[SourceOffset]
