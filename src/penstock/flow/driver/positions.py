"""Requests the positions of sink tasks from their slots."""

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


class OpenRequests:
    """The open requests."""

    def __init__(self) -> None:
        self._open: Tickets[Future[_Answer]] = Tickets()

    def ask(
        self, slots: Iterable[Slot], timeout_s: float
    ) -> dict[int, Mapping[TopicPartition, int]]:
        """Positions by task number; slots that do not answer within `timeout_s` are missing."""
        answers: dict[int, Future[_Answer]] = {}
        for slot in slots:
            answer: Future[_Answer] = Future()
            ticket = self._open.open(answer)
            answers[ticket] = answer
            slot.send(AskPositions(ticket))
        deadline = time.monotonic() + timeout_s
        positions: dict[int, Mapping[TopicPartition, int]] = {}
        for ticket, answer in answers.items():
            with suppress(TimeoutError):
                positions |= answer.result(max(0.0, deadline - time.monotonic()))
            self._open.close(ticket)
        return positions

    def answered(self, news: Positions) -> None:
        answer = self._open.close(news.ticket)
        if answer is not None:
            answer.set_result(news.tasks)
