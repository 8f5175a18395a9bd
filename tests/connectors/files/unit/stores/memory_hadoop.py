"""A Hadoop file system in memory, which fails on request."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.connectors.files.stores.hadoop import HadoopEntry
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable


class Killed(Exception):
    """The process ends here."""


@dataclass
class Stream:
    path: str
    data: bytearray = field(default_factory=bytearray)
    broken: bool = False


@dataclass
class Disk:
    """What is stored, by path; a folder is None."""

    entries: dict[str, bytes | None] = field(default_factory=lambda: {"/": None})
    open: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def files(self, root: str) -> dict[str, bytes]:
        return {
            path.removeprefix(f"{root}/"): data
            for path, data in sorted(self.entries.items())
            if data is not None and path.startswith(f"{root}/")
        }


class MemoryHadoop:
    """One process's connection. `before` is called with the name of every operation that changes
    something, and with its path; it may raise."""

    def __init__(
        self, disk: Disk, before: Callable[[str, str], None] = lambda what, path: None
    ) -> None:
        self.disk = disk
        self.before = before

    def create(self, path: str) -> Stream:
        with self.disk.lock:
            self.before("create", path)
            if posixpath.dirname(path) not in self.disk.entries:
                raise StoreUnavailable(f"no folder for {path}")
            if path in self.disk.entries:
                raise StoreRefused(f"{path} exists")
            self.disk.entries[path] = b""
            return Stream(path)

    def write(self, stream: Stream, data: bytes | memoryview, path: str) -> None:
        with self.disk.lock:
            self.before("write", path)
            stream.data += data

    def close_file(self, stream: Stream, path: str) -> None:
        with self.disk.lock:
            self.before("close", path)
            if stream.path in self.disk.entries:
                self.disk.entries[stream.path] = bytes(stream.data)

    def give_up(self, stream: Stream) -> None:
        return None

    def rename(self, source: str, target: str) -> bool:
        with self.disk.lock:
            self.before("rename", target)
            entries = self.disk.entries
            if source not in entries or target in entries:
                return False
            if posixpath.dirname(target) not in entries:
                return False
            for path in [p for p in entries if p == source or p.startswith(f"{source}/")]:
                entries[target + path.removeprefix(source)] = entries.pop(path)
            self.before("renamed", target)
            return True

    def make_folder(self, path: str) -> None:
        with self.disk.lock:
            self.before("mkdir", path)
            while path not in self.disk.entries:
                self.disk.entries[path] = None
                path = posixpath.dirname(path)

    def exists(self, path: str) -> bool:
        with self.disk.lock:
            return path in self.disk.entries

    def delete(self, path: str) -> None:
        with self.disk.lock:
            self.before("delete", path)
            for each in [p for p in self.disk.entries if p == path or p.startswith(f"{path}/")]:
                del self.disk.entries[each]

    def entries(self, path: str) -> list[HadoopEntry]:
        with self.disk.lock:
            return [
                HadoopEntry(each, data is None, len(data or b""))
                for each, data in self.disk.entries.items()
                if each != path and posixpath.dirname(each) == path
            ]

    def names(self, path: str) -> Iterator[str]:
        with self.disk.lock:
            return iter([each.rpartition("/")[2] for each in self.disk.files(path)])

    def read(self, path: str) -> bytes:
        with self.disk.lock:
            return self.disk.entries[path] or b""

    def recover_lease(self, path: str) -> bool:
        with self.disk.lock:
            was_open = path in self.disk.open
            self.disk.open.discard(path)
            return not was_open

    def close(self) -> None:
        return None
