"""The proxy that simulates network failures."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from penstock.kafka.broker import free_port
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until

LONG = bytes(range(256)) * 4_000  # more than all buffers on the way hold


class Echo:
    """Echoes what it receives until the sender ends, then ends the connection."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(taken,), daemon=True).start()

    def _answer(self, taken: socket.socket) -> None:
        with taken, contextlib.suppress(OSError):
            while data := taken.recv(65_536):
                taken.sendall(data)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy to an echo."""
    echo = Echo()
    with Proxy(echo.port) as running:
        yield running
    echo.close()


@contextlib.contextmanager
def connection(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as made:
        yield made


def echoed(through: socket.socket, data: bytes) -> bytes:
    sender = threading.Thread(target=through.sendall, args=(data,))
    sender.start()
    came = b""
    while len(came) < len(data) and (more := through.recv(65_536)):
        came += more
    sender.join(10)
    return came


def test_it_passes_on_everything_both_ways(proxy: Proxy) -> None:
    with connection(proxy) as one, connection(proxy) as other:
        assert echoed(one, LONG) == LONG
        assert echoed(other, b"short") == b"short"
        assert proxy.connections == 2
    wait_until(lambda: proxy.connections == 0, 10, "the connections to end")


def test_the_end_of_what_one_side_says_is_passed_on_and_nothing_is_lost(proxy: Proxy) -> None:
    with connection(proxy) as one:
        one.sendall(b"last words")
        one.shutdown(socket.SHUT_WR)
        assert one.recv(100) == b"last words"
        assert one.recv(100) == b""


def test_cut_it_breaks_and_refuses_connections_until_it_is_mended(proxy: Proxy) -> None:
    with connection(proxy) as one:
        assert echoed(one, b"before") == b"before"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            one.recv(100)
        with pytest.raises(ConnectionRefusedError), connection(proxy):
            pass
        assert proxy.connections == 0
    proxy.cut()  # repeating it changes nothing
    proxy.restore()
    with connection(proxy) as another:
        assert echoed(another, b"after") == b"after"


def test_hanging_it_says_nothing_and_loses_nothing(proxy: Proxy) -> None:
    with connection(proxy) as one:
        assert echoed(one, b"before") == b"before"
        proxy.hang()
        one.sendall(b"meanwhile")
        with connection(proxy) as late:
            late.sendall(b"too")
            for each in (one, late):
                each.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    each.recv(100)
                each.settimeout(10)
            proxy.restore()
            assert one.recv(100) == b"meanwhile"
            assert late.recv(100) == b"too"


def test_the_target_gets_a_request_whose_answer_is_lost_with_the_connection(proxy: Proxy) -> None:
    with connection(proxy) as one:
        assert echoed(one, b"before") == b"before"
        proxy.lose_answers()
        one.sendall(b"a request")  # the echo's answer proves that it arrived
        with pytest.raises(ConnectionResetError):
            one.recv(100)
        assert proxy.lost == 1
    proxy.restore()
    with connection(proxy) as another:
        assert echoed(another, b"after") == b"after"
    assert proxy.lost == 1


def test_connections_to_an_absent_target_are_reset() -> None:
    # Perhaps before it is established: then connecting fails already.
    with Proxy(free_port()) as proxy, pytest.raises(ConnectionResetError), connection(proxy) as one:
        assert one.recv(100) != b"", "a connection that nobody takes ends like one that was taken"


def test_it_gives_its_port_back(proxy: Proxy) -> None:
    with connection(proxy) as one:
        echoed(one, b"something")
        proxy.close()
    proxy.close()
    with socket.create_server(("127.0.0.1", proxy.port)):
        pass
