"""Seeks that a sink's writer has requested, until its consumer has arrived.

From the moment a task obeys a request, it writes no record of the partition that was read before:
the epoch is `SEEKING`, which no chunk has, until the consumer has moved and reports the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.ids import TopicPartition

SEEKING: Final = -1
"""The epoch of a partition whose consumer has not reached the requested offset."""


class Seeks:
    """The requests of one task. Not thread-safe: the owner holds a lock."""

    def __init__(self) -> None:
        self._requested: dict[TopicPartition, int] = {}
        self._assignments: dict[TopicPartition, int] = {}  # the epochs that they began with
        self._tickets: dict[TopicPartition, int] = {}  # of the last request in progress
        self._last = 0

    @property
    def asked(self) -> bool:
        """Whether there are requests that have not started."""
        return bool(self._requested)

    def ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Requests to read partitions from these offsets on. Raises ValueError for an offset below
        0."""
        for at, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"{at} cannot be read from offset {offset}")
        self._requested |= offsets

    def assigned(self, at: TopicPartition, epoch: int) -> None:
        """An assignment begins."""
        self._assignments[at] = epoch
        self._tickets.pop(at, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Assignments have ended."""
        for at in partitions:
            self._requested.pop(at, None)
            self._assignments.pop(at, None)
            self._tickets.pop(at, None)

    def start(self) -> tuple[int, dict[TopicPartition, list[Any]]]:
        """Starts the requests for assigned partitions; returns their ticket, and the consumer's
        arguments for each."""
        requested, self._requested = self._requested, {}
        self._last += 1
        rows = {
            at: [*at, self._assignments[at], offset]
            for at, offset in requested.items()
            if at in self._assignments
        }
        self._tickets |= dict.fromkeys(rows, self._last)
        return self._last, rows

    def arrived(self, at: TopicPartition, ticket: int) -> bool:
        """Whether the consumer has reached the last requested position."""
        if self._tickets.get(at) != ticket:
            return False
        del self._tickets[at]
        return True
