"""The connection to an object store: a client that all its threads share, and these threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Event, Lock
from typing import Any, Final, TypeVar

from penstock.connectors.files.stores.tries import Tries

T = TypeVar("T")

CHECK_S: Final = 5
"""How long a check waits for a response."""
_THREADS: Final = 4


class Connection(ABC):
    """A vendor's client, created on first use. Its requests are retried according to `tries`."""

    def __init__(self, name: str, tries: Tries) -> None:
        self.pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
        self._tries = tries
        self._client: Any = None
        self._connecting = Lock()  # guards the creation of `_client`
        self._over = Event()

    @abstractmethod
    def make(self) -> Any:
        """Creates the vendor's client; sends no request."""

    @abstractmethod
    def errors(self) -> AbstractContextManager[None]:
        """Translates the client's exceptions into StoreUnavailable and StoreRefused."""

    @property
    def client(self) -> Any:
        """The client of all threads."""
        with self._connecting:
            if self._client is None:
                with self.errors():
                    self._client = self.make()
            return self._client

    def call(self, request: Callable[[], T]) -> T:
        """Returns the result of a request, retried until the connection is closed. Raises
        StoreUnavailable and StoreRefused."""

        def once() -> T:
            with self.errors():
                return request()

        return self._tries(once, self._over)

    def close(self) -> None:
        """Ends the threads, and requests that wait for a retry."""
        self._over.set()
        self.pool.shutdown(wait=True, cancel_futures=True)
        if self._client is not None:
            self._client.close()
            self._client = None
