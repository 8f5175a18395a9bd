"""The sinks under chaos, a module for each kind of server, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.testing.object_store import INSTALL, is_installed
from penstock.testing.redis import MISSING

from .base import Family
from .jdbc import MariaDb, Postgres
from .objects import S3
from .redis import RedisHashes
from .search import Search

FAMILIES: Final[Mapping[str, Callable[[], Family]]] = {
    "jdbc-upsert": Postgres,
    "jdbc-insert": lambda: Postgres("insert"),
    "jdbc-mariadb": MariaDb,
    "redis": RedisHashes,
    "search": Search,
    "s3": S3,
}
"""How each begins, by name."""

QUICK: Final = ("jdbc-upsert",)
"""What `make test` runs."""


def missing(family: str) -> str | None:
    """Why a family's server cannot be started here; None if it can."""
    if family == "redis":
        return MISSING
    if family == "s3" and not is_installed():
        return f"{INSTALL} for an S3"
    return None
