"""Connection parameters of servers, independent of redis-py."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from penstock.api import Extra
from penstock.api.settings import Secret

REDIS: Final = Extra("redis", "Redis connectors", ("redis",))
"""The packages that the connectors need."""

DEFAULT_PORT: Final = 6379
SENTINEL_PORT: Final = 26379


class Mode(Enum):
    """The kind of servers at the addresses."""

    STANDALONE = "standalone"
    CLUSTER = "cluster"
    SENTINEL = "sentinel"


class Address(NamedTuple):
    """A server: host and port, or the path of a socket with port 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


@dataclass(frozen=True, slots=True)
class Access:
    """Connection parameters of servers. Times in seconds; 0: no limit.

    `master`: the sentinels' name of the primary. `blame` and `blame_user`: the settings that
    messages name. `attempts` and `delay_s`: the connection attempts before a call fails and the
    engine retries it.
    """

    mode: Mode
    addresses: tuple[Address, ...]
    database: int = 0
    username: str = ""
    password: Secret | None = None
    sentinel_username: str = ""
    sentinel_password: Secret | None = None
    master: str = ""
    tls: Callable[[], ssl.SSLContext] | None = None
    timeout_s: float = 60.0
    connect_timeout_s: float = 10.0
    keep_alive: bool = False
    client_name: str = ""
    attempts: int = 2
    delay_s: float = 0.1
    blame: str = "redis.uri"
    blame_user: str = "redis.password"

    @property
    def text(self) -> str:
        """The servers, for messages."""
        return ", ".join(map(str, self.addresses))
