"""Files of a local or mounted folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from penstock.connectors.files.stores.store import (
    HELD,
    NewFile,
    Store,
    StoreRefused,
    StoreUnavailable,
)

_REFUSED: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR}
)


class LocalStore(Store):
    """The files of a folder, which is created on demand."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, path: str) -> NewFile:
        return _LocalFile(path, self._root / path.lstrip("/"))


class _LocalFile(NewFile):
    """Is written as a draft, whose name begins with a dot and is the same for every writer of the
    file. A new writer removes an existing draft, so that two never write to it: the previous writer
    can no longer complete the file."""

    def __init__(self, path: str, target: Path) -> None:
        super().__init__(path)
        self._target = target
        self._draft = target.with_name(f".{target.name}.tmp")
        self._handle: int | None = None
        self._is_complete = False

    def settle(self) -> None:
        if self.held_bytes >= HELD:
            with _store_errors(self._target):
                self._store()

    def commit(self) -> None:
        if self._is_complete:
            return
        with _store_errors(self._target):
            self._store()
            assert self._handle is not None, "it was opened to store the rest"
            os.fsync(self._handle)
            if not self._owns_draft():
                raise StoreRefused(
                    f"Another task has started to write {self._target}, so this task abandons it."
                )
            self._draft.replace(self._target)
            self._is_complete = True
            _sync_folder(self._target.parent)
        self._close()

    def drop(self) -> None:
        with suppress(OSError):
            if not self._is_complete and self._owns_draft():
                self._draft.unlink()
        self._close()

    def _store(self) -> None:
        handle = self._handle
        if handle is None:
            handle = self._handle = self._open()
        while self.held:
            data = memoryview(self.held[0])
            count = os.write(handle, data)
            self.held_bytes -= count
            if count == data.nbytes:
                self.held.pop(0)
            else:
                self.held[0] = data[count:]

    def _open(self) -> int:
        self._target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            self._draft.unlink()
        return os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    def _owns_draft(self) -> bool:
        if self._handle is None:
            return False
        try:
            draft, ours = self._draft.stat(), os.fstat(self._handle)
        except FileNotFoundError:
            return False
        return (draft.st_dev, draft.st_ino) == (ours.st_dev, ours.st_ino)

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


@contextmanager
def _store_errors(target: Path) -> Iterator[None]:
    """Translates OSError into StoreUnavailable and StoreRefused."""
    try:
        yield
    except OSError as error:
        text = f"Cannot write {target}: {error.strerror or error}."
        if error.errno in _REFUSED:
            raise StoreRefused(text) from error
        raise StoreUnavailable(text) from error


def _sync_folder(folder: Path) -> None:
    """Makes a rename in the folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
