"""Retries of requests, for stores whose clients do not count them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final, TypeVar

from penstock.api import Backoff
from penstock.connectors.files.stores.store import FileLost, StoreUnavailable

T = TypeVar("T")

_PAUSES: Final = Backoff(200, 10_000)


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a request is retried, and after which pauses."""

    retries: int = 3
    backoff: Backoff = _PAUSES

    def __call__(self, request: Callable[[], T], over: Event) -> T:
        """Returns the result of a request. Raises the last StoreUnavailable; FileLost and any
        other error at once. Stops retrying when `over` is set."""
        for retry in range(self.retries):
            try:
                return request()
            except FileLost:
                raise
            except StoreUnavailable:
                if over.wait(self.backoff.delay_ms(retry + 1) / 1000):
                    raise
        return request()
