"""The connection between a worker and its stages."""

from __future__ import annotations

import secrets
import threading
from dataclasses import replace
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag

from penstock.flow import control
from penstock.flow.control import Channel, ControlAddress, Listening
from penstock.flow.messages import Hello, Positions, Stop
from penstock.ids import TopicPartition


def connected(listening: Listening, address: ControlAddress) -> tuple[Channel, Channel]:
    """Both ends: the worker's, and a stage's that knows `address`."""
    stages: list[Channel] = []
    thread = threading.Thread(target=lambda: stages.append(control.connect(address)))
    thread.start()
    worker = listening.proved(listening.accept())
    thread.join(10)
    return worker, stages[0]


@pytest.fixture(params=["local", "tcp", "long"])
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    match request.param:
        case "local":
            made = Listening(tmp_path)
        case "tcp":
            made = Listening(tmp_path, "127.0.0.1")
        case _:
            made = Listening(tmp_path / ("x" * 120))  # no socket has so long a name
    yield made
    made.close()


def test_messages_arrive_both_ways_in_order(listening: Listening) -> None:
    worker, stage = connected(listening, listening.address)
    for number in range(100):
        worker.send([Stop(number, 0.5)])
    stage.send([Hello(3, 4711), Positions(1, {2: {TopicPartition("t", 0): 5}})])
    assert [stage.receive() for _ in range(100)] == [[Stop(at, 0.5)] for at in range(100)]
    assert worker.receive() == [Hello(3, 4711), Positions(1, {2: {TopicPartition("t", 0): 5}})]
    stage.close()
    with pytest.raises((EOFError, OSError)):
        worker.receive()


def test_who_does_not_know_the_key_is_refused(listening: Listening) -> None:
    stranger = replace(listening.address, key=secrets.token_bytes(32))
    refused: list[BaseException] = []

    def connect() -> None:
        try:
            control.connect(stranger)
        except Exception as error:
            refused.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    with pytest.raises(Exception, match="digest"):
        listening.proved(listening.accept())
    thread.join(10)
    assert refused


def test_one_that_says_nothing_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    listening = Listening(tmp_path, "127.0.0.1")
    silent = Client(listening.address.place)
    waiting = listening.accept()
    worker, stage = connected(listening, listening.address)
    worker.send([Stop(1, 0)])
    assert stage.receive() == [Stop(1, 0)]
    for each in (silent, waiting):
        each.close()
    listening.close()


def test_messages_over_tcp_cannot_be_read_or_changed_on_the_way(tmp_path: Path) -> None:
    listening = Listening(tmp_path, "127.0.0.1")
    worker, stage = connected(listening, listening.address)
    assert listening.address.encrypted
    worker.send([Stop(77, 0.25)])
    raw = stage._connection.recv_bytes()
    assert b"Stop" not in raw
    worker._connection.send_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(InvalidTag):
        stage.receive()
    listening.close()


def test_an_accept_that_waits_ends_when_it_is_closed(listening: Listening) -> None:
    ended = threading.Event()

    def accept() -> None:
        try:
            listening.accept()
        except OSError:
            ended.set()

    threading.Thread(target=accept, daemon=True).start()
    listening.close()
    assert ended.wait(10)
    assert listening.closed


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(ControlAddress("place", b"secret"))
