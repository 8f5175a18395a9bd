"""The driver's connections and their event loop.

The driver serves its connections with libev, whose extension is in its wheels for Linux, or with
Python's asyncore, which ended with Python 3.11; without either it cannot be imported. Its loop on
asyncio runs everywhere, but does not encrypt: asyncio refuses sockets of `ssl`. So penstock uses
libev, which costs the least, or else asyncio, on every version of Python, with its own reads and
writes for encrypted connections.

On either loop, segments are read by `WholeSegments`: with protocol version 5 the driver drops the
first bytes of a segment if a read ends within its header (PYTHON-1337, seen with 3.30.1), takes the
next bytes for a header, and breaks the connection with "CRC mismatch".
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
_PAYLOAD_CRC: Final = 4  # bytes, after a segment's payload


def connection_class(*, encrypts: bool) -> Any:
    """The class of the driver's connections. Call it before anything imports
    `cassandra.cluster`."""
    try:
        from cassandra.io.libevreactor import LibevConnection
    except Exception:  # the driver's DependencyException, or the extension does not load
        return on_asyncio(encrypts=encrypts)
    return _whole(LibevConnection)


def on_asyncio(*, encrypts: bool) -> Any:
    """The class of connections on asyncio."""
    from cassandra.io.asyncioreactor import AsyncioConnection

    if _ASYNCORE not in sys.modules:
        # Without libev, `cassandra.cluster` looks for a default here, and raises if it finds none.
        stand_in = ModuleType(_ASYNCORE)
        stand_in.__dict__["AsyncoreConnection"] = AsyncioConnection
        sys.modules[_ASYNCORE] = stand_in
    return _encrypting() if encrypts else _whole(AsyncioConnection)


class WholeSegments:
    """Mixin of connections: reads a segment once it is complete, and keeps the received bytes of
    the next one."""

    _io_buffer: Any
    _segment_codec: Any

    def _process_segment_buffer(self) -> None:
        """Moves the payload of the next segment to the buffer of frames; the driver calls it until
        it moves none. An unreadable segment breaks the connection."""
        from cassandra.connection import CrcMismatchException
        from cassandra.segment import CrcException

        buffers, codec = self._io_buffer, self._segment_codec
        received = buffers.readable_io_bytes()
        buffers.io_buffer.seek(0)
        buffers._segment_consumed = False
        if received < codec.header_length_with_crc:
            return
        try:
            header = codec.decode_header(buffers.io_buffer)
            if received < codec.header_length_with_crc + header.payload_length + _PAYLOAD_CRC:
                buffers.io_buffer.seek(0)
                return
            payload = codec.decode(buffers.io_buffer, header).payload
        except Exception as error:  # of the checksum, or of a decompressor
            if isinstance(error, CrcException):
                error = CrcMismatchException(str(error), self.endpoint)  # type: ignore[attr-defined]
            self.defunct(error)  # type: ignore[attr-defined]
            return
        buffers._segment_consumed = True
        buffers.cql_frame_buffer.write(payload)


@cache
def _whole(connection: Any) -> Any:
    return type(connection.__name__, (WholeSegments, connection), {})


@cache
def _encrypting() -> Any:
    from cassandra.io.asyncioreactor import AsyncioConnection

    class EncryptingConnection(WholeSegments, AsyncioConnection):  # type: ignore[misc] # Any: see the import
        """A connection with a socket of `ssl`."""

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
