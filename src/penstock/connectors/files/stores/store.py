"""The contract of stores for writing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from penstock.api import PenstockError, TopicPartition, Unavailable

Data = bytes | bytearray | memoryview


class StoreUnavailable(Unavailable):
    """The store does not answer, or cannot now (a full disk); a retry may help."""


class StoreRefused(PenstockError):
    """The store refuses a request: no permission, no such bucket, an invalid name."""

    def __init__(self, text: str, reason: str = "") -> None:
        self.reason = reason
        """The store's error code or status; "" if it has none."""
        super().__init__(text)


class FileExists(PenstockError):
    """Another writer has stored a file of that name, whose last record has the offset `end`."""

    def __init__(self, path: str, end: int) -> None:
        self.end = end
        super().__init__(f"{path} already exists, with the records up to offset {end}.")


class FileLost(StoreUnavailable):
    """The written part of a file is lost: it must be written again from its first record on."""


HELD: Final = 1 << 20
"""Bytes of a file that are collected before they are written, unless the store has its own limit.
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """What tells the records of a file from others with the same offsets."""

    source: str = ""
    """The connector and the topic partition."""
    lineage: str = ""
    """See `SinkContext.lineage`."""
    first_ms: int | None = None
    """The timestamp of the first record."""


class NewFile(ABC):
    """A file that is being written. Readers see it once `commit` has returned: complete, replacing
    any other of its name; or not at all.

    One thread writes; another one may call `commit` once writing has ended.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        """Its name; if the store `claims` partitions, only from `commit` on."""
        self.size = 0
        """Bytes written so far."""
        self.about: Mapping[str, str] = {}
        """Metadata that a store may keep with the file: `startOffset`, `endOffset` and
        `recordCount`. Set before `commit`."""
        self.create_only = False
        """Whether `commit` keeps a file of another writer if it has the same origin, and raises
        FileExists. Set before anything is written. A store that does not know the origin and the
        last offset of a file replaces it."""
        self.origin = Origin()
        """Set before `commit`."""
        self.held: list[bytes | memoryview] = []
        """Bytes that the store does not have yet, in order."""
        self.held_bytes = 0

    def write(self, data: Data, /) -> int:
        """Appends to the file; never fails. The data must not change afterwards."""
        size = len(data) if isinstance(data, bytes | bytearray) else data.nbytes
        self.held.append(bytes(data) if isinstance(data, bytearray) else data)
        self.held_bytes += size
        self.size += size
        return size

    @abstractmethod
    def settle(self) -> None:
        """Passes held bytes to the store when there are enough. Raises StoreUnavailable, and may be
        called again then; or StoreRefused."""

    @abstractmethod
    def commit(self) -> None:
        """Completes the file. Raises StoreUnavailable, and may be called again then, StoreRefused,
        or, with `create_only`, FileExists."""

    @abstractmethod
    def drop(self) -> None:
        """Discards a file that is not to be completed. Never fails."""


class Claim(ABC):
    """The right of a single task to create files of a topic partition.

    A file of a claim is durable once its `commit` has returned, and readers see it once `publish`
    has.
    """

    next: int | None = None
    """The offset after the last record in a file; None if there is none."""

    @abstractmethod
    def create(self, path: str) -> NewFile:
        """As `Store.create`."""

    @abstractmethod
    def publish(self, files: Sequence[NewFile], next: int) -> None:
        """Makes committed files visible, all of them or none, even if the task is killed; `next` is
        the offset that follows them. Must be called in the order of offsets. May be called again
        after StoreUnavailable."""

    @abstractmethod
    def note(self, next: int) -> None:
        """Notes that records before this offset need not be read again, even if not in a file."""

    @abstractmethod
    def release(self) -> None:
        """Releases the partition. Never fails."""


class Store(ABC):
    """A place for files, by names with slashes."""

    claims: ClassVar[bool] = False
    """Whether the store knows which records it has, so that tasks must claim partitions."""

    @abstractmethod
    def create(self, path: str) -> NewFile:
        """A file to be written. Fails only because of its name; does not block."""

    def claim(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Claim]:
        """From now on prevents others from creating files of these topic partitions, and finishes
        their commits. Only if the store `claims`."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Releases connections."""
