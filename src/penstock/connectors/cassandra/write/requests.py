"""Groups statements into requests and sends a limited number of them at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.connectors.cassandra.write.rows import Bound
from penstock.connectors.keyed.pace import Window

_MAX_BYTES: Final = 1 << 20  # of the values of one request
_WAIT_S: Final = 1.0


@dataclass(slots=True)
class Request:
    """Statements that are sent together; several belong to one partition of a table."""

    batch_type: Any
    bounds: list[Bound]
    error: BaseException | None = None

    def alone(self) -> list[Request]:
        """A separate request for each statement."""
        return [Request(self.batch_type, [bound]) for bound in self.bounds]


class Grouping:
    """Groups statements by partition into requests of limited size."""

    def __init__(self, most: int, send: Callable[[Request], None]) -> None:
        self._most = most
        self._send = send
        self._open: dict[Any, tuple[Request, int]] = {}

    def add(self, batch_type: Any, bound: Bound) -> None:
        """Adds a statement; sends its request when that is full."""
        if bound.key is None or self._most == 1:
            self._send(Request(batch_type, [bound]))
            return
        request, size = self._open.get(bound.key, (None, 0))
        if request is None:
            request = Request(batch_type, [])
        request.bounds.append(bound)
        size += bound.size
        if len(request.bounds) >= self._most or size >= _MAX_BYTES:
            self._open.pop(bound.key, None)
            self._send(request)
        else:
            self._open[bound.key] = (request, size)

    def finish(self) -> None:
        """Sends the incomplete requests."""
        for request, _ in self._open.values():
            self._send(request)
        self._open.clear()


class Sender:
    """Sends requests, at most `window` at once. Used by one thread."""

    def __init__(self, session: Any, most: int) -> None:
        from cassandra.query import BatchStatement, BoundStatement

        self._session = session
        self._batch, self._bound = BatchStatement, BoundStatement
        self._write_us: int | None = None  # of the request being sent
        present = session.cluster.timestamp_generator
        session.cluster.timestamp_generator = lambda: self._write_us or present()
        self.window = Window.of(most)
        self._condition = threading.Condition()
        self._under_way = 0
        self._failed: deque[Request] = deque()

    def send(self, request: Request) -> None:
        """Sends a request; blocks while the window is full."""
        with self._condition:
            while self._under_way >= self.window.now:
                self._condition.wait(_WAIT_S)
            self._under_way += 1
        request.error = None
        self._write_us = request.bounds[0].write_us
        try:
            future = self._session.execute_async(self._statement(request.bounds, request))
            future.add_callbacks(
                self._succeeded, self._request_failed, errback_kwargs={"request": request}
            )
        except Exception as error:  # the driver has no connection, or cannot make the frame
            self._request_failed(error, request)

    def finish(self) -> Sequence[Request]:
        """Waits for all answers; returns the failed requests, with their errors."""
        with self._condition:
            while self._under_way:
                self._condition.wait(_WAIT_S)
            failed = list(self._failed)
            self._failed.clear()
        return failed

    def _succeeded(self, _: object) -> None:
        with self._condition:
            self._under_way -= 1
            self._condition.notify()

    def _request_failed(self, error: BaseException, request: Request) -> None:
        request.error = error
        with self._condition:
            self._failed.append(request)
            self._under_way -= 1
            self._condition.notify()

    def _statement(self, bounds: Iterable[Bound], request: Request) -> Any:
        statements = []
        for bound in bounds:
            statement = self._bound(bound.prepared)
            statement.values = bound.values
            statement.raw_values = ()
            statements.append(statement)
        if len(statements) == 1:
            return statements[0]
        batch = self._batch(request.batch_type, consistency_level=statements[0].consistency_level)
        for statement in statements:
            batch.add(statement)
        return batch
