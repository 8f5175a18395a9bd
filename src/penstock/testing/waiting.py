"""Waiting for a condition: bounded, and clear about what did not happen."""

from __future__ import annotations

import contextlib
import socket

from penstock.host.waiting import wait_until

__all__ = ["is_listening", "wait_until"]


def is_listening(port: int, timeout_s: float = 1.0) -> bool:
    """Whether a server accepts connections on this loopback port."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout_s).close()
        return True
    return False
