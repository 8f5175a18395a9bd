"""MQTT messages into topics and out of them, next to the client alone: paho-mqtt, in one process.
The broker is mosquitto, on the same cores.

Sources drain a session that has all messages when they start, so no client publishes meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.inputs import JSON, PARTITIONS, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import Load, Note, Scenario, delete_topics, note_curve
from benchmarks.watching import peak_memory, topic_ends, watch
from penstock.api import SinkWriter, TaskId
from penstock.connectors.mqtt.sink import MqttSink
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from tests.servers.mqtt import Mosquitto

_SOURCE: Final = "io.confluent.connect.mqtt.MqttSourceConnector"
_SINK: Final = MqttSink.plugin.class_name
_BROKER: Final = (
    "max_inflight_messages 2000", "max_queued_messages 0", "queue_qos0_messages true",
    "max_queued_bytes 0", "memory_limit 0",
)  # fmt: skip
_CONVERTERS: Final = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}
_WINDOW: Final = 100  # of paho alone, which scans the whole window at every acknowledgement
_AT_ONCE: Final = 10_000
_WAIT_S: Final = 120.0
_PAYLOAD: Final = b'{"id": %d, "name": "name-1", "city": "Graz", "score": 0.5, "active": true}'


def _from_broker(qos: int, session: Session, load: Load, note: Note) -> None:
    rate = None
    for run in ("cold", "warm"):
        name = session.name("messages")
        session.topics.create(name)
        with Mosquitto(_BROKER) as broker:
            _fill(broker, f"connect-{name}-0", qos, load.records)
            config = {
                "connector.class": _SOURCE,
                "mqtt.server.uri": broker.uri,
                "mqtt.topics": "plant/#",
                "mqtt.qos": str(qos),
                "mqtt.clean.session.enabled": "false",
                "kafka.topic": name,
                **_CONVERTERS,
            }
            with (
                peak_memory(session.worker.pid) as peak,
                session.running({name: config}) as began,
            ):
                curve = watch(
                    topic_ends(session.topics, [name]),
                    load.records,
                    began,
                    load.timeout_s,
                    session.check,
                )
        delete_topics(session.topics, [name])
        note_curve(note, run, curve)
        rate = curve.rate
        note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
    with Mosquitto(_BROKER) as broker:
        _fill(broker, "alone", qos, load.records)
        alone = _drained(broker, "alone", qos, load.records)
    note("hand", alone)
    note("share", None if rate is None else rate / alone)


def _fill(broker: Mosquitto, client_id: str, qos: int, records: int) -> None:
    """Creates a disconnected session with all messages queued."""
    _drained(broker, client_id, qos, 0)
    writer = _writer(broker, qos)
    for start in range(0, records, _AT_ONCE):
        count = min(_AT_ONCE, records - start)
        payloads = [_PAYLOAD % number for number in range(start, start + count)]
        writer.write(records_of(payloads, keys=[str(n % 100) for n in range(count)]), {})
    writer.close()


def _writer(broker: Mosquitto, qos: int) -> SinkWriter:
    config = MqttSink.plugin.config.parse(
        {
            "mqtt.server.uri": broker.uri,
            "mqtt.qos": str(qos),
            "penstock.mqtt.topic": "plant/${key}",
        }
    )
    return MqttSink().open(config, SinkContextStub(TaskId("filling", 0)))


def _drained(broker: Mosquitto, client_id: str, qos: int, records: int) -> float:
    """The messages per second that paho alone receives; with `records` 0 it only subscribes."""
    subscribed, done = threading.Event(), threading.Event()
    arrived_at = [0.0, 0.0]  # when the first and the last one arrived
    count = 0

    def on_message(*_: object) -> None:
        nonlocal count
        if not count:
            arrived_at[0] = time.monotonic()
        count += 1
        if count == records:
            arrived_at[1] = time.monotonic()
            done.set()

    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, clean_session=False)
    client.on_message = on_message
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_connect = lambda *_: client.subscribe("plant/#", qos)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    arrived = subscribed.wait(_WAIT_S) and (not records or done.wait(_WAIT_S))
    client.disconnect()
    client.loop_stop()
    if not arrived:
        raise WrongOutcome(f"paho received {count:,} of {records:,} messages")
    return records / (arrived_at[1] - arrived_at[0]) if records else 0.0


def _into_broker(qos: int, session: Session, load: Load, note: Note) -> None:
    topic = load.topic(JSON)
    rate = None
    for run in ("cold", "warm"):
        name = session.name("messages")
        with Mosquitto(_BROKER) as broker:
            config = {
                "connector.class": _SINK,
                "topics": topic,
                "tasks.max": str(PARTITIONS),
                "mqtt.server.uri": broker.uri,
                "mqtt.qos": str(qos),
                "penstock.mqtt.topic": "plant/${topic}",
                **_CONVERTERS,
            }

            def published(name: str = name) -> int:
                return sum(session.topics.committed(f"connect-{name}", topic).values())

            with (
                peak_memory(session.worker.pid) as peak,
                session.running({name: config}) as began,
            ):
                curve = watch(published, load.records, began, load.timeout_s, session.check)
        note_curve(note, run, curve)
        rate = curve.rate
        note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
    with Mosquitto(_BROKER) as broker:
        payloads = [_PAYLOAD % number for number in range(load.records)]
        alone = _published(broker, qos, payloads)
    note("hand", alone)
    note("share", None if rate is None else rate / alone)


def _published(broker: Mosquitto, qos: int, payloads: Sequence[bytes]) -> float:
    """The messages per second that paho alone publishes."""
    free = threading.Semaphore(_WINDOW)
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages = _WINDOW
    client.on_publish = lambda *_: free.release()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    began = time.monotonic()
    for payload in payloads:
        free.acquire()
        client.publish("plant/alone", payload, qos)
    for _ in range(_WINDOW):
        if not free.acquire(timeout=_WAIT_S):
            raise WrongOutcome("paho was not told of all messages")
    took_s = time.monotonic() - began
    client.disconnect()
    client.loop_stop()
    return len(payloads) / took_s


_OFTEN: Final = {"offset.flush.interval.ms": "200"}  # offsets tell how much is published
SCENARIOS: Final = (
    *(
        Scenario(
            f"mqtt-source-qos{qos}",
            f"MQTT, QoS {qos} → topic",
            partial(_from_broker, qos),
            alone=True,
        )
        for qos in (0, 1)
    ),
    *(
        Scenario(
            f"mqtt-sink-qos{qos}",
            f"topic → MQTT, QoS {qos}",
            partial(_into_broker, qos),
            _OFTEN,
            alone=True,
        )
        for qos in (0, 1)
    ),
)
