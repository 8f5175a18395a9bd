"""The MQTT source and sink with MQTT 5, against HiveMQ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from penstock.api import Failed, Header, SinkWriter, SourceReader, TaskId
from penstock.api.schema import STRING
from penstock.connectors.mqtt.client.errors import TakenOver
from penstock.connectors.mqtt.read.reader import MqttReader
from penstock.connectors.mqtt.sink import MqttSink
from penstock.connectors.mqtt.source import MqttSource
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from penstock.testing.waiting import wait_until
from tests.servers.mqtt import HiveMQ

NUMBERS = count()
WAIT_S: Final = 20.0


@pytest.fixture(scope="module")
def broker() -> Iterator[HiveMQ]:
    with HiveMQ() as running:
        yield running


def source(
    broker: HiveMQ, filters: str, *, number: int = 0, name: str = "source", **settings: str
) -> SourceReader:
    props = {
        "name": "s",
        "connector.class": MqttSource.plugin.class_name,
        "mqtt.server.uri": broker.uri,
        "mqtt.topics": filters,
        "mqtt.qos": "1",
        "penstock.mqtt.version": "5",
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    context = SourceContextStub([], TaskId(name, number))
    reader = MqttSource().open(MqttSource.plugin.config.parse(props), context)
    assert isinstance(reader, MqttReader)

    def connected() -> bool:
        reader.poll(0, 10)  # starts, and reads nothing
        return reader._receiver._down_since is None

    wait_until(connected, WAIT_S, "the connection")
    return reader


def sink(broker: HiveMQ, topic: str, **settings: str) -> SinkWriter:
    props = {
        "mqtt.server.uri": broker.uri,
        "penstock.mqtt.version": "5",
        "penstock.mqtt.topic": topic,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    context = SinkContextStub(TaskId(f"sink{next(NUMBERS)}", 0))
    return MqttSink().open(MqttSink.plugin.config.parse(props), context)


def read(reader: SourceReader, number: int, *, commits: bool = True) -> list[bytes]:
    values: list[bytes] = []

    def enough() -> bool:
        polled = reader.poll(1 << 20, 100)
        if polled is not None:
            values.extend(polled.records.values.values)
            if commits:
                reader.committed(polled.offsets)
        return len(values) >= number

    wait_until(enough, WAIT_S, f"{number} messages")
    return values


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_many_messages_pass(broker: HiveMQ, qos: str) -> None:
    topic = f"many{next(NUMBERS)}"
    reader = source(broker, f"{topic}/#", mqtt__qos=qos)
    writer = sink(broker, f"{topic}/${{topic}}", mqtt__qos=qos)
    count = 500 if qos == "0" else 3_000  # HiveMQ drops those of QoS 0 if many wait
    failed: Failed = {}
    writer.write(records_of([f"{n}" for n in range(count)]), failed)
    assert not failed
    values = read(reader, count)
    assert sorted(values, key=int) == [b"%d" % n for n in range(count)]
    reader.close()
    writer.close()


def test_tasks_share_a_subscription(broker: HiveMQ) -> None:
    topic = f"shared{next(NUMBERS)}"
    readers = [
        source(broker, f"$share/group/{topic}/#", name=topic, number=number) for number in range(2)
    ]
    writer = sink(broker, f"{topic}/${{key}}")
    failed: Failed = {}
    numbers = [str(n) for n in range(1000)]
    writer.write(records_of(numbers, keys=numbers), failed)
    assert not failed
    parts: list[list[bytes]] = [[], []]

    def complete() -> bool:
        for reader, part in zip(readers, parts, strict=True):
            polled = reader.poll(1 << 20, 50)
            if polled is not None:
                part.extend(polled.records.values.values)
                reader.committed(polled.offsets)
        return sum(map(len, parts)) >= 1000

    wait_until(complete, WAIT_S, "all of them")
    assert sorted(parts[0] + parts[1]) == sorted(each.encode() for each in numbers)
    # The broker decides how to divide them: those of one that leaves go to the other.
    leaving = 0 if parts[0] else 1
    readers[leaving].close()
    writer.write(records_of(["1", "2"], keys=["a", "b"]), failed)
    assert sorted(read(readers[1 - leaving], 2)) == [b"1", b"2"]
    readers[1 - leaving].close()
    writer.close()


@pytest.mark.parametrize("qos", ["1", "2"])
def test_messages_that_kafka_does_not_have_are_sent_again(broker: HiveMQ, qos: str) -> None:
    topic = f"again{next(NUMBERS)}"
    settings = {"mqtt__clean__session__enabled": "false", "mqtt__qos": qos}
    reader = source(broker, f"{topic}/#", name=topic, **settings)
    writer = sink(broker, f"{topic}/a", mqtt__qos="2")
    failed: Failed = {}
    writer.write(records_of([f"{n}" for n in range(100)]), failed)
    first = None
    while first is None:
        first = reader.poll(100, 1000)
    done = list(first.records.values.values)
    reader.committed(first.offsets)
    read(reader, 1, commits=False)  # as many as the broker sends before one is acknowledged
    reader.close()
    writer.write(records_of(["while away"]), failed)
    assert not failed
    again = source(broker, f"{topic}/#", name=topic, **settings)
    values = read(again, 101 - len(done))
    assert values == [*(b"%d" % n for n in range(len(done), 100)), b"while away"]
    again.close()
    writer.close()


def test_properties_are_headers(broker: HiveMQ) -> None:
    topic = f"headers{next(NUMBERS)}"
    reader = source(broker, topic)
    writer = sink(broker, topic)
    records = records_of(["v"])
    given = [("mqtt.content.type", "text/plain"), ("unit", "K"), ("unit", "°C")]
    records.headers = [[Header(name, value, STRING) for name, value in given]]
    failed: Failed = {}
    writer.write(records, failed)
    assert not failed
    polled = None
    while polled is None:
        polled = reader.poll(1 << 20, 1000)
    assert [(each.name, each.value) for each in polled.records.headers[0]][4:] == given
    reader.close()
    writer.close()


def test_a_record_over_the_brokers_limit_is_refused_before_it_is_sent(broker: HiveMQ) -> None:
    writer = sink(broker, f"large{next(NUMBERS)}")
    failed: Failed = {}
    writer.write(records_of(["a", "b" * 1_100_000, "c"]), failed)
    assert list(failed) == [1]
    assert "at most 1000000 bytes" in str(failed[1])
    writer.close()


def test_a_client_that_takes_the_client_id_is_named(broker: HiveMQ) -> None:
    settings = {"penstock__mqtt__client__id": f"id{next(NUMBERS)}"}
    first = source(broker, "a", **settings)
    second = source(broker, "a", **settings)
    with pytest.raises(TakenOver, match=r"penstock\.mqtt\.client\.id"):
        read(first, 1)
    first.close()
    second.close()
