"""URIs of servers, in the forms of Lettuce, Jedis and redis-py.

    redis://[[user:]password@]host[:port][/database][?option=…]      rediss:// with TLS
    redis://host:port,host:port                                      several nodes of a cluster
    redis-sentinel://[password@]host[:port],…[/database]#master      rediss-sentinel:// with TLS
    redis-socket:///path[?database=1], unix:///path[?db=1]           a local socket
    host:port,host:port                                              the same, without a scheme

>>> parse_uri("redis://:secret@db.example.org/2").addresses
(Address(host='db.example.org', port=6379),)
>>> parse_uri("redis-sentinel://a,b:26380#orders").master
'orders'
>>> parse_uri("redis://db?timeout=5s").timeout_s
5.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote

from penstock.connectors.redis.client.access import (
    DEFAULT_PORT,
    SENTINEL_PORT,
    Address,
    Mode,
)

_PLAIN: Final = frozenset({"redis", "rediss", "redis+ssl", "redis+tls"})
_SENTINEL: Final = frozenset({"redis-sentinel", "rediss-sentinel"})
_SOCKET: Final = frozenset({"redis-socket", "redis+socket", "unix"})
_TLS: Final = frozenset({"rediss", "redis+ssl", "redis+tls", "rediss-sentinel"})
_UNITS_S: Final = {
    "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
}  # fmt: skip
_TIME: Final = re.compile(r"(\d+)(d|h|m|s|ms|us|ns)?", re.ASCII)
_IGNORED: Final = frozenset({"libraryname", "libraryversion", "protocol"})


class UriInvalid(ValueError):
    """An invalid URI; the message says why, without secrets."""


@dataclass(frozen=True, slots=True)
class Uri:
    """A parsed URI. `verifies`: check the server's certificate; `checks_name`: also check that it
    is the host's."""

    mode: Mode
    addresses: tuple[Address, ...]
    database: int | None = None
    username: str = ""
    password: str = ""
    master: str = ""
    tls: bool = False
    verifies: bool = True
    checks_name: bool = True
    timeout_s: float | None = None
    client_name: str = ""


def parse_uri(text: str) -> Uri:
    """Parses a URI, or a list of `host:port`. Raises UriInvalid."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        return Uri(Mode.STANDALONE, _addresses(scheme, DEFAULT_PORT))
    scheme = scheme.lower()
    if scheme not in _PLAIN | _SENTINEL | _SOCKET:
        raise UriInvalid(
            f"The scheme {scheme}:// is unknown; use redis://, rediss:// (TLS), redis-sentinel://, "
            "rediss-sentinel://, redis-socket:// or unix://"
        )
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    options = {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)}
    user, at, location = rest.rpartition("@")
    username, password = _user(user, scheme) if at else ("", "")
    addresses: tuple[Address, ...]
    if scheme in _SOCKET:
        if not location.startswith("/"):
            raise UriInvalid("The path is missing: redis-socket:///path/to/redis.sock")
        mode, addresses, path = Mode.STANDALONE, (Address(unquote(location), 0),), ""
    else:
        hosts, _, path = location.partition("/")
        mode = Mode.SENTINEL if scheme in _SENTINEL else Mode.STANDALONE
        addresses = _addresses(hosts, SENTINEL_PORT if mode is Mode.SENTINEL else DEFAULT_PORT)
    master = unquote(fragment) or options.pop("sentinelmasterid", "")
    if mode is Mode.SENTINEL and not master:
        raise UriInvalid("The name of the primary is missing: redis-sentinel://host:26379#NAME")
    return Uri(
        mode,
        addresses,
        database=_database(path, options),
        username=options.pop("username", username),
        password=options.pop("password", password),
        master=master,
        tls=scheme in _TLS,
        **_options(options),  # type: ignore[arg-type]
    )


def _user(text: str, scheme: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if colon or scheme == "unix":
        return unquote(name), unquote(password)
    return "", unquote(name)  # Lettuce: a single word is the password


def _addresses(text: str, port: int) -> tuple[Address, ...]:
    addresses = tuple(
        _address(address.strip(), port) for address in text.split(",") if address.strip()
    )
    if not addresses:
        raise UriInvalid("The host is missing")
    return addresses


def _address(text: str, port: int) -> Address:
    if text.startswith("["):  # IPv6
        host, bracket, rest = text[1:].partition("]")
        colon, number = rest[:1], rest[1:]
        if not bracket or (rest and colon != ":"):
            raise UriInvalid(f"'{text}' is not host:port")
    else:
        host, colon, number = text.partition(":")
    if not host or (colon and not (number.isascii() and number.isdecimal())):
        raise UriInvalid(f"'{text}' is not host:port")
    if number and not 0 < int(number) < 65_536:
        raise UriInvalid(f"{number} is not a valid port")
    return Address(unquote(host), int(number) if number else port)


def _database(path: str, options: dict[str, str]) -> int | None:
    numbers = [path.strip("/")] if path.strip("/") else []
    numbers += [options.pop(name) for name in ("database", "db") if name in options]
    if not numbers:
        return None
    if not (numbers[-1].isascii() and numbers[-1].isdecimal()):
        raise UriInvalid(f"'{numbers[-1]}' is not a database number")
    return int(numbers[-1])


def _options(options: dict[str, str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in options.items():
        if name == "timeout":
            fields["timeout_s"] = _seconds(value)
        elif name == "clientname":
            fields["client_name"] = value
        elif name == "verifypeer":
            if value.upper() not in ("NONE", "CA", "FULL", "TRUE", "FALSE"):
                raise UriInvalid(f"verifyPeer must be NONE, CA or FULL, not '{value}'")
            fields["verifies"] = value.upper() not in ("NONE", "FALSE")
            fields["checks_name"] = value.upper() in ("FULL", "TRUE")
        elif name not in _IGNORED:
            raise UriInvalid(f"The option '{name}' is unknown")
    return fields


def _seconds(text: str) -> float:
    match = _TIME.fullmatch(text.lower())
    if match is None:
        raise UriInvalid(f"'{text}' is not a duration, such as 10s or 500ms")
    return int(match[1]) * _UNITS_S[match[2] or "ms"]
