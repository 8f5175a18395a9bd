"""The MQTT connectors under Lenses' names, whose tasks KCQL describes, against mosquitto."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.api import (
    ConfigInvalid,
    Failed,
    TaskId,
)
from penstock.api.schema import INT32, STRING, struct
from penstock.connectors.mqtt.sink import LensesMqttSink
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.waiting import wait_until
from tests.servers.mqtt import NO_MOSQUITTO, Mosquitto, mosquitto

from .tasks import (
    UNLIMITED,
    WAIT_S,
    Listener,
    is_connected,
    lenses_source,
    new_root,
    publish,
)

pytestmark = pytest.mark.skipif(mosquitto() is None, reason=NO_MOSQUITTO)


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(UNLIMITED) as running:
        yield running


@pytest.fixture
def root() -> str:
    return new_root()


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
    ("kcql", "reported"),
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
def test_statements_that_cannot_be_are_refused(kcql: str, reported: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        lenses_source("tcp://h", kcql)
    assert "connect.mqtt.kcql" in str(caught.value)
    assert reported in str(caught.value)
