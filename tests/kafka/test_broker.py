"""The embedded broker's life: start, stop, kill, restart."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from penstock.errors import StartupFailed
from penstock.kafka.broker import BRIEF, Broker, free_port, port_in_use
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

# A restarted broker has to wait until its old session has expired.
QUICK = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    """This test's own broker, not started yet."""
    broker = Broker(tmp_path / "data", settings=QUICK, java_options=[BRIEF])
    yield broker
    broker.stop()


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill], ids=["stopped", "killed"])
def test_a_broker_started_on_the_same_folder_has_the_same_topics(
    own: Broker, end: Callable[[Broker], None]
) -> None:
    own.start()
    pid = own.pid
    assert pid is not None
    topics = Topics(own.bootstrap)
    topics.create("kept", 2)
    topics.append("kept", [b"value"], partition=1)
    cluster_id = topics.admin.list_topics(timeout=10).cluster_id

    end(own)
    assert own.pid is None
    assert not psutil.pid_exists(pid)
    assert not port_in_use(own.port)

    own.start()
    assert topics.ends("kept") == {0: 0, 1: 1}
    assert topics.values("kept") == [b"value"]
    assert topics.admin.list_topics(timeout=10).cluster_id == cluster_id


def test_a_port_in_use_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        broker = Broker(tmp_path / "data", port=port)
        with pytest.raises(StartupFailed, match=f"Port {port} is in use"):
            broker.start()
    assert broker.pid is None
    assert not (tmp_path / "data").exists()


def test_a_broker_that_cannot_start_says_its_last_words(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", settings={"num.partitions": "0"}, java_options=[BRIEF])
    with pytest.raises(StartupFailed, match=r"num\.partitions"):
        broker.start()
    assert broker.pid is None


def test_a_broker_that_ended_by_itself_says_its_last_words(own: Broker) -> None:
    own.check()  # not started: nothing to say
    own.start().check()
    assert own.pid is not None
    os.kill(own.pid, signal.SIGTERM)
    wait_until(lambda: own.pid is None, 30, "the broker to end")
    with pytest.raises(StartupFailed, match=r"(?s)Kafka exited unexpectedly .* MB are free .*shut"):
        own.check()
    own.stop()
    own.check()  # stopped: as it should be


def test_stopping_twice_does_no_harm(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", java_options=[BRIEF])
    broker.stop()
    broker.stop()
    assert broker.wait() == 0


def test_a_free_port_is_free() -> None:
    assert not port_in_use(free_port())
