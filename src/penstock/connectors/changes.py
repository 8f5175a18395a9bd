"""Wakes readers of files when a file changes, so that they need not poll all the time.

One inotify instance serves all readers of a process. The kernel does not report changes by another
machine on a shared file system: readers still poll now and then.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable
from typing import Final

_MODIFY: Final = 0x0002
_ATTRIB: Final = 0x0004  # also when the file is unlinked
_MOVE_SELF: Final = 0x0800
_ONESHOT: Final = 0x8000_0000
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_BUFFER: Final = 1 << 16


class FileChanges:
    """Wakes each waiting reader once, when its file changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inotify: int | None = None
        self._is_offered = True
        self._waiting: dict[int, list[Callable[[], None]]] = {}

    def wake_at_next(self, handle: int, wake: Callable[[], None]) -> int | None:
        """Calls `wake` once, from another thread, when the open file is next written to, renamed
        or removed; still once if this is called again before that. Returns a watch for `forget`, or
        None if the kernel cannot watch: on another system, or at one of its limits."""
        with self._lock:
            if not self._is_offered:
                return None
            if self._inotify is None and not self._start():
                self._is_offered = False
                return None
            path = f"/proc/self/fd/{handle}".encode()
            watch = _libc.inotify_add_watch(
                self._inotify, path, _MODIFY | _ATTRIB | _MOVE_SELF | _ONESHOT
            )
            if watch < 0:
                return None
            waiting = self._waiting.setdefault(watch, [])
            if wake not in waiting:
                waiting.append(wake)
            return int(watch)

    def forget(self, watch: int, wake: Callable[[], None]) -> None:
        """Cancels `wake` for a watch."""
        with self._lock:
            waiting = self._waiting.get(watch, [])
            if wake not in waiting:
                return  # the change has happened
            waiting.remove(wake)
            if not waiting:
                del self._waiting[watch]
                _libc.inotify_rm_watch(self._inotify, watch)

    def _start(self) -> bool:
        try:
            inotify = _libc.inotify_init1(os.O_CLOEXEC)
        except AttributeError:
            return False
        if inotify < 0:
            return False
        self._inotify = inotify
        threading.Thread(target=self._receive, name="file-changes", daemon=True).start()
        return True

    def _receive(self) -> None:
        assert self._inotify is not None
        while True:
            events = os.read(self._inotify, _BUFFER)
            position = 0
            while position < len(events):
                watch, _, _, length = _EVENT.unpack_from(events, position)
                position += _EVENT.size + length
                with self._lock:
                    waiting = self._waiting.pop(watch, ())
                for wake in waiting:
                    wake()


_libc: Final = ctypes.CDLL(None, use_errno=True)

FILE_CHANGES: Final = FileChanges()
