"""Shared by the MQTT tests: tasks of the connectors, and clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from penstock.api import (
    SinkWriter,
    SourceOffset,
    SourceReader,
    TaskId,
)
from penstock.connectors.mqtt.read.reader import MqttReader
from penstock.connectors.mqtt.sink import MqttSink
from penstock.connectors.mqtt.source import LensesMqttSource, MqttSource
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from penstock.testing.waiting import wait_until
from tests.servers.mqtt import Mosquitto, let_go

NUMBERS = count()
WAIT_S: Final = 20.0
UNLIMITED: Final = ("max_inflight_messages 0", "max_queued_messages 0")


def new_root() -> str:
    """The prefix of a test's topics."""
    return f"test{next(NUMBERS)}"


class Listener:
    """The test's own client, which keeps received messages."""

    def __init__(self, port: int, topic_filter: str, *, v5: bool = True) -> None:
        self.heard: list[paho.MQTTMessage] = []
        self._subscribed = threading.Event()
        version = paho.MQTTv5 if v5 else paho.MQTTv311
        self.client = client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)
        client.on_message = lambda _client, _data, message: self.heard.append(message)
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_connect = lambda *_: client.subscribe(topic_filter, 2)
        client.connect("127.0.0.1", port)
        client.loop_start()
        assert self._subscribed.wait(WAIT_S)

    def await_payloads(self, number: int) -> list[bytes]:
        wait_until(lambda: len(self.heard) >= number, WAIT_S, f"{number} messages")
        return [bytes(each.payload) for each in self.heard]

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        let_go(self.client)


def publish(
    port: int,
    messages: Sequence[tuple[str, bytes]],
    *,
    qos: int = 1,
    retain: bool = False,
    properties: Any = None,
    **settings: Any,
) -> None:
    """Publishes and waits for the broker."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.max_inflight_messages = 1000
    if "username" in settings:
        client.username_pw_set(settings["username"], settings["password"])
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        last = [
            client.publish(topic, payload, qos, retain, properties) for topic, payload in messages
        ]
        for each in last:
            each.wait_for_publish(WAIT_S)
            assert each.is_published()
    finally:
        let_go(client)


def source(
    broker: Mosquitto | str,
    filters: str,
    stored: Sequence[SourceOffset] = (),
    *,
    task: str = "source",
    **settings: str,
) -> tuple[SourceReader, SourceContextStub]:
    uri = broker if isinstance(broker, str) else broker.uri
    props = {
        "name": "s",
        "connector.class": MqttSource.plugin.class_name,
        "mqtt.server.uri": uri,
        "mqtt.topics": filters,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    context = SourceContextStub(list(stored), TaskId(task, 0))
    config = MqttSource.plugin.config.parse(props)
    return MqttSource().open(config, context), context


def sink(
    broker: Mosquitto | str, *, tolerates_errors: bool = True, **settings: str
) -> tuple[SinkWriter, SinkContextStub]:
    uri = broker if isinstance(broker, str) else broker.uri
    props = {
        "name": "s",
        "connector.class": MqttSink.plugin.class_name,
        "mqtt.server.uri": uri,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    task = TaskId(f"sink{next(NUMBERS)}", 0)
    context = SinkContextStub(task, tolerates_errors=tolerates_errors)
    return MqttSink().open(MqttSink.plugin.config.parse(props), context), context


def is_connected(reader: SourceReader) -> bool:
    assert isinstance(reader, MqttReader)
    reader.poll(0, 10)  # starts, and reads nothing
    return reader._receiver._down_since is None


def values_of(
    reader: SourceReader, number: int, *, commits: bool = True, seconds: float = WAIT_S
) -> list[Any]:
    """The values of the next records."""
    values: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(values) < number and time.monotonic() < deadline:
        polled = reader.poll(1 << 20, 100)
        if polled is not None:
            values += polled.records.values.values
            if commits:
                reader.committed(polled.offsets)
    return values


def quiet(reader: SourceReader) -> list[Any]:
    """Arrivals within half a second."""
    return values_of(reader, 1 << 30, seconds=0.5)


def lenses_source(uri: str, kcql: str, **settings: str) -> tuple[SourceReader, SourceContextStub]:
    props = {
        "name": "l",
        "connector.class": LensesMqttSource.plugin.class_name,
        "connect.mqtt.hosts": uri,
        "connect.mqtt.kcql": kcql,
        "connect.mqtt.service.quality": "1",
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    context = SourceContextStub([], TaskId(f"lenses{next(NUMBERS)}", 0))
    return LensesMqttSource().open(LensesMqttSource.plugin.config.parse(props), context), context
