"""Reports a process's state to the service manager, by the protocol of sd_notify(3).

The manager names a socket in `NOTIFY_SOCKET`. Without one nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"

_SOCKET: Final = "NOTIFY_SOCKET"
_WATCHDOG: Final = ("WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass(frozen=True, slots=True)
class Manager:
    """The service manager that waits for this process, if there is one.

    `watchdog_s` is how often it expects a sign of life; None if it does not.
    """

    address: str | None = None
    watchdog_s: float | None = None

    def notify(self, *words: str, status: str = "") -> None:
        """Sends words such as `READY`, and a status for people. An unreachable manager is not an
        error."""
        if self.address is None:
            return
        lines = [*words, *([f"STATUS={status}"] if status else [])]
        # A name that begins with @ is not a file.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto("\n".join(lines).encode(), address)


def manager(environ: MutableMapping[str, str] | None = None) -> Manager:
    """Takes the manager from the environment, so that child processes do not report for this
    one."""
    environ = os.environ if environ is None else environ
    address = environ.pop(_SOCKET, None)
    usec, pid = (environ.pop(name, "") for name in _WATCHDOG)
    if not address or address[0] not in "/@":
        return Manager()
    watched = usec.isdigit() and int(usec) > 0 and pid in ("", str(os.getpid()))
    return Manager(address, int(usec) / 1e6 if watched else None)
