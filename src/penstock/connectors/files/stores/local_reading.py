"""Reads files of a local or mounted folder. Paths are absolute."""

from __future__ import annotations

import errno
import filecmp
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from heapq import nsmallest
from typing import Final

from penstock.connectors.files.stores.reading import (
    Entry,
    FileChanged,
    FileStore,
    ListedFile,
    OpenFile,
    walk,
)
from penstock.connectors.files.stores.renames import rename_exclusively
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

_PAGE: Final = 50_000
"""Names of a folder kept in memory. A folder with more is listed several times."""
_REFUSED: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR}
)


class LocalReadStore(FileStore):
    """The files of this machine. Follows links to files, but not to folders."""

    def __init__(self, page: int = _PAGE) -> None:
        self._page = page
        self._undecodable: set[str] = set()

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        return walk(self._entries, prefix, after, recursive=recursive)

    def folders(self, prefix: str) -> Iterator[str]:
        entries = self._entries(prefix, "")
        return (prefix + entry.name for entry in entries if entry.found is None)

    def find(self, path: str) -> ListedFile | None:
        with _store_errors(path):
            try:
                status = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return _found(path, status)

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        return _LocalInput(found, start, growing=growing)

    def delete(self, found: ListedFile) -> None:
        if self._is_unchanged(found):
            with _store_errors(found.path), suppress(FileNotFoundError):
                os.unlink(found.path)

    def move(self, found: ListedFile, to: str) -> bool:
        if not self._is_unchanged(found):
            return True
        with _store_errors(to):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            try:
                rename_exclusively(found.path, to)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if self.find(found.path) is not None:
                    raise
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                return self._move_copy(found, to)
        return True

    def _move_copy(self, found: ListedFile, to: str) -> bool:
        """Moves a file to another file system."""
        copy = self.find(to)
        if copy is not None:  # perhaps that of a task that was killed before it removed the file
            is_copy = (copy.size, copy.version) == (found.size, found.version)
            if not is_copy or not filecmp.cmp(found.path, to, shallow=False):
                return False
            self.delete(found)
            return True
        handle, draft = tempfile.mkstemp(".tmp", ".penstock-", os.path.dirname(to))
        try:
            with os.fdopen(handle, "r+b") as file:
                shutil.copy2(found.path, draft)
                os.fsync(file.fileno())
            if self._is_unchanged(found):
                rename_exclusively(draft, to)
                self.delete(found)
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        return True

    def check(self, prefix: str) -> None:
        folder = prefix if prefix.endswith("/") else os.path.dirname(prefix)
        with _store_errors(folder), os.scandir(folder) as entries:
            next(entries, None)

    def _is_unchanged(self, found: ListedFile) -> bool:
        current = self.find(found.path)
        return current is not None and current.version == found.version

    def _entries(self, folder: str, after: str) -> Iterator[Entry]:
        begin = after.partition("/")[0]
        last = ""
        while True:
            names = (name for name in self._names(folder) if name >= begin and name > last)
            page = nsmallest(self._page, names)
            for name in page:
                if name.endswith("/"):
                    yield Entry(name)
                    continue
                with suppress(StoreRefused):  # a file without permission
                    found = self.find(folder + name)
                    if found is not None:
                        yield Entry(name, found)
            if len(page) < self._page:
                return
            last = page[-1]

    def _names(self, folder: str) -> Iterator[str]:
        with _store_errors(folder):
            try:
                entries = os.scandir(folder)
            except (FileNotFoundError, NotADirectoryError):
                return
        with entries:
            for entry in entries:
                if not entry.name.isprintable() and not _is_text(entry.name):
                    self._leave_out(folder, entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    yield entry.name + "/"
                elif entry.is_file():
                    yield entry.name

    def _leave_out(self, folder: str, name: str) -> None:
        path = folder + name
        if path not in self._undecodable and len(self._undecodable) < self._page:
            self._undecodable.add(path)
            log.warning("%r is skipped: its name is not UTF-8, so no offset can contain it", path)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _found(path: str, status: os.stat_result) -> ListedFile:
    return ListedFile(
        path,
        status.st_size,
        status.st_mtime_ns // 1_000_000,
        f"{status.st_mtime_ns}-{status.st_size}",
        str(status.st_ino),
        status.st_ctime_ns // 1_000_000,
    )


class _LocalInput(OpenFile):
    def __init__(self, found: ListedFile, start: int, *, growing: bool) -> None:
        self._found = found
        self._growing = growing
        self._position = start
        self._handle: int | None = None
        with _store_errors(found.path):
            try:
                self._handle = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError as error:
                raise FileChanged(found.path, "was removed") from error
        self.size = found.size
        try:
            self._verify()
        except BaseException:
            self.close()
            raise

    def read(self, n: int = -1) -> bytes:
        assert self._handle is not None, "closed"
        if self._growing:
            remaining = n if n >= 0 else max(0, os.fstat(self._handle).st_size - self._position)
        else:
            available = self.size - self._position
            remaining = available if n < 0 else min(n, available)
        pieces: list[bytes] = []
        with _store_errors(self._found.path):
            while remaining > 0:
                piece = os.pread(self._handle, remaining, self._position)
                if not piece:
                    break
                pieces.append(piece)
                remaining -= len(piece)
                self._position += len(piece)
            self._verify()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def seek(self, position: int) -> int:
        self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _verify(self) -> None:
        assert self._handle is not None, "closed"
        current = _found(self._found.path, os.fstat(self._handle))
        if self._growing:
            if self._found.identity and current.identity != self._found.identity:
                raise FileChanged(self._found.path, "was replaced")
            if current.size < self._position:
                raise FileChanged(self._found.path, "became shorter")
            self.size = current.size
        elif self._found.version and current.version != self._found.version:
            raise FileChanged(self._found.path, "was modified")


@contextmanager
def _store_errors(path: str) -> Iterator[None]:
    """Translates OSError into StoreUnavailable and StoreRefused."""
    try:
        yield
    except OSError as error:
        text = f"Cannot read {path}: {error.strerror or error}."
        if error.errno in _REFUSED or isinstance(error, FileNotFoundError | NotADirectoryError):
            raise StoreRefused(text) from error
        raise StoreUnavailable(text) from error
