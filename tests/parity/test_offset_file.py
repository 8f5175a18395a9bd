"""The offset file of standalone mode: Kafka Connect's own class reads ours, and we read its."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.offsets.file import Offsets, encode, read, write

from .jvm import JavaObject, KafkaConnect

STORE = "org.apache.kafka.connect.storage.FileOffsetBackingStore"

CASES: dict[str, Offsets] = {
    "nothing": {},
    "one": {b'["c",{"filename":"/a"}]': b'{"position":30}'},
    "forgotten": {b'["c",{"filename":"/a"}]': None},
    "many": {
        f'["connector-{n % 7}",{{"part":{n},"text":"ü"}}]'.encode(): b'{"n":%d}' % n
        if n % 3
        else None
        for n in range(500)
    },
    "empty value": {b'["c",{}]': b""},
}


@pytest.fixture(scope="module")
def connect() -> Iterator[KafkaConnect]:
    with KafkaConnect.started() as running:
        yield running


def store(connect: KafkaConnect, file: Path) -> JavaObject:
    """A started store of Kafka Connect's on this file."""
    converter = connect.new("org.apache.kafka.connect.json.JsonConverter")
    converter.configure(connect.map({"schemas.enable": "false"}), True)
    made = connect.new(STORE, converter)
    worker = {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": str(file),
    }
    config = "org.apache.kafka.connect.runtime.standalone.StandaloneConfig"
    made.configure(connect.new(config, connect.map(worker)))
    made.start()
    return made


def buffer(connect: KafkaConnect, data: bytes | None) -> JavaObject:
    return None if data is None else connect.gateway.jvm.java.nio.ByteBuffer.wrap(data)


@pytest.mark.parametrize("name", CASES)
def test_kafka_connect_reads_what_we_write(
    name: str, connect: KafkaConnect, tmp_path: Path
) -> None:
    offsets, file = CASES[name], tmp_path / "offsets"
    write(file, offsets)
    theirs = store(connect, file)
    try:
        asked = connect.gateway.jvm.java.util.ArrayList()
        for key in offsets:
            asked.add(buffer(connect, key))
        found = theirs.get(asked).get()
        assert found.size() == len(offsets)
        for key, value in offsets.items():
            reported = found.get(buffer(connect, key))
            assert (None if reported is None else bytes(reported.array())) == value
    finally:
        theirs.stop()


@pytest.mark.parametrize("name", CASES)
def test_we_read_what_kafka_connect_writes(
    name: str, connect: KafkaConnect, tmp_path: Path
) -> None:
    offsets, file = CASES[name], tmp_path / "offsets"
    theirs = store(connect, file)
    try:
        values = connect.gateway.jvm.java.util.HashMap()
        for key, value in offsets.items():
            values.put(buffer(connect, key), buffer(connect, value))
        theirs.set(values, None).get()
    finally:
        theirs.stop()
    assert read(file) == offsets
    if len(offsets) < 2:  # of more, the order is that of the arrays' addresses
        assert file.read_bytes() == encode(offsets)
