"""Bytes that wait in a temporary file to save memory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from tempfile import TemporaryFile
from threading import BoundedSemaphore
from typing import IO, Final

_FILES: Final = BoundedSemaphore(400)
"""Limits the open files of the process."""


class Aside:
    """Bytes of an object that is being written, in an unnamed file in the temporary folder. Used by
    one thread."""

    def __init__(self) -> None:
        self.size = 0
        """In bytes."""
        self._file: IO[bytes] | None = None

    def add(self, pieces: Iterable[bytes | memoryview]) -> bool:
        """Adds all of them, or none if the disk is full or too many files are open."""
        try:
            if self._file is None and not self._open():
                return False
            assert self._file is not None, "it is open"
            self._file.seek(self.size)
            size = self._file.write(data := b"".join(pieces))
        except OSError:
            return False
        if size != len(data):
            return False
        self.size += size
        return True

    def taken(self) -> bytes:
        """Removes and returns all bytes. Raises OSError."""
        if self._file is None:
            return b""
        try:
            self._file.seek(0)
            return self._file.read(self.size)
        finally:
            self.size = 0
            with suppress(OSError):
                self._file.close()
            self._file = None
            _FILES.release()

    def _open(self) -> bool:
        if not _FILES.acquire(blocking=False):
            return False
        try:
            self._file = TemporaryFile(prefix="penstock-part-", buffering=0)  # noqa: SIM115
        except OSError:
            _FILES.release()
            return False
        return True
