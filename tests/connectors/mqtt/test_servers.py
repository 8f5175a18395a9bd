"""The MQTT source and sink, against mosquitto."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import pytest

from penstock.api import (
    Failed,
    Header,
    Records,
    TaskId,
)
from penstock.api.schema import INT32, STRING
from penstock.connectors.mqtt.read.reader import MqttReader
from penstock.connectors.mqtt.sink import MqttSink
from penstock.connectors.mqtt.source import MqttSource
from penstock.testing.conformance import SinkConformance, SourceConformance, records_of
from penstock.testing.contexts import SourceContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until
from tests.servers.mqtt import NO_MOSQUITTO, Mosquitto, mosquitto

from .tasks import (
    UNLIMITED,
    WAIT_S,
    Listener,
    is_connected,
    new_root,
    publish,
    quiet,
    sink,
    source,
    values_of,
)

pytestmark = pytest.mark.skipif(mosquitto() is None, reason=NO_MOSQUITTO)


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(UNLIMITED) as running:
        yield running


@pytest.fixture
def root() -> str:
    return new_root()


class Retained(SourceConformance):
    """Every reader gets retained messages."""

    connector = MqttSource
    wait_ms = 150
    bad_configs = (
        ({"mqtt.server.uri": None}, "mqtt.server.uri"),
        ({"mqtt.server.uri": "http://h:1"}, "mqtt.server.uri"),
        ({"mqtt.server.uri": "tcp://h:1,ssl://h:2"}, "mqtt.server.uri"),
        ({"mqtt.server.uri": "tcp://user:secret@h"}, "mqtt.server.uri"),
        ({"mqtt.topics": None}, "mqtt.topics"),
        ({"mqtt.topics": "a/#/b"}, "mqtt.topics"),
        ({"mqtt.topics": "a+"}, "mqtt.topics"),
        ({"mqtt.topics": "$share/g"}, "mqtt.topics"),
        ({"mqtt.qos": "3"}, "mqtt.qos"),
        ({"mqtt.password": "secret"}, "mqtt.username"),
        ({"penstock.mqtt.version": "4"}, "penstock.mqtt.version"),
        ({"penstock.mqtt.will.topic": "a/#"}, "penstock.mqtt.will.topic"),
        ({"kafka.topic": ""}, "kafka.topic"),
    )
    version: ClassVar[str]
    qos: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _broker(self, broker: Mosquitto, root: str) -> None:
        self.broker, self.root = broker, root

    def config(self) -> dict[str, str]:
        return {
            "mqtt.server.uri": self.broker.uri,
            "mqtt.topics": f"{self.root}/#",
            "mqtt.qos": self.qos,
            "penstock.mqtt.version": self.version,
        }

    def add(self, numbers: range) -> None:
        publish(
            self.broker.port,
            [(f"{self.root}/{number}", b"%d" % number) for number in numbers],
            retain=True,
        )


class TestSourceOfMqtt3AtQos0(Retained):
    version, qos = "3.1.1", "0"


class TestSourceOfMqtt5AtQos1(Retained):
    version, qos = "5", "1"


class Sink(SinkConformance):
    connector = MqttSink
    bad_configs = (
        ({"mqtt.server.uri": "ftp://h"}, "mqtt.server.uri"),
        ({"mqtt.qos": "-1"}, "mqtt.qos"),
        ({"penstock.mqtt.topic": "a/#"}, "penstock.mqtt.topic"),
        ({"penstock.mqtt.topic": "${nothing}"}, "penstock.mqtt.topic"),
        ({"penstock.mqtt.receive.maximum": "0"}, "penstock.mqtt.receive.maximum"),
    )
    version: ClassVar[str]
    qos: ClassVar[str]
    users: ClassVar = {"me": "secret"}

    @pytest.fixture(autouse=True)
    def _broker(
        self, broker: Mosquitto, root: str, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        self.root = root
        self.mark = 0
        self.user: dict[str, str] = {}
        if "fatal" not in request.node.name:
            with self._served_by(broker):
                yield
            return
        with Mosquitto(UNLIMITED, users=self.users, anonymous=True) as self.closed:
            self.user = {"mqtt.username": "me", "mqtt.password": "secret"}
            with self._served_by(self.closed):
                self.url = f"tcp://127.0.0.1:{self.proxy.port}"
                yield

    @contextmanager
    def _served_by(self, broker: Mosquitto) -> Iterator[None]:
        self.url = broker.uri
        self.proxy = Proxy(broker.port)
        with self.proxy, Listener(broker.port, f"{self.root}/#") as self.listener:
            self.port = broker.port
            yield

    def config(self) -> dict[str, str]:
        return {
            "mqtt.server.uri": self.url,
            "penstock.mqtt.topic": self.root + "/${topic}",
            "mqtt.qos": self.qos,
            "penstock.mqtt.version": self.version,
            "max.retry.time.ms": "500",
            "mqtt.connect.timeout.seconds": "2",
            **self.user,
        }

    def contents(self) -> list[Any]:
        self.mark += 1
        end = b"end %d" % self.mark
        publish(self.port, [(f"{self.root}/end", end)], qos=2)
        wait_until(
            lambda: any(bytes(each.payload) == end for each in self.listener.heard), WAIT_S, "it"
        )
        return [
            bytes(each.payload).decode()
            for each in self.listener.heard
            if not each.topic.endswith("/end")
        ]

    def unreachable_target(self) -> AbstractContextManager[None] | None:
        self.url = f"tcp://127.0.0.1:{self.proxy.port}"

        @contextmanager
        def away() -> Iterator[None]:
            self.proxy.cut()
            try:
                yield
            finally:
                self.proxy.restore()

        return away()

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        """The password was changed, and the connection ends."""
        self.closed.set_users({"me": "another"})
        self.proxy.cut()
        self.proxy.restore()
        try:
            yield
        finally:
            self.closed.set_users(self.users)


class TestSinkOfMqtt3AtQos1(Sink):
    version, qos = "3.1.1", "1"


class TestSinkOfMqtt5AtQos2(Sink):
    version, qos = "5", "2"


class TestSinkOfMqtt5AtQos0(Sink):
    version, qos = "5", "0"


class TestSinkByTheKey(Sink):
    """A record without a key has no topic then."""

    version, qos = "5", "1"

    def config(self) -> dict[str, str]:
        return {**super().config(), "penstock.mqtt.topic": self.root + "/${key}"}

    def bad_records(self) -> Records | None:
        return records_of(["a", "b", "c"], keys=[None, "wild/#", "no\x00"])


def test_a_record_has_the_topic_as_its_key_and_headers(broker: Mosquitto, root: str) -> None:
    reader, _ = source(broker, f"{root}/+", mqtt__qos="1", kafka__topic="k")
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    publish(broker.port, [(f"{root}/a", b"\x00\xff")])
    polled = None
    while polled is None:
        polled = reader.poll(1 << 20, 1000)
    records = polled.records
    assert (records.topics, records.keys.values, records.values.values) == (
        ["k"], [f"{root}/a"], [b"\x00\xff"],
    )  # fmt: skip
    assert [(each.name, each.value) for each in records.headers[0]] == [
        ("mqtt.message.id", 1), ("mqtt.qos", 1), ("mqtt.retained", False),
        ("mqtt.duplicate", False),
    ]  # fmt: skip
    reader.close()


def test_properties_of_mqtt_5_are_headers_both_ways(broker: Mosquitto, root: str) -> None:
    writer, _ = sink(
        broker, penstock__mqtt__version="5", penstock__mqtt__topic=f"{root}/${{header.place}}"
    )
    reader, _ = source(broker, f"{root}/#", penstock__mqtt__version="5")
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    headers = [
        Header("place", "here", STRING),
        Header("mqtt.content.type", "text/plain", STRING),
        Header("mqtt.response.topic", "answers", STRING),
        Header("mqtt.correlation.data", b"\x01\x02"),
        Header("mqtt.message.expiry.interval", 3600, INT32),
        Header("twice", "1", STRING),
        Header("twice", "2", STRING),
    ]
    records = records_of(["v"])
    records.headers = [headers]
    failed: Failed = {}
    writer.write(records, failed)
    assert not failed
    polled = None
    while polled is None:
        polled = reader.poll(1 << 20, 1000)
    found = [(each.name, each.value) for each in polled.records.headers[0]][4:]
    assert sorted(found, key=str) == sorted(
        [
            ("place", "here"), ("twice", "1"), ("twice", "2"),
            ("mqtt.content.type", "text/plain"), ("mqtt.response.topic", "answers"),
            ("mqtt.correlation.data", b"\x01\x02"), ("mqtt.message.expiry.interval", 3600),
        ],
        key=str,
    )  # fmt: skip
    assert polled.records.keys.values == [f"{root}/here"]
    reader.close()
    writer.close()


@pytest.mark.parametrize("version", ["3.1.1", "5"])
@pytest.mark.parametrize("qos", ["1", "2"])
def test_messages_that_kafka_does_not_have_are_sent_again(
    broker: Mosquitto, root: str, version: str, qos: str
) -> None:
    settings = {
        "mqtt__qos": qos,
        "mqtt__clean__session__enabled": "false",
        "penstock__mqtt__version": version,
        "task": root,
    }
    reader, _ = source(broker, f"{root}/#", **settings)
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    publish(broker.port, [(f"{root}/a", b"%d" % n) for n in range(300)], qos=2)
    first = reader.poll(200, 5000)
    assert first is not None
    done = list(first.records.values.values)
    assert 0 < len(done) < 300
    reader.committed(first.offsets)
    rest = values_of(reader, 300 - len(done), commits=False)
    assert len(rest) == 300 - len(done)
    reader.close()
    publish(broker.port, [(f"{root}/a", b"while away")], qos=2)
    again, _ = source(broker, f"{root}/#", first.offsets, **settings)
    assert values_of(again, len(rest) + 1) == [*rest, b"while away"]
    assert quiet(again) == []
    again.close()
    last, _ = source(broker, f"{root}/#", **settings)
    assert quiet(last) == []
    last.close()


@pytest.mark.parametrize("qos", ["1", "2"])
def test_a_broken_connection_repeats_nothing_and_loses_nothing(
    broker: Mosquitto, root: str, qos: str
) -> None:
    with Proxy(broker.port) as proxy:
        reader, _ = source(
            f"tcp://127.0.0.1:{proxy.port}",
            f"{root}/#",
            task=root,
            mqtt__qos=qos,
            mqtt__clean__session__enabled="false",
        )
        wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
        publish(broker.port, [(f"{root}/a", b"%d" % n) for n in range(200)], qos=2)
        polled = reader.poll(100, 5000)
        assert polled is not None
        values = list(polled.records.values.values)
        proxy.cut()
        reader.committed(polled.offsets)  # while there is no connection
        publish(broker.port, [(f"{root}/a", b"%d" % n) for n in range(200, 300)], qos=2)
        proxy.restore()
        values += values_of(reader, 300 - len(values))
        assert values == [b"%d" % n for n in range(300)]
        assert quiet(reader) == []
        reader.close()


def test_a_broker_that_is_killed_keeps_a_session(root: str) -> None:
    broker = Mosquitto(UNLIMITED, persistent=True)
    broker.start()
    reader, _ = source(broker, f"{root}/#", mqtt__qos="1", mqtt__clean__session__enabled="false")
    try:
        wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
        publish(broker.port, [(f"{root}/a", b"%d" % n) for n in range(100)])
        values = values_of(reader, 50, commits=False)
        assert values
        broker.stop()
        broker.start()
        values += values_of(reader, 100 - len(values), commits=False)
        publish(broker.port, [(f"{root}/a", b"%d" % n) for n in range(100, 200)])
        values += values_of(reader, 200 - len(values))
        assert set(values) == {b"%d" % n for n in range(200)}
        broker.kill()
        broker.start()
        wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
        publish(broker.port, [(f"{root}/a", b"last")])
        wait_until(lambda: b"last" in values_of(reader, 1), WAIT_S, "the last one")
    finally:
        reader.close()
        broker.close()


def test_a_sink_continues_when_the_broker_comes_back(root: str) -> None:
    broker = Mosquitto(UNLIMITED, persistent=True)
    broker.start()
    writer, _ = sink(broker, penstock__mqtt__topic=f"{root}/a", max__retry__time__ms="20000")
    reader, _ = source(broker, f"{root}/#", mqtt__qos="1", mqtt__clean__session__enabled="false")
    try:
        wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
        failed: Failed = {}
        writer.write(records_of(["before"]), failed)
        broker.stop()
        starting = threading.Timer(1.0, broker.start)
        starting.start()
        writer.write(records_of([f"{n}" for n in range(1000)]), failed)
        starting.join()
        assert not failed
        values = values_of(reader, 1001)
        assert {bytes(each) for each in values} >= {b"before", *(b"%d" % n for n in range(1000))}
    finally:
        reader.close()
        writer.close()
        broker.close()


def test_filters_that_are_no_longer_configured_leave_the_session(
    broker: Mosquitto, root: str
) -> None:
    settings = {"mqtt__qos": "1", "mqtt__clean__session__enabled": "false", "task": root}
    reader, _ = source(broker, f"{root}/a,{root}/b", **settings)
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    publish(broker.port, [(f"{root}/a", b"1")])
    polled = reader.poll(1 << 20, 5000)
    assert polled is not None
    reader.close()
    again, _ = source(broker, f"{root}/a", polled.offsets, **settings)
    again.committed(polled.offsets)
    wait_until(lambda: is_connected(again), WAIT_S, "the connection")
    quiet(again)
    publish(broker.port, [(f"{root}/b", b"no"), (f"{root}/a", b"yes")])
    assert values_of(again, 1) == [b"yes"]
    assert quiet(again) == []
    again.close()


def test_shared_subscriptions_divide_messages_among_tasks(broker: Mosquitto, root: str) -> None:
    config = MqttSource.plugin.config.parse(
        {
            "name": "s",
            "connector.class": MqttSource.plugin.class_name,
            "mqtt.server.uri": broker.uri,
            "mqtt.topics": f"$share/group/{root}/#",
            "mqtt.qos": "1",
        }
    )
    tasks = MqttSource().plan_tasks(config, 3)
    assert len(tasks) == 3
    readers = [
        MqttSource().open(
            MqttSource.plugin.config.parse(dict(props)), SourceContextStub([], TaskId(root, number))
        )
        for number, props in enumerate(tasks)
    ]
    for reader in readers:
        wait_until(lambda reader=reader: is_connected(reader), WAIT_S, "the connection")
    publish(broker.port, [(f"{root}/{n}", b"%d" % n) for n in range(300)])
    parts = [quiet(reader) for reader in readers]
    assert all(parts)
    assert sorted(value for part in parts for value in part) == sorted(
        b"%d" % n for n in range(300)
    )
    for reader in readers:
        reader.close()


def test_two_thousand_topics(broker: Mosquitto, root: str) -> None:
    reader, _ = source(broker, f"{root}/+/t", kafka__topic="$")
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    writer, _ = sink(broker, penstock__mqtt__topic=f"{root}/${{key}}/t", mqtt__qos="0")
    failed: Failed = {}
    writer.write(records_of(["v"] * 4000, keys=[str(n % 2000) for n in range(4000)]), failed)
    assert not failed
    topics: list[str] = []
    while len(topics) < 4000:
        polled = reader.poll(1 << 20, 5000)
        assert polled is not None
        topics += polled.records.topics
    assert sorted(set(topics)) == sorted(f"{root}_{n}_t" for n in range(2000))
    reader.close()
    writer.close()


def test_when_nothing_is_taken_the_socket_is_read_no_more(broker: Mosquitto, root: str) -> None:
    reader, _ = source(broker, f"{root}/#", mqtt__qos="1", mqtt__keepalive__interval__seconds="1")
    assert isinstance(reader, MqttReader)
    reader._receiver._held_bytes = 1 << 20
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    publish(broker.port, [(f"{root}/a", bytes(100_000)) for _ in range(100)])
    held = reader._receiver
    wait_until(lambda: held._received >= 1 << 20, WAIT_S, "the limit")
    threading.Event().wait(2.5)  # more than the broker's keepalive timeout
    assert held._received < 3 << 20
    assert len(values_of(reader, 100)) == 100
    assert held._down_since is None
    reader.close()


def test_payloads_over_the_limit_are_refused_and_others_written(root: str) -> None:
    with Mosquitto([*UNLIMITED, "max_packet_size 100000"]) as broker:
        for version in ("3.1.1", "5"):
            with Listener(broker.port, f"{root}/#") as listener:
                writer, _ = sink(
                    broker, penstock__mqtt__topic=f"{root}/a", penstock__mqtt__version=version
                )
                failed: Failed = {}
                writer.write(records_of(["a", "b" * 200_000, "c"]), failed)
                assert list(failed) == [1]
                assert "200000" in str(failed[1])
                assert {b"a", b"c"} <= set(listener.await_payloads(2))
                writer.close()


@pytest.mark.parametrize("qos", ["0", "1", "2"])
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_no_record_after_a_refused_one_is_published_unless_errors_are_tolerated(
    root: str, version: str, qos: str
) -> None:
    settings = {
        "penstock__mqtt__topic": f"{root}/${{key}}",
        "penstock__mqtt__version": version,
        "mqtt__qos": qos,
    }
    with (
        Mosquitto([*UNLIMITED, "max_packet_size 100000"]) as broker,
        Listener(broker.port, f"{root}/#") as listener,
    ):
        for bad, key in (("b" * 200_000, "k"), ("b", "wild/#")):
            writer, _ = sink(broker, tolerates_errors=False, **settings)
            failed: Failed = {}
            writer.write(records_of(["a", bad, "c"], keys=["k", key, "k"]), failed)
            assert list(failed) == [1]
            writer.close()
        publish(broker.port, [(f"{root}/k", b"end")], qos=2)
        wait_until(lambda: b"end" in [bytes(m.payload) for m in listener.heard], WAIT_S, "the end")
        payloads = [bytes(message.payload) for message in listener.heard]
        assert set(payloads) == {b"a", b"end"}


def test_a_large_payload_passes(broker: Mosquitto, root: str) -> None:
    reader, _ = source(broker, f"{root}/#", mqtt__qos="1")
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    writer, _ = sink(broker, penstock__mqtt__topic=f"{root}/a")
    failed: Failed = {}
    payload = bytes(range(256)) * 40_000
    writer.write(records_of([payload, b"small"]), failed)
    assert not failed
    assert values_of(reader, 2) == [payload, b"small"]
    reader.close()
    writer.close()


def test_the_will_is_published_when_the_connection_breaks(broker: Mosquitto, root: str) -> None:
    with Listener(broker.port, f"{root}/will") as listener, Proxy(broker.port) as proxy:
        reader, _ = source(
            f"tcp://127.0.0.1:{proxy.port}",
            f"{root}/a",
            penstock__mqtt__will__topic=f"{root}/will",
            penstock__mqtt__will__payload="gone",
            penstock__mqtt__will__qos="1",
        )
        wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
        proxy.cut()
        assert listener.await_payloads(1) == [b"gone"]
        reader.close()
