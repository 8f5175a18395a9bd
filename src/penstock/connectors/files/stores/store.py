"""The contract of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from penstock.api import PenstockError, Unavailable

Data = bytes | bytearray | memoryview


class StoreUnavailable(Unavailable):
    """The store does not answer, or not now (a full disk); a later try may help."""

    code = "files.unavailable"


class StoreRefused(PenstockError):
    """The store refuses what was asked of it: no permission, no such bucket, a name it cannot
    have."""

    code = "files.refused"


HELD: Final = 1 << 20
"""Bytes of a file that are collected before they are given to the store, where it has no size of
its own for that."""


class NewFile(ABC):
    """A file that is being written. It exists for readers when `commit` has returned, whole, in
    place of any other of its name; or not at all.

    One thread writes; `commit` may be called by another one when nothing is written any more.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        """Bytes written so far."""
        self.about: Mapping[str, str] = {}
        """What a store may keep beside the file: `startOffset`, `endOffset` and `recordCount`. Set
        before `commit`."""
        self.held: list[bytes | memoryview] = []
        """What the store does not have yet, in order."""
        self.held_bytes = 0

    def write(self, data: Data, /) -> int:
        """Adds to the file; never fails. What is given must not change afterwards."""
        size = len(data) if isinstance(data, bytes | bytearray) else data.nbytes
        self.held.append(bytes(data) if isinstance(data, bytearray) else data)
        self.held_bytes += size
        self.size += size
        return size

    @abstractmethod
    def settle(self) -> None:
        """Gives the store what it is due. Raises StoreUnavailable, and may be called again then;
        or StoreRefused."""

    @abstractmethod
    def commit(self) -> None:
        """Completes the file. Raises StoreUnavailable, and may be called again then, or
        StoreRefused."""

    @abstractmethod
    def drop(self) -> None:
        """Removes what is there of a file that is not to be completed. Never fails."""


class Store(ABC):
    """A place for files, by names with slashes."""

    @abstractmethod
    def create(self, path: str) -> NewFile:
        """A file to be written. Fails for no other reason than its name; does not block."""

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Releases connections."""
