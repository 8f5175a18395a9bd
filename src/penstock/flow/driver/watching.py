"""Requests the next records of a task from its slot, with what happens to them."""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Mapping
from typing import Any

from penstock.flow.driver.slots import Slot
from penstock.flow.driver.tickets import Tickets
from penstock.flow.messages import WatchedRecords, WatchRecords

Seen = Mapping[str, Any]
"""A record: its `steps`, and its `outcome` (see `stage.tap`)."""


class Watching:
    """The open requests."""

    def __init__(self) -> None:
        self._open: Tickets[queue.SimpleQueue[WatchedRecords]] = Tickets()

    def watch(
        self, slot: Slot, id: int, records: int, timeout_s: float, hidden: re.Pattern[str] | None
    ) -> list[Seen]:
        """The next records of a task, at most `records`; fewer if no more arrive in time."""
        answers: queue.SimpleQueue[WatchedRecords] = queue.SimpleQueue()
        ticket = self._open.open(answers)
        deadline = time.monotonic() + timeout_s
        slot.send(WatchRecords(id, ticket, records, timeout_s, hidden))
        watched: list[Seen] = []
        try:
            while len(watched) < records:
                watched += answers.get(timeout=max(0.0, deadline - time.monotonic())).records
        except queue.Empty:
            pass
        finally:
            self._open.close(ticket)
        return watched

    def answered(self, news: WatchedRecords) -> None:
        answers = self._open.waiting(news.ticket)
        if answers is not None:
            answers.put(news)
