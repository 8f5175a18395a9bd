"""The driver's event loop.

The driver has its connections served by libev, whose extension its wheels for Linux have, or by
Python's asyncore, which ended with Python 3.11; without either it cannot even be imported. It
brings a loop on asyncio, too, which runs everywhere, but cannot encrypt: asyncio refuses sockets
of `ssl`. So this is: libev, which costs the least and encrypts, or asyncio, on every version of
Python.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

_ASYNCORE = "cassandra.io.asyncorereactor"


def connection_class() -> Any:
    """The class of the driver's connections. To be called before `cassandra.cluster` is imported
    anywhere."""
    try:
        from cassandra.io.libevreactor import LibevConnection

        return LibevConnection
    except Exception:  # the driver's DependencyException, or the extension does not load
        return _on_asyncio()


def encrypts(connections: Any) -> bool:
    """Whether connections of this class can use TLS."""
    return str(connections.__name__) != "AsyncioConnection"


def _on_asyncio() -> Any:
    from cassandra.io.asyncioreactor import AsyncioConnection

    if _ASYNCORE not in sys.modules:
        # Where there is no libev, `cassandra.cluster` looks for a default here, and raises if there
        # is none.
        stand_in = ModuleType(_ASYNCORE)
        stand_in.__dict__["AsyncoreConnection"] = AsyncioConnection
        sys.modules[_ASYNCORE] = stand_in
    return AsyncioConnection
