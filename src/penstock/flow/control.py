"""The connection between a worker and the stages of its slots.

On one machine it is a local socket in a folder that only the worker's user gets into; on a Spark
cluster it is TCP to the driver's host. Both ends prove that they know a key, which travels with
Spark's own task, and what goes over TCP is encrypted with it.
"""

from __future__ import annotations

import pickle
import secrets
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyspark import cloudpickle

_NONCE: Final = 12
_BACKLOG: Final = 64
_SOCKET: Final = "slots"
_LONGEST: Final = 100  # of a local socket's name
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker listens, and the key that proves who asks."""

    place: str | tuple[str, int]
    key: bytes = field(repr=False)

    @property
    def encrypted(self) -> bool:
        return not isinstance(self.place, str)


class Channel:
    """One end of a connection. `send` may be called by any thread, `receive` by one."""

    def __init__(self, connection: Connection, address: Address) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._cipher = AESGCM(address.key) if address.encrypted else None

    def send(self, messages: Sequence[Any]) -> None:
        """Sends messages in one piece. Raises OSError when the other end is gone."""
        data = cloudpickle.dumps(list(messages))  # type: ignore[no-untyped-call]
        if self._cipher is not None:
            nonce = secrets.token_bytes(_NONCE)
            data = nonce + self._cipher.encrypt(nonce, data, None)
        with self._lock:
            self._connection.send_bytes(data)

    def receive(self) -> list[Any]:
        """The next messages; raises EOFError or OSError when the other end is gone."""
        data = self._connection.recv_bytes()
        if self._cipher is not None:
            data = self._cipher.decrypt(data[:_NONCE], data[_NONCE:], None)
        messages: list[Any] = pickle.loads(data)  # authenticated, see above
        return messages

    def close(self) -> None:
        """Ends the connection for both ends, also for a `receive` that waits."""
        with self._lock:
            self._connection.close()


class Listening:
    """The worker's end: where stages connect to."""

    def __init__(self, folder: Path, host: str | None = None, bind: str | None = None) -> None:
        """Listens in the private `folder`, or by TCP where its name is too long for a socket. On a
        cluster, where stages reach this machine as `host`, at any port of the address `bind`."""
        place: str | tuple[str, int] = str(folder / _SOCKET)
        if host is not None or len(str(place)) > _LONGEST:
            host = (host or _LOOPBACK).strip("[]")
            place = (bind or host).strip("[]"), 0
        self.closed = False
        self._listener = Listener(place, backlog=_BACKLOG)
        known = self._listener.address
        if host is not None:
            known = host, known[1]
        self.address = Address(known, secrets.token_bytes(32))

    def accept(self) -> Connection:
        """The next that connects, whoever it is. Raises OSError, also when this is closed."""
        if self.closed:
            raise OSError("Nobody listens any more.")
        try:
            return self._listener.accept()
        except AttributeError:  # of a listener that is closed at this moment
            raise OSError("Nobody listens any more.") from None

    def proved(self, connection: Connection) -> Channel:
        """The channel to a stage, when it has proved itself; raises when it does not. Blocks for as
        long as the other end likes."""
        deliver_challenge(connection, self.address.key)
        answer_challenge(connection, self.address.key)
        return Channel(connection, self.address)

    def close(self) -> None:
        """Ends an `accept` that waits, too: to close its socket alone would not."""
        if self.closed:
            return
        self.closed = True
        with suppress(OSError):
            self._listener._listener._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
        self._listener.close()


def connect(address: Address) -> Channel:
    """The stage's end."""
    return Channel(Client(address.place, authkey=address.key), address)
