"""A connection, and pipelines on it.

redis-py connects, with TLS and the user. This module packs commands and reads replies in bulk, as
redis-py takes some 20 µs for each.
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
    """A connection with a given TLS context."""

    def __init__(self, *, tls_context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self._tls_context = tls_context

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> ssl.SSLSocket:
        return self._tls_context.wrap_socket(sock, server_hostname=self.host)


def connection_class(
    access: Access, address: Address, *, to_sentinel: bool = False
) -> tuple[type[Any], dict[str, Any]]:
    """The class of connections to a server, and its arguments."""
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
    """One connection, used by one thread. Connects on use, also after an error."""

    def __init__(self, access: Access, address: Address) -> None:
        kind, options = connection_class(access, address)
        self.address = address
        self._connection = kind(**options)
        self._replies = Replies(self._receive_bytes)

    def exchange(self, data: Sequence[bytes], replies: int) -> tuple[list[bytes], Exception | None]:
        """Sends commands and reads `replies` replies: their first lines, and after an array's line
        those of its elements. If the connection breaks, returns fewer, with the error."""
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

    def _receive(self, received: list[bytes], expected: int) -> None:
        sock = self._connection._get_socket()
        assert sock is not None, "sent to just now"
        rest, in_bulk = b"", False
        while len(received) < expected:
            data = sock.recv(_READ_BYTES)
            if not data:
                raise Broken("The server closed the connection")
            lines = (rest + data).split(_CRLF)
            rest = lines.pop()
            for line in lines:
                if in_bulk:
                    in_bulk = False  # ignore contents, which are ids of entries
                    continue
                kind = line[0]
                if kind == 36:  # $
                    in_bulk = line != b"$-1"
                elif kind == 42 and line != b"*-1":  # *
                    expected += int(line[1:])
                received.append(line)

    def send(self, *words: bytes) -> None:
        """Sends a command; `receive` returns its reply. Raises RedisError or OSError."""
        try:
            if not self._connection.is_connected:
                self._connection.connect()
                self._replies = Replies(self._receive_bytes)
            self._connection.send_packed_command([pack(*words)], check_health=False)
        except BaseException:
            self.close()
            raise

    def receive(self) -> Any:
        """The next reply. Raises Answered; RedisError or OSError for a broken connection."""
        try:
            value = self._replies.value()
        except BaseException:
            self.close()
            raise
        if isinstance(value, Answered):
            raise value
        return value

    def call(self, *words: bytes) -> Any:
        """Sends a command and returns its reply."""
        self.send(*words)
        return self.receive()

    def can_receive(self, wait_s: float) -> bool:
        """Whether part of a reply arrives within `wait_s`."""
        sock = self._connection._get_socket()
        if sock is None or self._replies.has_more():
            return True
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return True
        return bool(select.select([sock], [], [], wait_s)[0])

    def _receive_bytes(self) -> bytes:
        sock = self._connection._get_socket()
        data = sock.recv(_REPLY_BYTES) if sock is not None else b""
        if not data:
            raise Broken("The server closed the connection")
        return bytes(data)

    def close(self) -> None:
        """Disconnects; the next use reconnects."""
        self._connection.disconnect()
