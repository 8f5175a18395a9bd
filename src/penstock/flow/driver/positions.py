"""Asks the slots where their sink tasks read next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress

from penstock.flow.driver.slots import Slot
from penstock.flow.driver.tickets import Tickets
from penstock.flow.messages import AskPositions, Positions
from penstock.ids import TopicPartition

_Answer = Mapping[int, Mapping[TopicPartition, int]]


class Asking:
    """The questions that are open."""

    def __init__(self) -> None:
        self._open: Tickets[Future[_Answer]] = Tickets()

    def ask(
        self, slots: Iterable[Slot], timeout_s: float
    ) -> dict[int, Mapping[TopicPartition, int]]:
        """By the numbers of tasks; without the slots that do not answer in so much time."""
        asked: dict[int, Future[_Answer]] = {}
        for slot in slots:
            answer: Future[_Answer] = Future()
            ticket = self._open.open(answer)
            asked[ticket] = answer
            slot.send(AskPositions(ticket))
        deadline = time.monotonic() + timeout_s
        known: dict[int, Mapping[TopicPartition, int]] = {}
        for ticket, answer in asked.items():
            with suppress(TimeoutError):
                known |= answer.result(max(0.0, deadline - time.monotonic()))
            self._open.close(ticket)
        return known

    def answered(self, news: Positions) -> None:
        answer = self._open.close(news.ticket)
        if answer is not None:
            answer.set_result(news.tasks)
