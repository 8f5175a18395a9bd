"""Positions that a sink's writer has asked for, until its consumer is there.

From the moment a task obeys a request, no record of the partition that was read before is written:
its epoch is `SEEKING`, which no chunk has, until the consumer has moved and names the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.ids import TopicPartition

SEEKING: Final = -1
"""The epoch of a partition whose consumer is on its way elsewhere."""


class Seeks:
    """The requests of one task. Not for several threads: its owner holds a lock."""

    def __init__(self) -> None:
        self._asked: dict[TopicPartition, int] = {}
        self._assignments: dict[TopicPartition, int] = {}  # the epochs that they began with
        self._tickets: dict[TopicPartition, int] = {}  # of the last request that is under way
        self._last = 0

    @property
    def asked(self) -> bool:
        """Whether there are requests that are not under way."""
        return bool(self._asked)

    def ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Requests that partitions are read from these offsets on. Raises ValueError for an offset
        below 0."""
        for at, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"{at} cannot be read from offset {offset}")
        self._asked |= offsets

    def assigned(self, at: TopicPartition, epoch: int) -> None:
        """An assignment begins."""
        self._assignments[at] = epoch
        self._tickets.pop(at, None)

    def forget(self, gone: Iterable[TopicPartition]) -> None:
        """Assignments are over."""
        for at in gone:
            self._asked.pop(at, None)
            self._assignments.pop(at, None)
            self._tickets.pop(at, None)

    def start(self) -> tuple[int, dict[TopicPartition, list[Any]]]:
        """The requests for partitions that are assigned, which are under way from now on: their
        ticket, and what the consumer is told of each."""
        asked, self._asked = self._asked, {}
        self._last += 1
        rows = {
            at: [*at, self._assignments[at], offset]
            for at, offset in asked.items()
            if at in self._assignments
        }
        self._tickets |= dict.fromkeys(rows, self._last)
        return self._last, rows

    def arrived(self, at: TopicPartition, ticket: int) -> bool:
        """Whether the consumer is where it was last asked to be."""
        if self._tickets.get(at) != ticket:
            return False
        del self._tickets[at]
        return True
