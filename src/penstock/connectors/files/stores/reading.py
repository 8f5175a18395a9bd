"""The contract of stores for reading.

Paths are the store's own names, with slashes between folders: keys of a bucket
(`topics/a/partition=0/a+0+0.json`), absolute paths of a folder or a server (`/in/a.csv`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.connectors.files.stores.store import StoreRefused


class FileChanged(StoreRefused):
    """The file has changed since it was found: it was written again, or removed."""

    def __init__(self, path: str, how: str) -> None:
        self.path = path
        super().__init__(f"The file '{path}' {how} after it was found.")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file, as it was listed."""

    path: str
    size: int
    """In bytes."""
    modified_ms: int
    """Since the epoch."""
    version: str = ""
    """Differs whenever the content does: an ETag, or its equivalent in a file system; "" if a store
    has nothing better than size and time."""
    identity: str = ""
    """Stays the same while a file grows and when it is renamed, and differs for a file that takes
    its name; "" if a store has no such value."""
    arrived_ms: int = 0
    """When it got this name, which may be after it was modified: it was moved, or copied with its
    times. 0: when it was modified."""


class OpenFile(ABC):
    """A file that is open for reading: an `Input` of decoders. Used by one thread.

    Methods raise StoreUnavailable, after which a retry may help: `seek` to the end of the last
    complete record and continue. They raise FileChanged, or StoreRefused.
    """

    size: int
    """Its size in bytes, when it was opened. A growing file may have more."""

    @abstractmethod
    def read(self, n: int = -1, /) -> bytes:
        """At most `n` bytes from the current position on, and fewer only if the file ends; b"" at
        the end. May prefetch the bytes that follow."""

    @abstractmethod
    def seek(self, position: int, /) -> int:
        """Moves to a byte, counted from the beginning. Opens nothing."""

    @abstractmethod
    def tell(self) -> int:
        """The current position."""

    @abstractmethod
    def close(self) -> None:
        """Releases connections. Never fails; may be called twice."""


class ReadStore(ABC):
    """Files to read. Used by one thread and the store's own.

    All methods raise StoreUnavailable or StoreRefused.
    """

    @abstractmethod
    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        """The files whose paths begin with `prefix` and are greater than `after`, in the order of
        paths as Python compares strings. Requests page by page, on demand, so that memory does not
        grow with their number. Without `recursive`, only files directly below the prefix: with no
        slash after it.

        A prefix that ends with a slash is a folder; a missing one has no files. A file that is
        created, removed or changed meanwhile may be in the result, or not.
        """

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """The folders directly below a folder, each with a trailing slash, in order. `prefix` ends
        with a slash, or is empty. A missing folder has none."""

    @abstractmethod
    def find(self, path: str) -> ListedFile | None:
        """A file by its path; None if there is none."""

    @abstractmethod
    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        """Opens a file at a byte. Raises FileChanged, now or in `read`, if it is not the one that
        was found. With `growing`, appended bytes are not a change: `read` returns them once they
        exist; FileChanged is raised if the file got shorter or was replaced."""

    @abstractmethod
    def check(self, prefix: str) -> None:
        """Raises what reading below a prefix would: no permission, no such bucket or folder.
        Changes nothing."""

    def close(self) -> None:  # noqa: B027 - not every store has something open
        """Releases connections."""


class FileStore(ReadStore):
    """Files that are removed, or moved, once they were read."""

    @abstractmethod
    def delete(self, found: ListedFile) -> None:
        """Removes a file if it is still the one that was found. Does nothing if it is missing."""

    @abstractmethod
    def move(self, found: ListedFile, to: str) -> bool:
        """Renames a file if it is still the one that was found, and creates missing folders.
        Returns False, and changes nothing, if there is another file with the new name, even one
        that another task has moved there at the same time. Does nothing if the file is missing:
        repeating an interrupted move completes it."""


def move_without_replacing(store: FileStore, found: ListedFile, to: str) -> None:
    """Moves a file, but never over another one: `x.csv` becomes `x.1.csv` if there is an `x.csv`.
    May be repeated."""
    folder, slash, name = to.rpartition("/")
    stem, dot, rest = name[1:].partition(".")
    target, number = to, 0
    while not store.move(found, target):
        number += 1
        target = f"{folder}{slash}{name[:1]}{stem}.{number}{dot}{rest}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder in a folder."""

    name: str
    """With a trailing slash for a folder."""
    found: ListedFile | None = None
    """None for a folder."""


def walk(
    entries: Callable[[str, str], Iterable[Entry]],
    prefix: str,
    after: str = "",
    *,
    recursive: bool = True,
) -> Iterator[ListedFile]:
    """The files below a prefix in the order of paths, for stores that list single folders.

    `entries(folder, after)` returns the entries of a folder, in the order of names, where names of
    folders have a trailing slash; nothing for a missing folder. It may leave out names that are
    less than the first part of `after`. `prefix` without a trailing slash is a folder and the
    beginning of names in it.
    """
    folder = prefix[: prefix.rfind("/") + 1]
    pending = [iter(entries(folder, after[len(folder) :] if after.startswith(folder) else ""))]
    folders = [folder]
    while pending:
        entry = next(pending[-1], None)
        if entry is None:
            pending.pop()
            folders.pop()
            continue
        path = folders[-1] + entry.name
        if entry.found is None:
            if not recursive or not (path.startswith(prefix) or prefix.startswith(path)):
                continue
            # All paths in the folder sort before `after` if the folder does.
            if path <= after and not after.startswith(path):
                continue
            after_in_folder = after[len(path) :] if after.startswith(path) else ""
            pending.append(iter(entries(path, after_in_folder)))
            folders.append(path)
        elif path.startswith(prefix) and path > after:
            yield entry.found
