"""The connection between a worker and the stages of its slots.

On one machine it is a local socket in a folder that only the worker's user can enter; on a Spark
cluster it is TCP to the driver's host. Both ends prove that they know a key, which is sent with
Spark's task and encrypts the TCP traffic.
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
class ControlAddress:
    """The address a worker listens on, and the key that authenticates stages."""

    place: str | tuple[str, int]
    key: bytes = field(repr=False)

    @property
    def encrypted(self) -> bool:
        return not isinstance(self.place, str)


class Channel:
    """One end of a connection. `send` may be called by any thread, `receive` by one."""

    def __init__(self, connection: Connection, address: ControlAddress) -> None:
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
        """Closes the connection; a blocked `receive` at either end returns with an error."""
        with self._lock:
            self._connection.close()


class Listening:
    """The worker's end: the listener that stages connect to."""

    def __init__(self, folder: Path, host: str | None = None, bind: str | None = None) -> None:
        """Listens in the private `folder`, or on TCP if its name is too long for a socket. On a
        cluster, where stages reach this machine as `host`, on any port of the address `bind`."""
        place: str | tuple[str, int] = str(folder / _SOCKET)
        if host is not None or len(str(place)) > _LONGEST:
            host = (host or _LOOPBACK).strip("[]")
            place = (bind or host).strip("[]"), 0
        self.closed = False
        self._listener = Listener(place, backlog=_BACKLOG)
        address = self._listener.address
        if host is not None:
            address = host, address[1]
        self.address = ControlAddress(address, secrets.token_bytes(32))

    def accept(self) -> Connection:
        """The next connection, not yet authenticated. Raises OSError, also once closed."""
        if self.closed:
            raise OSError("The listener is closed.")
        try:
            return self._listener.accept()
        except AttributeError:  # the listener is being closed
            raise OSError("The listener is closed.") from None

    def proved(self, connection: Connection) -> Channel:
        """The channel to a stage, once it has authenticated; raises if it cannot. Blocks until the
        other end answers."""
        deliver_challenge(connection, self.address.key)
        answer_challenge(connection, self.address.key)
        return Channel(connection, self.address)

    def close(self) -> None:
        """Closes the listener, and ends a blocked `accept`, which closing the socket would not."""
        if self.closed:
            return
        self.closed = True
        with suppress(OSError):
            self._listener._listener._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
        self._listener.close()


def connect(address: ControlAddress) -> Channel:
    """The stage's end."""
    return Channel(Client(address.place, authkey=address.key), address)
