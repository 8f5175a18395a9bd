"""Stores with folders, read over file transfer protocols: FTP, SFTP.

They list one folder at a time, so a walk lists only the folders it needs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from penstock.connectors.files.stores.reading import Entry, FileChanged, FileStore, ListedFile, walk
from penstock.connectors.files.stores.store import StoreRefused

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000


class StoreMissing(StoreRefused):
    """There is no such file or folder."""


class LoginRefused(StoreRefused):
    """The server rejects the login of this user."""


class IdentityRefused(StoreRefused):
    """The certificate or host key of the server is not trusted."""


class Kind(Enum):
    """The kind of an item in a folder."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"  # its target is unknown
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a folder's listing. Numbers that the server does not report are -1."""

    name: str
    kind: Kind
    size: int = -1
    modified_ms: int = -1
    precision_ms: int = SECOND_MS
    """`modified_ms` is the first moment of an interval of this length."""


class FolderStore(FileStore):
    """A store that lists folders."""

    @abstractmethod
    def items(self, folder: str) -> Sequence[Item]:
        """The items of a folder, in no order. Raises StoreMissing."""

    @abstractmethod
    def delete_path(self, path: str) -> None:
        """Removes a file. Raises StoreMissing."""

    @abstractmethod
    def rename(self, path: str, to: str) -> bool:
        """Renames a file, and creates missing folders. Returns False if there is a file with the
        new name. Raises StoreMissing."""

    def rest(self) -> None:
        """Closes idle connections; the next call opens another one."""

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        return walk(self._entries, prefix, after, recursive=recursive)

    def folders(self, prefix: str) -> Iterator[str]:
        for entry in self._entries(prefix):
            if entry.found is None:
                yield entry.name

    def delete(self, found: ListedFile) -> None:
        if self._exists(found):
            self.delete_path(found.path)

    def move(self, found: ListedFile, to: str) -> bool:
        return not self._exists(found) or self.rename(found.path, absolute(to))

    @abstractmethod
    def connect(self) -> None:
        """Connects and logs in. Raises StoreUnavailable or StoreRefused."""

    @abstractmethod
    def check_folder(self, folder: str) -> None:
        """Raises StoreMissing if this is not a folder, and StoreRefused."""

    def check(self, prefix: str) -> None:
        self.check_folder(prefix[: prefix.rfind("/") + 1] or "/")

    def _exists(self, found: ListedFile) -> bool:
        """Raises FileChanged if the file was written again."""
        current = self.find(found.path)
        if current is None:
            return False
        if current != found:
            raise FileChanged(found.path, "was rewritten")
        return True

    def _entries(self, folder: str, after: str = "") -> Iterable[Entry]:
        try:
            items = self.items(folder or "/")
        except StoreMissing:
            return []
        entries = [
            Entry(item.name, ListedFile(folder + item.name, item.size, item.modified_ms))
            if item.kind is Kind.FILE
            else Entry(item.name + "/")
            for item in items
            if item.kind in (Kind.FILE, Kind.FOLDER)
        ]
        return sorted(entries, key=lambda entry: entry.name)


def renamed(item: Item, name: str) -> Item:
    """An item under another name."""
    return item if item.name == name else replace(item, name=name)


def absolute(path: str) -> str:
    """A path from the root, with single slashes.

    >>> absolute("a//b/"), absolute("/a/./b"), absolute("")
    ('/a/b', '/a/b', '/')
    """
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
