"""The connection between a worker and the stages of its slots.

On one machine it is a local socket in a folder that only the worker's user gets into; on a Spark
cluster it is TCP to the driver's host. Both ends prove that they know a key, which travels with
Spark's own task, and what goes over TCP is encrypted with it.
"""

from __future__ import annotations

import pickle
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyspark import cloudpickle

_NONCE: Final = 12
_BACKLOG: Final = 64


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

    def __init__(self, folder: Path, host: str | None) -> None:
        """Listens in the private `folder`; on a cluster at `host`, at any port."""
        key = secrets.token_bytes(32)
        place: str | tuple[str, int] = (host, 0) if host else str(folder / "slots")
        self._listener = Listener(place, backlog=_BACKLOG, authkey=key)
        self.address = Address(self._listener.address, key)

    def accept(self) -> Channel:
        """The next stage that connects. Raises OSError when this is closed, and others (also
        AuthenticationError) for one that does not prove itself."""
        return Channel(self._listener.accept(), self.address)

    def close(self) -> None:
        self._listener.close()


def connect(address: Address) -> Channel:
    """The stage's end."""
    return Channel(Client(address.place, authkey=address.key), address)
