"""Conflicts of versions that may be repetitions.

After a restart, records are delivered again, and their documents have versions from later records
of the same partition. Such a conflict is none: the later record comes again, too. So a conflict
waits for the record at the offset that the stored version names.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api import RecordRef, Records, TopicPartition
from penstock.connectors.search.write.actions import Action

PATIENCE: Final = 30
"""How many calls of `tick` without a record of the partition decide that none comes."""

_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Conflict:
    """A record whose document has a later `version`."""

    partition: TopicPartition
    id: str
    version: int
    record: RecordRef
    reason: str


class Conflicts:
    """The conflicts of a task that are not decided yet.

    A later record of the partition for the same document makes the earlier conflict a repetition:
    it is stored, or conflicts itself. If the record at the offset of the stored version is for
    another document, or does not come, the version is from elsewhere.
    """

    def __init__(self) -> None:
        self.skipped: list[Conflict] = []
        """Conflicts that nothing can decide any more: the topic has no record at that offset, such
        as after compaction."""
        self._waiting: dict[TopicPartition, dict[str, Conflict]] = {}
        self._by_version: dict[TopicPartition, list[tuple[int, str]]] = {}
        self._quiet: dict[TopicPartition, int] = {}
        self._decided: list[Conflict] = []

    def __bool__(self) -> bool:
        return bool(self._waiting or self._decided)

    def add(self, conflict: Conflict) -> None:
        """Waits for the record at the conflict's version, which has not been written yet."""
        partition = conflict.partition
        waiting = self._waiting.setdefault(partition, {})
        waiting[conflict.id] = conflict
        heapq.heappush(self._by_version.setdefault(partition, []), (conflict.version, conflict.id))
        self._quiet[partition] = 0
        if len(waiting) > _MAX:
            self.skipped.append(waiting.pop(next(iter(waiting))))

    def decide(self, conflict: Conflict) -> None:
        """Adds a conflict whose version is from elsewhere."""
        self._decided.append(conflict)

    def follow(self, records: Records, actions: Sequence[Action]) -> None:
        """Decides what the next records, and their actions, tell."""
        ids = {action.row: action.id for action in actions}
        for row, offset in enumerate(records.offsets):
            partition = records.original(row)
            waiting = self._waiting.get(partition)
            if waiting is None:
                continue
            self._quiet[partition] = 0
            id = ids.get(row)
            if id is not None:
                waiting.pop(id, None)
            versions = self._by_version[partition]
            while versions and versions[0][0] <= offset:
                version, other = heapq.heappop(versions)
                conflict = waiting.get(other)
                if conflict is None or conflict.version != version:
                    continue
                del waiting[other]
                (self._decided if version == offset else self.skipped).append(conflict)
            if not waiting:
                self._end(partition)

    def tick(self) -> None:
        """Decides the conflicts of partitions that have been quiet for too long."""
        for partition in list(self._waiting):
            self._quiet[partition] += 1
            if self._quiet[partition] > PATIENCE:
                self._decided += self._waiting[partition].values()
                self._end(partition)

    def take_decided(self) -> Conflict | None:
        """The next conflict with a version from elsewhere; it remains until `done`."""
        return self._decided[0] if self._decided else None

    def done(self) -> None:
        """Drops the conflict that `take_decided` returned."""
        del self._decided[0]

    def held(self, reached: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets that may be committed: none past an undecided conflict."""
        held = dict(reached)
        for partition in held.keys() & self._waiting.keys():
            first = min(each.record.offset for each in self._waiting[partition].values())
            held[partition] = min(held[partition], first)
        return held

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        """Drops the conflicts of these partitions."""
        for partition in partitions:
            self._end(partition)
        self._decided = [each for each in self._decided if each.partition not in partitions]

    def _end(self, partition: TopicPartition) -> None:
        self._waiting.pop(partition, None)
        self._by_version.pop(partition, None)
        self._quiet.pop(partition, None)
