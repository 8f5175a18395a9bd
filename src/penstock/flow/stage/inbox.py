"""What other threads pass to a sink task."""

from __future__ import annotations

import threading
from collections import deque

import pyarrow as pa

from penstock.flow.stage.events import Closed, ConsumerEvent


class Inbox:
    """Events and chunks of the task's consumer, and requests of its writer. `turn` guards all of
    it, and is notified of anything new."""

    def __init__(self, turn: threading.Condition) -> None:
        self._turn = turn
        self.frames: deque[pa.Buffer] = deque()
        """Chunks of records."""
        self.events: deque[ConsumerEvent] = deque()
        self.commit_requested = False
        self.closed: Closed | None = None
        """The last event."""

    def put_frame(self, frame: pa.Buffer) -> None:
        with self._turn:
            self.frames.append(frame)
            self._turn.notify_all()

    def put_event(self, event: ConsumerEvent) -> None:
        with self._turn:
            if isinstance(event, Closed):
                self.closed = event
            self.events.append(event)
            self._turn.notify_all()

    def request_commit(self) -> None:
        with self._turn:
            self.commit_requested = True
            self._turn.notify_all()

    def take_frame(self) -> pa.Buffer | None:
        """The next chunk, if there is one."""
        with self._turn:
            return self.frames.popleft() if self.frames else None

    def take_events(self) -> deque[ConsumerEvent]:
        """All events since the last call."""
        with self._turn:
            events, self.events = self.events, deque()
            return events

    def take_commit_request(self) -> bool:
        with self._turn:
            requested, self.commit_requested = self.commit_requested, False
            return requested
