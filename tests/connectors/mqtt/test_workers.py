"""The MQTT connectors on a real worker: it is killed while messages arrive, and none is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.mqtt import NO_MOSQUITTO, Mosquitto, let_go, mosquitto

pytestmark = [
    pytest.mark.slow(75),
    pytest.mark.timeout(400),
    pytest.mark.skipif(mosquitto() is None, reason=NO_MOSQUITTO),
]

WAIT_S: Final = 120.0
MESSAGES: Final = 30_000
RAW: Final = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    started = make_worker().start()
    started.await_rest()
    return started


@pytest.fixture(scope="module")
def mosquitto_broker() -> Iterator[Mosquitto]:
    with Mosquitto(["max_inflight_messages 0", "max_queued_messages 0"]) as running:
        yield running


class Sender:
    """Publishes numbers, and counts those that the broker acknowledges."""

    def __init__(self, port: int, topic: str, qos: int) -> None:
        self.acknowledged = 0
        self._topic, self._qos = topic, qos
        self._free = threading.Semaphore(1000)
        self._client = client = paho.Client(CallbackAPIVersion.VERSION2)
        client.max_inflight_messages = 1000
        client.on_publish = self._on_publish
        client.connect("127.0.0.1", port)
        client.loop_start()

    def _on_publish(self, *_: object) -> None:
        self.acknowledged += 1
        self._free.release()

    def send(self, numbers: range) -> None:
        for number in numbers:
            assert self._free.acquire(timeout=WAIT_S)
            self._client.publish(f"{self._topic}/{number % 50}", b"%d" % number, self._qos)

    def close(self) -> None:
        let_go(self._client)


@pytest.mark.parametrize("qos", ["1", "2"])
def test_a_worker_that_is_killed_loses_no_message(
    worker: WorkerProcess,
    mosquitto_broker: Mosquitto,
    topics: Topics,
    unique: Callable[[str], str],
    qos: str,
) -> None:
    topic, name, root = topics.create(unique("mqtt")), unique("source"), unique("plant")
    config = {
        "connector.class": "io.confluent.connect.mqtt.MqttSourceConnector",
        "mqtt.server.uri": mosquitto_broker.uri,
        "mqtt.topics": f"{root}/#",
        "mqtt.qos": qos,
        "mqtt.clean.session.enabled": "false",
        "kafka.topic": topic,
        **RAW,
    }
    assert worker.create(name, config).status_code == 201
    wait_until(lambda: worker.states(name) == ["RUNNING", "RUNNING"], WAIT_S, "the task")
    sender = Sender(mosquitto_broker.port, root, int(qos))
    # The broker keeps no messages for a client that has not subscribed yet.
    probe = iter(range(10**9, 2 * 10**9))

    def subscribed() -> bool:
        number = next(probe)
        sender.send(range(number, number + 1))
        return topics.count(topic) > 0

    wait_until(subscribed, WAIT_S, "the subscription", poll_s=0.2)
    third = MESSAGES // 3
    sending = threading.Thread(target=sender.send, args=(range(MESSAGES),))
    sending.start()
    wait_until(lambda: topics.count(topic) >= third, WAIT_S, "a third of them")
    worker.kill()
    worker.start()
    worker.await_rest()
    sending.join()
    values: set[int] = set()

    def complete() -> bool:
        values.update(int(each or b"") for each in topics.values(topic))
        return values >= set(range(MESSAGES))

    wait_until(
        lambda: topics.count(topic) >= MESSAGES and complete(), WAIT_S, "all messages", poll_s=1.0
    )
    sender.close()
    worker.request("DELETE", f"/connectors/{name}")


def test_records_are_published_while_the_broker_restarts(
    worker: WorkerProcess, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic, name = topics.create(unique("out")), unique("sink")
    broker = Mosquitto(["max_inflight_messages 0", "max_queued_messages 0"], persistent=True)
    broker.start()
    heard: set[bytes] = set()
    client = paho.Client(CallbackAPIVersion.VERSION2, "listener", clean_session=False)
    client.on_message = lambda _client, _data, message: heard.add(bytes(message.payload))
    client.on_connect = lambda *_: client.subscribe("out/#", 1)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        config = {
            "connector.class": "io.confluent.connect.mqtt.MqttSinkConnector",
            "tasks.max": "2",
            "topics": topic,
            "mqtt.server.uri": broker.uri,
            "penstock.mqtt.topic": "out/${topic}",
            **RAW,
        }
        assert worker.create(name, config).status_code == 201
        topics.append(topic, (b"%d" % number for number in range(20_000)))
        wait_until(lambda: len(heard) >= 5_000, WAIT_S, "some of them")
        broker.stop()
        broker.start()
        topics.append(topic, (b"%d" % number for number in range(20_000, 30_000)))
        wait_until(
            lambda: sum(topics.committed(f"connect-{name}", topic).values()) == 30_000,
            WAIT_S,
            "its commit",
        )
        wait_until(lambda: len(heard) == 30_000, WAIT_S, "the rest of them")
        assert heard == {b"%d" % number for number in range(30_000)}
        assert worker.states(name)[0] == "RUNNING"
    finally:
        let_go(client)
        broker.close()
        worker.request("DELETE", f"/connectors/{name}")


def test_bad_settings_are_refused_with_their_names(worker: WorkerProcess) -> None:
    config = {
        "connector.class": "io.confluent.connect.mqtt.MqttSourceConnector",
        "mqtt.server.uri": "tcp://127.0.0.1:1",
        "mqtt.topics": "a/#/b",
    }
    for changes, named in (({}, "mqtt.topics"), ({"mqtt.topics": "a/#"}, "mqtt.server.uri")):
        body = {"name": "bad", "config": {**config, **changes}}
        answer = worker.request("POST", "/connectors", body)
        assert answer.status_code == 400
        assert named in answer.text
