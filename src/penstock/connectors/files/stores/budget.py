"""The memory that the files share which a store of objects is writing."""

from __future__ import annotations

from threading import Lock
from typing import Final

from penstock.connectors.files.stores.store import NewFile

_HELD_BYTES: Final = 256 << 20


class Budget:
    """What all files may hold together."""

    def __init__(self) -> None:
        self.files = 0
        """How many are being written."""
        self._counting = Lock()

    def count(self, change: int) -> None:
        """So many more files are being written."""
        with self._counting:
            self.files += change

    @property
    def share(self) -> int:
        """How many bytes a file may hold."""
        return _HELD_BYTES // max(self.files, 1)


class BudgetedFile(NewFile):
    """A file that holds what the store does not have yet."""

    def __init__(self, path: str, budget: Budget) -> None:
        super().__init__(path)
        self._budget = budget
        self._counts = True
        budget.count(1)

    def is_written(self) -> None:
        """Nothing more is written, so it needs no share any more. May be called again."""
        if self._counts:
            self._counts = False
            self._budget.count(-1)

    def hold(self, data: bytes) -> None:
        """Holds this, instead of anything else."""
        self.held = [data] if data else []
        self.held_bytes = len(data)
