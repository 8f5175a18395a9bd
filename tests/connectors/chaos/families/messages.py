"""Sinks that send messages under chaos. Each message is sent at least once."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import orjson
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.testing.waiting import wait_until
from tests.servers.mqtt import Mosquitto, let_go
from tests.servers.web import WebServer

from .base import Family
from .objects import PLAIN

_WAIT_S: Final = 60.0


class Http(Family):
    """Confluent's HTTP sink, one record per request. The server keeps requests in memory, and
    refuses bodies with some keys with 422. Nothing after a refused record of a partition is sent
    before it, so the order holds."""

    keyed = deletes = kills = False
    name: ClassVar = "chaos"

    def __init__(self) -> None:
        self._server = WebServer()
        self._server.start()

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        """The server takes any request."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.http.HttpSinkConnector",
            "http.api.url": f"{self.url(port)}",
            "request.body.format": "json",
            "retry.on.status.codes": "500-",
            "max.retries": "2",
            "retry.backoff.ms": "100",
            **PLAIN,
        }

    def url(self, port: int) -> str:
        return f"http://127.0.0.1:{port}/gate/{self.name}"

    def refuse(self, keys: Iterable[str]) -> None:
        self._server.refuse(self.name, [f'"{key}"' for key in keys])

    def mend(self) -> None:
        self._server.refuse(self.name, [])

    def stored(self) -> Iterable[tuple[str, int]]:
        for body in self._server.bodies(self.name):
            for row in self.rows(body):
                yield row["id"], int(row["n"])

    def rows(self, body: str) -> Iterator[dict[str, Any]]:
        """The records of a request."""
        yield json.loads(body)

    def kill(self) -> None:
        raise NotImplementedError("it would forget its requests")

    def start(self) -> None:
        raise NotImplementedError("it was not killed")

    def close(self) -> None:
        self._server.close()


class HttpArrays(Http):
    """The same with batches, as JSON arrays."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            **super().config(topic, port),
            "batch.max.size": "20",
            "batch.json.as.array": "true",
        }

    def rows(self, body: str) -> Iterator[dict[str, Any]]:
        yield from json.loads(body)


class AivenHttp(Http):
    """Aiven's HTTP sink, with batches of lines."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.aiven.kafka.connect.http.HttpSinkConnector",
            "http.url": self.url(port),
            "http.authorization.type": "none",
            "batching.enabled": "true",
            "batch.max.size": "50",
            "max.retries": "2",
            "retry.backoff.ms": "100",
            **PLAIN,
        }

    def rows(self, body: str) -> Iterator[dict[str, Any]]:
        for line in body.splitlines():
            if line:
                yield json.loads(line)


class LensesHttp(Http):
    """Lenses' HTTP sink, with batches in a template."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.lenses.streamreactor.connect.http.sink.HttpSinkConnector",
            "connect.http.endpoint": self.url(port),
            "connect.http.request.content": "[{{#message}}{{value}},{{/message}}]",
            "connect.http.json.tidy": "true",
            "connect.http.batch.count": "30",
            "connect.http.retries.max.retries": "2",
            "connect.http.retry.mode": "fixed",
            "connect.http.retry.fixed.interval.ms": "100",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }

    def rows(self, body: str) -> Iterator[dict[str, Any]]:
        yield from json.loads(body)


class Mqtt(Family):
    """Confluent's MQTT sink with MQTT 5 at QoS 1, and a subscriber with a session that lasts. The
    broker refuses some topics; it stores its sessions only when it is stopped gracefully. Messages
    that were sent together with a refused one may arrive before it, so only those of a key are in
    order."""

    keyed = deletes = False

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-chaos-")
        self._rules = Path(self._folder.name, "rules")
        self._allow_all_but(())
        self._server = Mosquitto(
            [
                f"acl_file {self._rules}",
                "max_inflight_messages 0",
                "max_queued_messages 0",
            ],
            persistent=True,
        )
        self._server.start()
        self._heard: list[tuple[str, bytes]] = []
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2, "chaos-subscriber", protocol=paho.MQTTv5
        )
        subscribed = threading.Event()
        client.on_message = lambda _client, _data, message: self._heard.append(
            (message.topic, bytes(message.payload))
        )
        self._resumed: list[bool] = []  # whether each connection found the session

        def connected(_client: Any, _data: Any, flags: Any, *_: Any) -> None:
            self._resumed.append(flags.session_present)
            client.subscribe("#", 1)

        client.on_connect = connected
        client.on_subscribe = lambda *_: subscribed.set()
        client.reconnect_delay_set(1, 1)
        lasting = Properties(PacketTypes.CONNECT)
        lasting.SessionExpiryInterval = 3600
        client.connect("127.0.0.1", self.port, clean_start=False, properties=lasting)
        client.loop_start()
        assert subscribed.wait(_WAIT_S)

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        """Topics need no preparation."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.mqtt.MqttSinkConnector",
            "mqtt.server.uri": f"tcp://127.0.0.1:{port}",
            "mqtt.qos": "1",
            "penstock.mqtt.version": "5",
            "penstock.mqtt.topic": "chaos/${key}",
            "max.retry.time.ms": "2000",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        }

    def stream(self, key: str, number: int) -> object:
        return key

    def refuse(self, keys: Iterable[str]) -> None:
        self._allow_all_but(keys)
        self._server.reload()

    def mend(self) -> None:
        self._allow_all_but(())
        self._server.reload()

    def _allow_all_but(self, keys: Iterable[str]) -> None:
        denied = "".join(f"topic deny chaos/{key}\n" for key in keys)
        self._rules.write_text(f"topic readwrite #\n{denied}")

    def stored(self) -> Iterable[tuple[str, int]]:
        """What the subscriber heard, once it has heard a last message."""
        lost = self._resumed[1:].count(False)
        assert not lost, f"the broker lost the subscriber's session {lost} times: nobody heard it"
        self._client.publish("end", b"", 1)
        wait_until(lambda: any(topic == "end" for topic, _ in self._heard), _WAIT_S, "the end")
        for topic, payload in list(self._heard):
            if topic != "end":
                row = orjson.loads(payload)
                yield row["id"], int(row["n"])

    def kill(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        let_go(self._client)
        self._server.close()
        self._folder.cleanup()
