"""The memory shared by the open files of an object store."""

from __future__ import annotations

from threading import Lock
from typing import Final

from penstock.connectors.files.stores.store import NewFile

_HELD_BYTES: Final = 256 << 20


class Budget:
    """The limit for the bytes that all open files hold."""

    def __init__(self) -> None:
        self.files = 0
        """The number of open files."""
        self._lock = Lock()

    def count(self, change: int) -> None:
        """Adds `change` to the number of open files."""
        with self._lock:
            self.files += change

    @property
    def share(self) -> int:
        """The bytes that each file may hold."""
        return _HELD_BYTES // max(self.files, 1)


class BudgetedFile(NewFile):
    """A file that holds the bytes that are not uploaded yet."""

    def __init__(self, path: str, budget: Budget) -> None:
        super().__init__(path)
        self._budget = budget
        self._has_share = True
        budget.count(1)

    def is_written(self) -> None:
        """Releases the file's share, as nothing more is written. May be called again."""
        if self._has_share:
            self._has_share = False
            self._budget.count(-1)

    def hold(self, data: bytes) -> None:
        """Replaces the held bytes."""
        self.held = [data] if data else []
        self.held_bytes = len(data)
