"""The connection to an object store: a client that all its threads share, and these threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Event, Lock
from typing import Any, Final, TypeVar

from penstock.connectors.files.stores.tries import Tries

T = TypeVar("T")

CHECK_S: Final = 5
"""How long a check waits for a response."""
_ONCE: Final = Tries(0)


class Connection:
    """A client that `make` creates on first use. `errors` translates its exceptions into
    StoreUnavailable or StoreRefused."""

    def __init__(
        self,
        make: Callable[[], Any],
        errors: Callable[[], AbstractContextManager[None]],
        *,
        threads: int,
        name: str,
        tries: Tries = _ONCE,
    ) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._make = make
        self._errors = errors
        self._tries = tries
        self._client: Any = None
        self._connecting = Lock()
        self._over = Event()

    @property
    def client(self) -> Any:
        with self._connecting:
            if self._client is None:
                with self._errors():
                    self._client = self._make()
            return self._client

    def call(self, request: Callable[[], T]) -> T:
        """Returns the result of a request, retried according to `tries` until the connection is
        closed. Raises StoreUnavailable and StoreRefused."""

        def once() -> T:
            with self._errors():
                return request()

        return self._tries(once, self._over)

    def close(self) -> None:
        """Ends the threads, and requests that wait for a retry."""
        self._over.set()
        self.pool.shutdown(wait=True, cancel_futures=True)
        if self._client is not None:
            self._client.close()
            self._client = None
