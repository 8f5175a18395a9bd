"""A TCP proxy between a program and a server, for tests of network failures.

    with Proxy(broker_port) as proxy:
        ...  # the program uses proxy.port
        proxy.cut()  # as if the server had died: connections break
        proxy.restore()
        proxy.lose_answers()  # the server executes a request, and the program never knows

For Kafka, the broker must advertise the proxy's port to clients that connect through it (see
`Broker`'s `listeners`), or they would connect to the broker itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Final

_HOST: Final = "127.0.0.1"
_PIECE: Final = 1 << 16
_ANSWER_S: Final = 10.0
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing drops unsent data, with a RST


class Proxy:
    """Passes connections to its loopback `port` on to `target`, another loopback port.

    `port` is chosen at construction and kept to the end; it serves from `start` to `close`, or as a
    context manager. The methods return when they have taken effect. At most `piece` bytes are
    passed on at once.
    """

    def __init__(self, target: int, piece: int = _PIECE) -> None:
        self.target = target
        self._piece = piece
        self._bound = _bind(0)
        self.port = int(self._bound.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._losing = False
        self.lost = 0  # answers so far
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[Any]] = set()

    @property
    def connections(self) -> int:
        """How many connections pass through it now."""
        return len(self._passing)

    def start(self) -> Proxy:
        self._thread.start()
        self._do(self._listen())
        return self

    def cut(self) -> None:
        """Breaks every connection and refuses new ones until `restore`."""
        self._do(self._cut())

    def hang(self) -> None:
        """Silently stops passing data on: connections stay open, new ones are accepted, and data
        waits until `restore`."""
        self._do(self._set_flowing(False))

    def lose_answers(self) -> None:
        """Requests still reach the server, but a connection breaks as soon as the server answers,
        and the answer is lost, until `restore`."""
        self._do(self._set_losing(True))

    def restore(self) -> None:
        """Undoes `cut`, `hang` and `lose_answers`. After a hang, data sent meanwhile arrives, in
        order."""
        self._do(self._restore())

    def close(self) -> None:
        """Breaks every connection and releases the port. Safe to call twice."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._do(self._cut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_ANSWER_S)
        self._bound.close()
        self._loop.close()

    def __enter__(self) -> Proxy:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, action: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result(_ANSWER_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._bound)

    async def _set_flowing(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _set_losing(self, losing: bool) -> None:
        self._losing = losing

    async def _restore(self) -> None:
        self._losing = False
        if self._server is None:
            await self._listen()
        self._flowing.set()

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            # Bound but not listening: connections are refused, and no one else gets the port.
            self._bound = _bind(self.port)
        passing = list(self._passing)
        for connection in passing:
            connection.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as long as both sides keep it."""
        me = asyncio.current_task()
        assert me is not None
        self._passing.add(me)
        writers = [writer]
        complete = False
        try:
            target_reader, target_writer = await asyncio.open_connection(_HOST, self.target)
            writers.append(target_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, target_writer))
                both.create_task(self._pass_on(target_reader, writer, answers=True))
            complete = True
        except* (OSError, asyncio.CancelledError):
            pass  # the target refused, one side broke the connection, or `cut`: reset both sides
        finally:
            self._passing.discard(me)
            for side in writers:
                if complete:
                    side.close()
                else:
                    _reset(side)

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        """Passes on one side's data, and then its EOF."""
        while data := await source.read(self._piece):
            await self._flowing.wait()
            if answers and self._losing:
                self.lost += 1
                raise ConnectionResetError("the answer is lost")
            sink.write(data)
            await sink.drain()
        await self._flowing.wait()
        sink.write_eof()


def _bind(port: int) -> socket.socket:
    # asyncio sends small parts at once only if the socket names its protocol.
    bound = socket.socket(proto=socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((_HOST, port))
    bound.setblocking(False)
    return bound


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # closed already
        connection: socket.socket | None = writer.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
