"""The contract of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from penstock.api import PenstockError, TopicPartition, Unavailable

Data = bytes | bytearray | memoryview


class StoreUnavailable(Unavailable):
    """The store does not answer, or not now (a full disk); a later try may help."""

    code = "files.unavailable"


class StoreRefused(PenstockError):
    """The store refuses what was asked of it: no permission, no such bucket, a name it cannot
    have."""

    code = "files.refused"

    def __init__(self, text: str, reason: str = "") -> None:
        self.reason = reason
        """The name or number that the store gives for it; "" if it gives none."""
        super().__init__(text)


class FileExists(PenstockError):
    """Another writer has stored a file of that name, whose last record has the offset `end`."""

    code = "files.exists"

    def __init__(self, path: str, end: int) -> None:
        self.end = end
        super().__init__(f"{path} is there already, with the records up to offset {end}.")


class FileLost(StoreUnavailable):
    """What was written of a file is lost: it has to be written again from its first record on."""

    code = "files.lost"


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
        """Its name; where a store lets partitions be claimed, not before `commit`."""
        self.size = 0
        """Bytes written so far."""
        self.about: Mapping[str, str] = {}
        """What a store may keep beside the file: `startOffset`, `endOffset` and `recordCount`. Set
        before `commit`."""
        self.anew = False
        """Whether `commit` leaves a file of another writer as it is, if it is known how far that
        goes, and raises FileExists. Set before anything is written. Where a store does not know
        that, it replaces the file."""
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
        """Completes the file. Raises StoreUnavailable, and may be called again then, StoreRefused,
        or, if it has to be `anew`, FileExists."""

    @abstractmethod
    def drop(self) -> None:
        """Removes what is there of a file that is not to be completed. Never fails."""


class Claim(ABC):
    """What the only task that makes files of a topic partition may do.

    A file of a claim is durable when its `commit` has returned, and exists for readers when
    `publish` has.
    """

    next: int | None = None
    """The offset after the last record that is in a file; None if there is none."""

    @abstractmethod
    def create(self, path: str) -> NewFile:
        """As `Store.create`."""

    @abstractmethod
    def publish(self, files: Sequence[NewFile], next: int) -> None:
        """Has committed files exist, all of them or none, whatever happens meanwhile; `next` is the
        offset that follows them. Not before those of earlier offsets. May be called again after
        StoreUnavailable."""

    @abstractmethod
    def note(self, next: int) -> None:
        """Records before this offset need not be read again, though some may be in no file."""

    @abstractmethod
    def release(self) -> None:
        """Gives the partition up. Never fails."""


class Store(ABC):
    """A place for files, by names with slashes."""

    claims: ClassVar[bool] = False
    """Whether the store knows which records it has, so that partitions have to be claimed."""

    @abstractmethod
    def create(self, path: str) -> NewFile:
        """A file to be written. Fails for no other reason than its name; does not block."""

    def claim(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Claim]:
        """Has nobody else make files of these topic partitions, from now on, and finishes what they
        have begun. Only where the store `claims`."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Releases connections."""
