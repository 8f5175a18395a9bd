"""A cache of limited size."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Keeps the `size` most recently used entries, at least one. Not thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._entries: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        return entry

    def put(self, key: K, entry: V) -> V:
        self._entries[key] = entry
        if len(self._entries) > self._size:
            del self._entries[next(iter(self._entries))]
        return entry
