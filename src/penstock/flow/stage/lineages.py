"""The lineages of a sink's partitions.

A lineage is a sequence of commits in which every task began where its predecessor had committed. It
is kept in the metadata of the committed offset. Whoever sets offsets otherwise (an administrator,
the REST API) does not know it, and Kafka forgets it with the topic; so the next task begins a new
lineage, and can tell what was stored before from what a predecessor has stored since its last
commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from penstock.flow.stage.events import Assigned
from penstock.ids import TopicPartition

_PREFIX: Final = "penstock-lineage "


class Lineages:
    """The lineages of one task's partitions."""

    def __init__(self) -> None:
        self._lineages: dict[TopicPartition, str] = {}
        self._ends: dict[TopicPartition, int] = {}

    def of(self, at: TopicPartition) -> str:
        """See `SinkContext.lineage`."""
        lineage = self._lineages.get(at)
        return self._begin(at) if lineage is None else lineage

    def assigned(self, event: Assigned) -> None:
        """Continues the lineages of assigned partitions that begin at their committed offsets."""
        for at, start in event.partitions.items():
            self.moved([at])
            self._lineages.pop(at, None)
            offset, metadata = event.committed.get(at, (None, None))
            if offset == start.offset and str(metadata).startswith(_PREFIX):
                self._lineages[at] = str(metadata).removeprefix(_PREFIX)

    def moved(self, partitions: Iterable[TopicPartition]) -> None:
        """The task itself has moved its positions in partitions."""
        for at in partitions:
            self._ends.pop(at, None)

    def arrived(self, at: TopicPartition, first: int, end: int) -> None:
        """Records arrive. If they go back without a seek, the topic was created again: that begins
        another lineage."""
        if first < self._ends.get(at, first):
            self._begin(at)
        self._ends[at] = end

    def metadata(self, at: TopicPartition) -> str:
        """The metadata of a committed offset."""
        return _PREFIX + self.of(at)

    def _begin(self, at: TopicPartition) -> str:
        lineage = self._lineages[at] = f"{time.time_ns() // 1_000_000:015d}-{uuid4().hex}"
        return lineage
