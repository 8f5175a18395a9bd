"""The contract of a store that is read.

Paths are the store's own names, with slashes between folders: keys of a bucket
(`topics/a/partition=0/a+0+0.json`), absolute paths of a folder or a server (`/in/a.csv`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.connectors.files.stores.store import StoreRefused


class FileChanged(StoreRefused):
    """The file is another one than when it was found: it was written again, or removed."""

    code = "files.changed"

    def __init__(self, path: str, how: str) -> None:
        self.path = path
        super().__init__(f"The file '{path}' {how} after it was found.")


@dataclass(frozen=True, slots=True)
class Found:
    """A file, as it was when it was listed."""

    path: str
    size: int
    """In bytes."""
    modified_ms: int
    """Since the epoch."""
    version: str = ""
    """Differs whenever the content does: an ETag, or what a file system has for it; "" where a
    store has nothing better than size and time."""
    identity: str = ""
    """Stays the same while a file grows and when it is renamed, and is another one for a file that
    takes its name; "" where a store has nothing of the kind."""
    arrived_ms: int = 0
    """When it got this name, where that may be after it was modified: it was moved, or copied with
    its times. 0: when it was modified."""


class OpenFile(ABC):
    """A file that is open for reading: an `Input` of decoders. Used by one thread.

    Methods raise StoreUnavailable, where another try may help: `seek` to the place of the last
    complete record and go on. They raise FileChanged, or StoreRefused.
    """

    size: int
    """Its bytes, when it was opened. One that grows may have more."""

    @abstractmethod
    def read(self, n: int = -1, /) -> bytes:
        """At most `n` bytes from the present place on, and fewer only if the file ends there; b""
        at the end. What follows may be fetched ahead."""

    @abstractmethod
    def seek(self, position: int, /) -> int:
        """Goes to a byte, counted from the beginning. Opens nothing."""

    @abstractmethod
    def tell(self) -> int:
        """The present place."""

    @abstractmethod
    def close(self) -> None:
        """Releases connections. Never fails; may be called twice."""


class ReadStore(ABC):
    """Files that are read. Used by one thread, but for what it says of its own.

    All methods raise StoreUnavailable or StoreRefused.
    """

    @abstractmethod
    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[Found]:
        """The files whose paths begin with `prefix` and are greater than `after`, in the order of
        paths as Python compares texts. Asks the store page by page, as they are taken, so that
        memory does not grow with their number. Without `recursive` those in no folder below
        the prefix: with no slash behind it.

        A prefix that ends with a slash is a folder; a missing one has no files. A file that comes,
        goes or changes meanwhile may be in the result, or not.
        """

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """The folders directly below a folder, each with a slash at its end, in order. `prefix`
        ends with a slash, or is empty. A missing one has none."""

    @abstractmethod
    def find(self, path: str) -> Found | None:
        """A file by its path; None if there is none."""

    @abstractmethod
    def open(self, found: Found, start: int = 0, *, growing: bool = False) -> OpenFile:
        """Opens a file at a byte. Raises FileChanged, now or in `read`, if it is another one than
        was found. With `growing`, more bytes at its end are no change: `read` gives them
        when they are there; FileChanged tells that it got shorter or is another one."""

    @abstractmethod
    def delete(self, found: Found) -> None:
        """Removes a file if it is still the one that was found. Does nothing if it is gone."""

    @abstractmethod
    def move(self, found: Found, to: str) -> None:
        """Renames a file if it is still the one that was found, in place of any that has the new
        name, and makes folders that are missing. Does nothing if it is gone: a move that was
        interrupted is completed by another one."""

    @abstractmethod
    def check(self, prefix: str) -> None:
        """Raises what reading below a prefix would: no permission, no such bucket or folder.
        Changes nothing."""

    def close(self) -> None:  # noqa: B027 - not every store has something open
        """Releases connections."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder."""

    name: str
    """Of a folder: with a slash at its end."""
    found: Found | None = None
    """None for a folder."""


def walk(
    entries: Callable[[str, str], Iterable[Entry]],
    prefix: str,
    after: str = "",
    *,
    recursive: bool = True,
) -> Iterator[Found]:
    """The files below a prefix in the order of paths, for stores that know only folders.

    `entries(folder, after)` gives what is in a folder, in the order of names, where those of
    folders have a slash at their end; nothing for a missing folder. It may leave out names that
    are less than the first part of `after`. `prefix` without slash at its end is a folder and the
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
            # Whatever is in the folder sorts before `after` if the folder does.
            if path <= after and not after.startswith(path):
                continue
            rest = after[len(path) :] if after.startswith(path) else ""
            pending.append(iter(entries(path, rest)))
            folders.append(path)
        elif path.startswith(prefix) and path > after:
            yield entry.found
