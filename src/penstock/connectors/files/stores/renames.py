"""A rename that never replaces a file."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

_HERE: Final = -100  # AT_FDCWD
_NO_REPLACE: Final = 1  # RENAME_NOREPLACE
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
_renameat2: Final = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
"""Linux' system call; None if the C library lacks it."""


def rename_exclusively(source: str, target: str) -> None:
    """Renames a file. Raises FileExistsError if the target exists, even if another process has
    created it at the same time."""
    if _renameat2 is not None:
        names = os.fsencode(source), os.fsencode(target)
        if _renameat2(_HERE, names[0], _HERE, names[1], _NO_REPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in _UNSUPPORTED:
            raise OSError(code, os.strerror(code), source, None, target)
    _rename_over_own(source, target)


def _rename_over_own(source: str, target: str) -> None:
    """For file systems that know no such rename, such as NFS: replaces an empty file, which only
    one process can have created."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    try:
        os.replace(source, target)
    except BaseException:
        os.unlink(target)
        raise
