"""Retries of requests, for stores whose clients do not count them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from penstock.connectors.files.stores.store import FileLost, StoreUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a request is retried, and after which pauses."""

    retries: int = 3
    pause_ms: int = 200
    """Before the first retry; doubled for each further one, unless `grows` is false."""
    most_ms: int = 10_000
    grows: bool = True

    def __call__(self, request: Callable[[], T], over: Event) -> T:
        """Returns the result of a request. Raises the last StoreUnavailable; FileLost and any
        other error at once. Stops retrying when `over` is set."""
        for retry in range(self.retries):
            try:
                return request()
            except FileLost:
                raise
            except StoreUnavailable:
                pause_ms = self.pause_ms << retry if self.grows else self.pause_ms
                if over.wait(min(pause_ms, self.most_ms) / 1000):
                    raise
        return request()
