"""How a store of objects is reached: a client that all its threads use, and these threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Event, Lock
from typing import Any, Final, TypeVar

from penstock.connectors.files.stores.tries import Tries

T = TypeVar("T")

CHECK_S: Final = 5
"""How long a check waits for an answer."""
_ONCE: Final = Tries(0)


class Connection:
    """A client that `make` makes when it is first needed. `told` has what it raises be
    StoreUnavailable or StoreRefused."""

    def __init__(
        self,
        make: Callable[[], Any],
        told: Callable[[], AbstractContextManager[None]],
        *,
        threads: int,
        name: str,
        tries: Tries = _ONCE,
    ) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._make = make
        self._told = told
        self._tries = tries
        self._made: Any = None
        self._making = Lock()
        self._over = Event()

    @property
    def client(self) -> Any:
        """The client."""
        with self._making:
            if self._made is None:
                with self._told():
                    self._made = self._make()
            return self._made

    def asked(self, request: Callable[[], T]) -> T:
        """What a request gives, which is repeated as `tries` say until the connection is closed.
        Raises StoreUnavailable and StoreRefused."""

        def once() -> T:
            with self._told():
                return request()

        return self._tries(once, self._over)

    def close(self) -> None:
        """Ends the threads, and requests that wait to be repeated."""
        self._over.set()
        self.pool.shutdown(wait=True, cancel_futures=True)
        if self._made is not None:
            self._made.close()
            self._made = None
