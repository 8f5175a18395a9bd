"""Options of connections."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.api.settings import Secret

_PLAIN = ("tcp", "mqtt")
_SECURE = ("ssl", "tls", "mqtts")


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a broker."""

    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'ssl' if self.secure else 'tcp'}://{host}:{self.port}"


def server_of(uri: str) -> Server:
    """Parses the URI of a server. Raises ValueError with the problem.

    >>> server_of("ssl://broker"), server_of("localhost:1884").port
    (Server(host='broker', port=8883, secure=True), 1884)
    """
    text = uri if "://" in uri else f"tcp://{uri}"
    parts = urlsplit(text)
    if parts.scheme not in (*_PLAIN, *_SECURE):
        raise ValueError(
            f"'{uri}' has the scheme '{parts.scheme}'; use tcp://HOST:PORT or ssl://HOST:PORT"
        )
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port of '{uri}' is not a number up to 65535") from None
    if not parts.hostname:
        raise ValueError(f"'{uri}' has no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URI must not contain a user: set the user name and password instead")
    if parts.path not in ("", "/") or parts.query or port == 0:
        raise ValueError(f"'{uri}' is not of the form tcp://HOST:PORT or ssl://HOST:PORT")
    secure = parts.scheme in _SECURE
    return Server(parts.hostname, port or (8883 if secure else 1883), secure)


@dataclass(frozen=True, slots=True)
class Will:
    """The message that the broker publishes when the connection breaks."""

    topic: str
    payload: str
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True)
class Names:
    """Names of settings for error messages."""

    servers: str
    username: str
    password: str
    trust: str
    client_id: str
    filters: str
    version: str = "penstock.mqtt.version"


@dataclass(frozen=True, slots=True)
class Options:
    """Connection parameters of a task."""

    servers: tuple[Server, ...]
    names: Names
    v5: bool
    clean: bool
    client_id: str
    """The client id of a task, which owns a persistent session."""
    username: str | None
    password: Secret | None
    tls: ssl.SSLContext | None
    connect_s: float
    keepalive_s: int
    receive_maximum: int
    session_expiry_s: int
    will: Will | None
