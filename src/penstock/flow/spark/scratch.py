"""The worker's folder for temporary files: in memory if the machine allows it.

A killed worker leaves its folder behind. A lock that ends with the process protects each folder, so
the next worker of the same user can remove it, but never that of a live process: process ids mean
nothing where containers share the place.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed

log = logging.getLogger(__name__)

_NAME: Final = "penstock-"
_LOCK: Final = "owner"
_ROOM_MB: Final = 64
_TRIES: Final = 100

_held: tuple[Path, int] | None = None  # this process's folder, and the open lock


def claim() -> Path:
    """This process's folder, private, and empty on the first call, which also removes the folders
    of dead processes. Raises StartupFailed if there is no room."""
    global _held
    if _held is None:
        place = _place()
        _sweep(place)
        _held = next(_claimed(place))
    return _held[0]


def release() -> None:
    """Removes the folder."""
    global _held
    if _held is not None:
        folder, lock = _held
        _held = None
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _place() -> Path:
    """The first place with room: in memory, or else on disk."""
    places = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    for place in places:
        if os.access(place, os.W_OK) and shutil.disk_usage(place).free >= _ROOM_MB << 20:
            return place
    raise StartupFailed(
        f"No room for Spark's scratch files: {' and '.join(map(str, places))} have less than "
        f"{_ROOM_MB} MB free. Make room, or set TMPDIR to a folder that has some."
    )


def _claimed(place: Path) -> Iterator[tuple[Path, int]]:
    """An unlocked folder. It is private: anyone who reaches its sockets could run code here."""
    for number in range(_TRIES):
        folder = place / f"{_NAME}{os.getpid()}{f'-{number}' if number else ''}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
            continue  # another user's
        lock = _lock(folder)
        if lock is None:
            continue  # a live process with our id, in another container, holds it
        folder.chmod(0o700)
        _empty(folder)
        yield folder, lock
    raise StartupFailed(f"{place} has {_TRIES} folders of other workers. Remove old {_NAME}*.")


def _lock(folder: Path) -> int | None:
    """The lock of a folder, open; None if a live process holds it, or it was removed meanwhile."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == (folder / _LOCK).stat().st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    """Removes the folders of dead processes."""
    for folder in place.glob(f"{_NAME}*"):
        with contextlib.suppress(OSError):  # it is being removed
            ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if not ours or not (folder / _LOCK).exists():
                continue
            lock = _lock(folder)
            if lock is not None:
                log.info("removing %s, which was left by a killed worker", folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
