"""A store that writes nothing, and reports the files that a sink would write."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from penstock.connectors.files.stores.store import Data, NewFile, Store


class PreviewStore(Store):
    """Reports a line for every file: its name, records, bytes, and whether it is complete."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._lock = Lock()  # files are committed by several threads

    def create(self, path: str) -> NewFile:
        return _PreviewFile(path, self)

    def report(self, line: str) -> None:
        with self._lock:
            self._show(line)


class _PreviewFile(NewFile):
    def __init__(self, path: str, store: PreviewStore) -> None:
        super().__init__(path)
        self._store = store
        self._is_complete = False

    def write(self, data: Data) -> int:
        count = len(data) if isinstance(data, bytes | bytearray) else data.nbytes
        self.size += count
        return count

    def settle(self) -> None:
        return None

    def commit(self) -> None:
        if self._is_complete:
            return
        self._is_complete = True
        first, last = self.about["startOffset"], self.about["endOffset"]
        count = self.about["recordCount"]
        records = "1 record" if count == "1" else f"{count} records"
        self._store.report(f"{self.path}\t{records}, offsets {first} to {last}, {self.size} bytes")

    def drop(self) -> None:
        if not self._is_complete:
            self._store.report(f"{self.path}\topen: it waits for more records")
