"""A connection, and pipelines on it.

redis-py connects, with TLS and the user; commands are packed and replies read here, many at once,
for redis-py takes some 20 µs for each.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from typing import Any, Final

from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as Broken
from redis.exceptions import RedisError

from penstock.connectors.redis.client.access import Access, Address
from penstock.connectors.redis.client.errors import Answered
from penstock.connectors.redis.client.packing import pack
from penstock.connectors.redis.client.replies import Replies

_READ_BYTES: Final = 1 << 16
_REPLY_BYTES: Final = 1 << 18
_CRLF: Final = b"\r\n"


class _TlsConnection(SSLConnection):
    """With a context that is made already."""

    def __init__(self, *, tls_context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self._tls_context = tls_context

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> ssl.SSLSocket:
        return self._tls_context.wrap_socket(sock, server_hostname=self.host)


def connecting(
    access: Access, address: Address, *, to_sentinel: bool = False
) -> tuple[type[Any], dict[str, Any]]:
    """The class of connections to a server, and what they are made with."""
    password = access.sentinel_password if to_sentinel else access.password
    options: dict[str, Any] = {
        "protocol": 2,
        "driver_info": None,
        "db": 0 if to_sentinel else access.database,
        "username": (access.sentinel_username if to_sentinel else access.username) or None,
        "password": password.value if password is not None and password.value else None,
        "client_name": access.client_name or None,
        "socket_timeout": access.timeout_s or None,
        "socket_connect_timeout": access.connect_timeout_s or None,
    }
    if not address.port:
        return UnixDomainSocketConnection, {**options, "path": address.host}
    options |= {
        "host": address.host,
        "port": address.port,
        "socket_keepalive": access.keep_alive,
    }
    if access.tls is None:
        return Connection, options
    return _TlsConnection, {**options, "tls_context": access.tls()}


class Link:
    """One connection, used by one thread. Connects when it is used; after an error, anew."""

    def __init__(self, access: Access, address: Address) -> None:
        kind, options = connecting(access, address)
        self.address = address
        self._connection = kind(**options)
        self._replies = Replies(self._more)

    def exchange(self, data: Sequence[bytes], replies: int) -> tuple[list[bytes], Exception | None]:
        """Sends commands, and reads so many replies: their first lines, and those of the elements
        of an array behind it. Fewer of them with the error that broke the connection."""
        received: list[bytes] = []
        try:
            self._connection.connect()
            self._connection.send_packed_command([b"".join(data)], check_health=False)
            self._receive(received, replies)
        except (RedisError, OSError) as error:
            self.close()
            return received, error
        except BaseException:
            self.close()
            raise
        return received, None

    def _receive(self, received: list[bytes], wanted: int) -> None:
        connected = self._connection._get_socket()
        assert connected is not None, "it was sent to just now"
        rest, in_bulk = b"", False
        while len(received) < wanted:
            data = connected.recv(_READ_BYTES)
            if not data:
                raise Broken("The server closed the connection")
            lines = (rest + data).split(_CRLF)
            rest = lines.pop()
            for line in lines:
                if in_bulk:
                    in_bulk = False  # what a reply holds does not matter: ids of entries
                    continue
                kind = line[0]
                if kind == 36:  # $
                    in_bulk = line != b"$-1"
                elif kind == 42 and line != b"*-1":  # *
                    wanted += int(line[1:])
                received.append(line)

    def send(self, *words: bytes) -> None:
        """Sends a command, whose reply `receive` returns. Raises RedisError or OSError."""
        try:
            if not self._connection.is_connected:
                self._connection.connect()
                self._replies = Replies(self._more)
            self._connection.send_packed_command([pack(*words)], check_health=False)
        except BaseException:
            self.close()
            raise

    def receive(self) -> Any:
        """The next reply. Raises Answered, or RedisError or OSError where the connection breaks."""
        try:
            value = self._replies.value()
        except BaseException:
            self.close()
            raise
        if isinstance(value, Answered):
            raise value
        return value

    def call(self, *words: bytes) -> Any:
        """The reply to a command."""
        self.send(*words)
        return self.receive()

    def can_receive(self, wait_s: float) -> bool:
        """Whether there is a reply, or something of it, within so many seconds."""
        connected = self._connection._get_socket()
        if connected is None or self._replies.has_more():
            return True
        if isinstance(connected, ssl.SSLSocket) and connected.pending():
            return True
        return bool(select.select([connected], [], [], wait_s)[0])

    def _more(self) -> bytes:
        connected = self._connection._get_socket()
        data = connected.recv(_REPLY_BYTES) if connected is not None else b""
        if not data:
            raise Broken("The server closed the connection")
        return bytes(data)

    def close(self) -> None:
        """Disconnects; the next use connects again."""
        self._connection.disconnect()
