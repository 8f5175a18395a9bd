"""The MQTT source and sink, against mosquitto."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final

import paho.mqtt.client as paho
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from paho.mqtt.enums import CallbackAPIVersion

from penstock.api import (
    ConfigInvalid,
    Failed,
    Header,
    Records,
    SinkWriter,
    SourceOffset,
    SourceReader,
    TaskId,
)
from penstock.api.schema import INT32, STRING, struct
from penstock.connectors.mqtt.client.errors import Refused, Unreachable
from penstock.connectors.mqtt.read.reader import MqttReader
from penstock.connectors.mqtt.sink import LensesMqttSink, MqttSink
from penstock.connectors.mqtt.source import LensesMqttSource, MqttSource
from penstock.testing.certificates import Authority
from penstock.testing.conformance import SinkConformance, SourceConformance, records_of
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from penstock.testing.mqtt import NO_MOSQUITTO, Mosquitto, let_go, mosquitto
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until

pytestmark = pytest.mark.skipif(mosquitto() is None, reason=NO_MOSQUITTO)

NUMBERS = count()
WAIT_S: Final = 20.0
UNLIMITED: Final = ("max_inflight_messages 0", "max_queued_messages 0")


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(UNLIMITED) as running:
        yield running


@pytest.fixture
def root() -> str:
    """What the topics of a test begin with."""
    return f"test{next(NUMBERS)}"


class Listener:
    """A client of the test's own, that keeps what it hears."""

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


def sink(broker: Mosquitto | str, **settings: str) -> tuple[SinkWriter, SinkContextStub]:
    uri = broker if isinstance(broker, str) else broker.uri
    props = {
        "name": "s",
        "connector.class": MqttSink.plugin.class_name,
        "mqtt.server.uri": uri,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    context = SinkContextStub(TaskId(f"sink{next(NUMBERS)}", 0))
    return MqttSink().open(MqttSink.plugin.config.parse(props), context), context


def is_connected(reader: SourceReader) -> bool:
    assert isinstance(reader, MqttReader)
    reader.poll(0, 10)  # begins, and takes nothing
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
    """What comes within half a second."""
    return values_of(reader, 1 << 30, seconds=0.5)


class Retained(SourceConformance):
    """Retained messages are there for every reader."""

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

    @pytest.fixture(autouse=True)
    def _broker(self, broker: Mosquitto, root: str) -> Iterator[None]:
        self.root = root
        self.url = broker.uri
        self.proxy = Proxy(broker.port)
        self.mark = 0
        with self.proxy, Listener(broker.port, f"{root}/#") as self.listener:
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

    def target_away(self) -> AbstractContextManager[None] | None:
        self.url = f"tcp://127.0.0.1:{self.proxy.port}"

        @contextmanager
        def away() -> Iterator[None]:
            self.proxy.cut()
            try:
                yield
            finally:
                self.proxy.restore()

        return away()


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
def test_what_kafka_does_not_have_comes_again(
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


def test_a_sink_goes_on_when_the_broker_comes_back(root: str) -> None:
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
    threading.Event().wait(2.5)  # more than the broker waits for a sign of life
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


def test_user_names_and_what_a_validation_says(root: str) -> None:
    with Mosquitto(users={"ada": "right"}) as broker:
        for version in ("3.1.1", "5"):
            settings = {"mqtt__username": "ada", "penstock__mqtt__version": version}
            reader, _ = source(broker, f"{root}/a", mqtt__password="right", **settings)
            wait_until(lambda reader=reader: is_connected(reader), WAIT_S, "the connection")
            reader.close()
            wrong, _ = source(broker, f"{root}/a", mqtt__password="wrong", **settings)
            with pytest.raises(Refused, match=r"mqtt\.username and mqtt\.password") as caught:
                values_of(wrong, 1, seconds=5)
            assert "wrong" not in str(caught.value)
            wrong.close()
        config = MqttSink.plugin.config.parse({"mqtt.server.uri": broker.uri})
        (finding,) = MqttSink().validate_live(config)
        assert finding.setting == "mqtt.username"
    (finding,) = MqttSink().validate_live(config)
    assert finding.setting == "mqtt.server.uri"


def test_a_broker_that_is_not_there_is_unavailable(root: str) -> None:
    reader, _ = source("tcp://127.0.0.1:1", f"{root}/a", mqtt__connect__timeout__seconds="1")
    with pytest.raises(Unreachable, match=r"mqtt\.server\.uri"):
        values_of(reader, 1, seconds=5)
    reader.close()
    writer, _ = sink("tcp://127.0.0.1:1", max__retry__time__ms="100")
    with pytest.raises(Unreachable, match=r"mqtt\.server\.uri"):
        writer.write(records_of(["v"]), {})
    writer.close()


def expired(authority: Authority, name: str, *hosts: str) -> Any:
    """A certificate whose time is over."""
    issued = authority.issue(name, *hosts)
    now = datetime.now(UTC)
    certificate = issued.certificate
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(certificate.issuer)
        .public_key(issued.key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now - timedelta(days=1))
        .add_extension(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value, False
        )
    )
    signed = builder.sign(authority._key, hashes.SHA256())
    return type(issued)(issued.key, signed, issued.issuer)


def secure(folder: Path, server: Any, authority: Authority) -> list[str]:
    """The lines of a broker that wants certificates of its clients."""
    (folder / "ca.pem").write_text(authority.pem())
    (folder / "server.pem").write_text(server.chain_pem())
    (folder / "server.key").write_text(server.key_pem())
    return [
        f"cafile {folder}/ca.pem",
        f"certfile {folder}/server.pem",
        f"keyfile {folder}/server.key",
        "require_certificate true",
    ]


def test_tls_with_certificates_of_both(tmp_path: Path, root: str) -> None:
    authority = Authority()
    lines = secure(tmp_path, authority.issue("broker", "127.0.0.1"), authority)
    (tmp_path / "client.p12").write_bytes(authority.issue("client").pkcs12("pass"))
    (tmp_path / "trust.p12").write_bytes(authority.pkcs12("word"))
    client = authority.issue("client")
    (tmp_path / "client.pem").write_text(client.chain_pem())
    (tmp_path / "client.key").write_text(client.key_pem())
    (tmp_path / "late.pem").write_text(expired(authority, "late").pem())
    with tls_broker(lines) as uri:
        settings = {
            "mqtt__ssl__trust__store__path": str(tmp_path / "trust.p12"),
            "mqtt__ssl__trust__store__password": "word",
            "mqtt__ssl__key__store__path": str(tmp_path / "client.p12"),
            "mqtt__ssl__key__store__password": "pass",
        }
        reader, _ = source(uri, f"{root}/#", mqtt__qos="1", **settings)
        wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
        writer, _ = sink(uri, penstock__mqtt__topic=f"{root}/a", **settings)
        payloads = [b"%d" % n * 50_000 for n in range(10)]
        failed: Failed = {}
        writer.write(records_of(payloads), failed)
        assert not failed
        assert values_of(reader, 10) == payloads
        reader.close()
        writer.close()

        lenses, _ = lenses_source(
            uri,
            f"INSERT INTO k SELECT * FROM {root}/#",
            connect__mqtt__ssl__ca__cert=str(tmp_path / "ca.pem"),
            connect__mqtt__ssl__cert=str(tmp_path / "client.pem"),
            connect__mqtt__ssl__key=str(tmp_path / "client.key"),
        )
        wait_until(lambda: is_connected(lenses), WAIT_S, "the connection")
        lenses.close()

        late = {**settings, "mqtt__ssl__key__store__path": str(tmp_path / "late.pem")}
        refused, _ = source(uri, f"{root}/#", **late)
        with pytest.raises((Refused, Unreachable)):
            values_of(refused, 1, seconds=40)
        refused.close()
        nobody = {name: value for name, value in settings.items() if "key__store" not in name} | {
            "mqtt__connect__timeout__seconds": "1"
        }
        refused, _ = source(uri, f"{root}/#", **nobody)
        with pytest.raises((Refused, Unreachable)):
            values_of(refused, 1, seconds=5)
        refused.close()


def test_an_expired_certificate_of_the_broker_is_named(tmp_path: Path, root: str) -> None:
    authority = Authority()
    lines = secure(tmp_path, expired(authority, "broker", "127.0.0.1"), authority)
    with tls_broker(lines[:3]) as uri:
        reader, _ = source(uri, f"{root}/#", mqtt__ssl__trust__store__path=str(tmp_path / "ca.pem"))
        with pytest.raises(Refused, match=r"expired.*mqtt\.ssl\.trust\.store\.path"):
            values_of(reader, 1, seconds=5)
        reader.close()


@contextmanager
def tls_broker(lines: list[str]) -> Iterator[str]:
    with Mosquitto(lines) as broker:
        yield f"ssl://127.0.0.1:{broker.port}"


def test_stores_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.p12").write_bytes(b"nothing")
    for path in (tmp_path / "missing", tmp_path / "bad.p12"):
        with pytest.raises(ConfigInvalid, match=r"mqtt\.ssl\.trust\.store\.path"):
            source("ssl://h", "a", mqtt__ssl__trust__store__path=str(path))
    with pytest.raises(ConfigInvalid, match=r"connect\.mqtt\.ssl\.cert"):
        lenses_source(
            "ssl://h",
            "INSERT INTO k SELECT * FROM a",
            connect__mqtt__ssl__cert=str(tmp_path / "missing"),
            connect__mqtt__ssl__key=str(tmp_path / "missing"),
        )


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


def test_lenses_statements_map_topics_to_topics(broker: Mosquitto, root: str) -> None:
    json = "WITHCONVERTER=`io.lenses.streamreactor.connect.converters.source.JsonSimpleConverter`"
    reader, _ = lenses_source(
        broker.uri,
        f"INSERT INTO raw SELECT * FROM {root}/raw/#;"
        f"INSERT INTO `$` SELECT * FROM {root}/named/+;"
        f"INSERT INTO docs SELECT * FROM {root}/docs {json} WITHKEY(id, at.place)",
    )
    wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
    publish(
        broker.port,
        [
            (f"{root}/raw/1", b"bytes"),
            (f"{root}/named/x", b"n"),
            (f"{root}/docs", b"not json"),
            (f"{root}/docs", b'{"id": 7, "at": {"place": "here"}, "tags": ["a"]}'),
        ],
    )
    topics: list[str] = []
    keys: list[Any] = []
    values: list[Any] = []
    schemas: list[Any] = []
    while len(values) < 3:
        polled = reader.poll(1 << 20, 5000)
        assert polled is not None
        topics += polled.records.topics
        keys += polled.records.keys.values
        values += polled.records.values.values
        schemas += polled.records.values.schemas()
    assert topics == ["raw", f"{root}_named_x", "docs"]
    assert keys[0]["topic"] == f"{root}/raw/1"
    assert keys[0]["id"].isdecimal()
    assert keys[2] == "7.here"
    assert values[:2] == [b"bytes", b"n"]
    assert values[2] == {"id": 7, "at": {"place": "here"}, "tags": ["a"]}
    assert [each.name for each in schemas[2].fields] == ["id", "at", "tags"]
    reader.close()


def test_lenses_sink_has_targets_of_all_kinds(broker: Mosquitto, root: str) -> None:
    config = LensesMqttSink.plugin.config.parse(
        {
            "name": "l",
            "connector.class": LensesMqttSink.plugin.class_name,
            "connect.mqtt.hosts": broker.uri,
            "connect.mqtt.service.quality": "1",
            "connect.mqtt.kcql": f"INSERT INTO {root}/fixed SELECT * FROM a;"
            "INSERT INTO _key SELECT * FROM b;"
            "INSERT INTO `to.topic` SELECT * FROM c PROPERTIES('mqtt.target.from.field'='true')",
        }
    )
    writer = LensesMqttSink().open(config, SinkContextStub(TaskId(root, 0)))
    schema = struct({"id": INT32, "to": struct({"topic": STRING})})
    row = {"id": 1, "to": {"topic": f"{root}/field"}}
    with Listener(broker.port, f"{root}/#") as listener:
        failed: Failed = {}
        writer.write(records_of([row], schema=schema, topic="a"), failed)
        writer.write(records_of(["text"], keys=[f"{root}/key"], topic="b"), failed)
        writer.write(records_of([row], topic="c"), failed)
        assert not failed
        listener.await_payloads(3)
        heard = {each.topic: bytes(each.payload) for each in listener.heard}
        text = b'{"id":1,"to":{"topic":"%s/field"}}' % root.encode()
        assert heard == {f"{root}/fixed": text, f"{root}/key": b"text", f"{root}/field": text}
        writer.write(records_of(["x"], topic="d"), failed)
        assert "connect.mqtt.kcql" in str(failed[0])
    writer.close()


@pytest.mark.parametrize(
    ("kcql", "told"),
    [
        ("SELECT * FROM a", "INSERT INTO"),
        ("INSERT INTO k SELECT id FROM a", "ReplaceField"),
        ("INSERT INTO k SELECT * FROM a/#/b", "'#' must be the last level"),
        ("INSERT INTO k SELECT * FROM a WITHCONVERTER=`x.AvroConverter`", "AvroConverter"),
        ("INSERT INTO k SELECT * FROM a BATCH 5", "WITHKEY"),
        ("INSERT INTO k SELECT * FROM a WITHREGEX=`(`", "regex"),
        (";", "no statement"),
    ],
)
def test_statements_that_cannot_be_are_refused(kcql: str, told: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        lenses_source("tcp://h", kcql)
    assert "connect.mqtt.kcql" in str(caught.value)
    assert told in str(caught.value)
