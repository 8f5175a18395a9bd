"""A healthy task that shares its slot with others, and what they must not delay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.ids import TaskId
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .conftest import Flow
from .diaries import DiaryWriter, keeper, written

Unique = Callable[[str], str]

SOON_S = 1.0
"""How long a record of a healthy task may take."""


class Neighbour:
    """A healthy task."""

    def __init__(self, flow: Flow, topics: Topics, unique: Unique, folder: Path) -> None:
        self._flow, self._topics = flow, topics
        self._topic, self._folder = topics.create(unique("quiet")), folder
        self._appended = 0
        plan = flow.sink(unique("quiet"), self._topic, **keeper(DiaryWriter, folder))
        self.task = flow.start(plan)
        self.expect(60)

    def expect(self, within_s: float = SOON_S) -> None:
        """Expects a new record within this time, after all others, once each."""
        self._topics.append(self._topic, [str(self._appended).encode()])
        self._appended += 1
        wait_until(lambda: len(self.written) >= self._appended, within_s, "the neighbour's record")
        assert self.written == [str(number) for number in range(self._appended)]

    def expect_all(self, within_s: float) -> None:
        """The same; records may be written again after a slot has died."""
        self._topics.append(self._topic, [str(self._appended).encode()])
        self._appended += 1
        everything = [str(number) for number in range(self._appended)]
        wait_until(lambda: firsts(self.written) == everything, within_s, "the neighbour's record")

    @property
    def written(self) -> list[str]:
        return written(self._folder)


def firsts(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))


def slot(flow: Flow, task: TaskId) -> int:
    number = flow.standing(task).slot
    assert number is not None
    return number
