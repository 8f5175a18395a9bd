"""What a service manager gets."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.service import ServiceReporting
from penstock.host import notify
from penstock.host.notify import Manager


@pytest.fixture(params=["file", "abstract"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """A manager's socket, and its name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        name = str(tmp_path / "n") if request.param == "file" else f"@penstock-{os.getpid()}"
        sock.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        yield name, sock


def test_words_and_a_status_are_lines(listener: tuple[str, socket.socket]) -> None:
    name, sock = listener
    Manager(name).notify(notify.READY, status="running")
    assert sock.recv(100) == b"READY=1\nSTATUS=running"


def test_nothing_is_sent_if_nobody_listens(tmp_path: Path) -> None:
    Manager().notify(notify.READY)
    Manager(str(tmp_path / "none")).notify(notify.READY)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Manager()),
        ({"NOTIFY_SOCKET": ""}, Manager()),
        ({"NOTIFY_SOCKET": "vsock:2"}, Manager()),
        ({"NOTIFY_SOCKET": "/run/n"}, Manager("/run/n")),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "3000000"}, Manager("/run/n", 3.0)),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}, Manager("/run/n")),
    ],
)
def test_the_manager_is_in_the_environment_and_then_no_more(
    environ: dict[str, str], expected: Manager
) -> None:
    assert notify.manager(environ) == expected
    assert environ == {}


class FakeWorker:
    """Has joined its group if `started`, and answers while `answers`."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.started = False
        self.answers = True

    def submit(self, operation: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.answers:
            future.set_result(None)
        return future


def test_a_worker_is_ready_when_it_has_joined_and_alive_while_it_answers(
    listener: tuple[str, socket.socket],
) -> None:
    name, sock = listener
    worker = FakeWorker()
    reporting = ServiceReporting(worker, Manager(name, 0.15), "http://w:8083/")
    reporting.start()
    assert sock.recv(100).startswith(b"STATUS=starting")
    worker.started = True
    assert sock.recv(100) == b"READY=1\nSTATUS=running; REST listens on http://w:8083/"
    assert [sock.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
    worker.answers = False
    sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        [sock.recv(100) for _ in range(50)]
    worker.ended.set()
    reporting.join(5)
    assert not reporting.is_alive()


def test_a_worker_that_ends_before_it_is_ready_never_was(
    listener: tuple[str, socket.socket],
) -> None:
    name, sock = listener
    worker = FakeWorker()
    reporting = ServiceReporting(worker, Manager(name), "")
    reporting.start()
    assert sock.recv(100).startswith(b"STATUS=")
    worker.ended.set()
    reporting.join(5)
    sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        sock.recv(100)
