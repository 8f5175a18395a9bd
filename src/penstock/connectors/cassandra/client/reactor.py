"""The driver's event loop.

The driver has its connections served by libev, whose extension its wheels for Linux have, or by
Python's asyncore, which ended with Python 3.11; without either it cannot even be imported. It
brings a loop on asyncio, too, which runs everywhere, but does not encrypt: asyncio refuses sockets
of `ssl`. So this is: libev, which costs the least, or else asyncio, on every version of Python,
with reads and writes of its own where connections are encrypted.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final, TypeVar

T = TypeVar("T")

_ASYNCORE: Final = "cassandra.io.asyncorereactor"
_AGAIN_S: Final = 0.01


def connection_class(*, encrypts: bool) -> Any:
    """The class of the driver's connections. To be called before `cassandra.cluster` is imported
    anywhere."""
    try:
        from cassandra.io.libevreactor import LibevConnection

        return LibevConnection
    except Exception:  # the driver's DependencyException, or the extension does not load
        return on_asyncio(encrypts=encrypts)


def on_asyncio(*, encrypts: bool) -> Any:
    """The class of connections on asyncio."""
    from cassandra.io.asyncioreactor import AsyncioConnection

    if _ASYNCORE not in sys.modules:
        # Where there is no libev, `cassandra.cluster` looks for a default here, and raises if there
        # is none.
        stand_in = ModuleType(_ASYNCORE)
        stand_in.__dict__["AsyncoreConnection"] = AsyncioConnection
        sys.modules[_ASYNCORE] = stand_in
    return _encrypting() if encrypts else AsyncioConnection


@cache
def _encrypting() -> Any:
    from cassandra.io.asyncioreactor import AsyncioConnection

    class EncryptingConnection(AsyncioConnection):  # type: ignore[misc] # Any: see the import
        """A connection whose socket is one of `ssl`."""

        async def handle_write(self) -> None:
            try:
                while True:
                    data = await self._write_queue.get()
                    while data:
                        data = data[await self._sent(data) :]
            except asyncio.CancelledError:
                return
            except OSError as error:
                self.defunct(error)

        async def handle_read(self) -> None:
            try:
                while data := await self._tried(lambda: self._socket.recv(self.in_buffer_size)):
                    self._iobuf.write(data)
                    self.process_io_buffer()
                self.close()
            except asyncio.CancelledError:
                return
            except OSError as error:
                self.defunct(error)

        async def _sent(self, data: bytes) -> int:
            while True:
                try:
                    return int(self._socket.send(data))
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                    await asyncio.sleep(_AGAIN_S)

        async def _tried(self, receive: Callable[[], T]) -> T:
            while True:
                try:
                    return receive()
                except (ssl.SSLWantReadError, BlockingIOError):
                    await self._readable()
                except ssl.SSLWantWriteError:
                    await asyncio.sleep(_AGAIN_S)

        async def _readable(self) -> None:
            loop = asyncio.get_running_loop()
            ready = asyncio.Event()
            number = self._socket.fileno()
            loop.add_reader(number, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(number)

    return EncryptingConnection
