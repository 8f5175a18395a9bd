"""`penstock read` and `penstock write` against a real topic."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from penstock.cli.app import run
from penstock.cli.session import CommandSession
from penstock.errors import DataError
from penstock.flow.stage.failures import Letter, context_headers
from penstock.flow.stage.pipeline import Failure, Stage
from penstock.ids import TaskId
from penstock.kafka.broker import Broker, free_port
from penstock.testing.topics import Topics


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Done]

CONFIG = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "key.converter": "org.apache.kafka.connect.converters.LongConverter",
}


@pytest.fixture
def penstock(
    broker: Broker, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs the command in this process; a connector `orders` exists."""

    def worker(request: httpx.Request) -> httpx.Response:
        known = request.url.path == "/connectors/orders/config"
        return httpx.Response(200, json=CONFIG) if known else httpx.Response(404)

    def command(*args: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        environ = {"PENSTOCK_BOOTSTRAP_SERVERS": broker.bootstrap}
        code = run(args, CommandSession(environ=environ, transport=httpx.MockTransport(worker)))
        out, err = capfdbinary.readouterr()
        return Done(code, out.decode(), err.decode())

    return command


def test_records_that_were_read_can_be_written(
    penstock: Command, topics: Topics, unique: Callable[[str], str]
) -> None:
    one, two = topics.create(unique("one"), 2), unique("two")
    headers = [("source", "wéb".encode()), ("source", None), ("bytes", b"\xff\0")]
    topics.append(one, [b'{"id":1,"price":1.10}'], key=b"k", headers=headers)
    topics.append(one, [b"a string", b"\xff\0", b"", None], key=b"\1\2")
    read = penstock("read", one, "--format", "json")
    assert read.code == 0, read.err
    written = penstock("write", two, "--create", "--format", "json", stdin=read.out)
    assert written.code == 0, written.err
    assert "5 records written" in written.err

    def cells(topic: str) -> list[tuple[Any, ...]]:
        found = [
            (each.key, each.value, each.headers, each.timestamp) for each in topics.read(topic)
        ]
        return sorted(found, key=repr)

    assert cells(two) == cells(one)


def test_the_converters_of_a_connector_apply(
    penstock: Command, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = topics.create(unique("orders"))
    lines = '7|{"id": 7}\n8|{"id": 8}\n'
    use = ("--connector", "orders")
    done = penstock("write", topic, "--key-separator", "|", *use, stdin=lines)
    assert done.code == 0, done.err
    stored = topics.read(topic)
    assert [each.key for each in stored] == [n.to_bytes(8, "big") for n in (7, 8)]
    assert [each.value for each in stored] == [b'{"id":7}', b'{"id":8}']
    read = penstock("read", topic, "--format", "json", *use)
    assert [each["key"] for each in read.documents()] == [7, 8]
    assert "Without a converter" not in read.err
    guessed = penstock("read", topic)
    assert "key=\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07" in guessed.out
    assert "Without a converter: keys as bytes" in guessed.err
    assert "values as JSON" in guessed.err


def test_reading_begins_and_ends_where_it_is_told(
    penstock: Command, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = topics.create(unique("places"), 2)
    for partition in (0, 1):
        topics.append(topic, [b"%d" % n for n in range(1200)], partition=partition)

    def values(*args: str) -> list[str]:
        done = penstock("read", topic, "--format", "raw", *args)
        assert done.code == 0, done.err
        return done.out.splitlines()

    assert sorted(map(int, values())) == sorted([*range(1200), *range(1200)])
    assert values("--partition", "1", "--from", "1197") == ["1197", "1198", "1199"]
    assert values("--partition", "1", "--from=-2") == ["1198", "1199"]
    assert values("--partition", "0", "--count", "2") == ["0", "1"]
    assert values("--from", "latest") == []
    assert len(values("--from", "1h")) == 2400
    assert values("--from", "2100-01-01") == []
    assert values("--from", "99999") == []
    assert len(values("--follow", "--count", "5")) == 5
    assert "No records there" in penstock("read", topic, "--from", "latest").err


def test_records_of_open_and_aborted_transactions_do_not_keep_it_waiting(
    penstock: Command, broker: Broker, topics: Topics, unique: Callable[[str], str]
) -> None:
    from confluent_kafka import Producer

    topic = topics.create(unique("transactions"))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for value, commit in (("yes", True), ("no", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush()
    assert penstock("read", topic, "--format", "raw").out == "yes\n"
    producer.abort_transaction()
    assert penstock("read", topic, "--format", "raw").out == "yes\n"


def test_dead_letters_tell_why(
    penstock: Command, topics: Topics, unique: Callable[[str], str]
) -> None:
    failure = Failure(0, Stage.VALUE_CONVERTER, "org.example.Converter", DataError("no JSON"))
    original = Letter("orders", 2, 41, None, None, b"{broken", [], "")
    headers = context_headers(TaskId("sink", 3), failure, original)
    topic = topics.create(unique("dead-letters"))
    topics.append(topic, [b"{broken"], headers=headers)
    done = penstock("read", topic)
    assert done.code == 0
    first, *reported = done.out.splitlines()
    assert first.endswith("key=null value={broken")
    assert reported[:3] == [
        "  record: orders-2@41",
        "  connector: sink, task 3",
        "  failed in: VALUE_CONVERTER, org.example.Converter",
    ]
    assert "no JSON" in reported[3]
    (document,) = penstock("read", topic, "--format", "json").documents()
    assert document["failure"]["offset"] == 41
    assert {each["name"] for each in document["headers"]} == {name for name, _ in headers}


def test_a_line_that_cannot_be_written_is_named_and_those_before_it_are(
    penstock: Command, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = topics.create(unique("lines"))
    done = penstock("write", topic, "--connector", "orders", stdin='{"a": 1}\n{"a": 2}\nplain\n')
    assert done.code == 2
    assert (
        "Line 3 of standard input: JsonConverter writes JSON, and 'plain' is not JSON" in done.err
    )
    assert "The 2 before it were written." in done.err
    assert [each.value for each in topics.read(topic)] == [b'{"a":1}', b'{"a":2}']


def test_a_missing_topic_is_named_and_not_created(
    penstock: Command, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = topics.create(unique("existing"))
    done = penstock("read", f"{topic}s")
    assert done.code == 5
    assert f"There is no topic '{topic}s'" in done.err
    assert topic in done.err.partition("There are:")[2]
    assert f"{topic}s" not in topics.names()  # nor was it created
    assert penstock("write", f"{topic}s", stdin="x\n").code == 5
    done = penstock("read", topic, "--partition", "3")
    assert done.code == 5
    assert "has no partition 3 (--partition)" in done.err


def test_a_kafka_that_does_not_answer_is_named(
    penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cli.records.reading.CONNECT_S", 1.0)
    address = f"localhost:{free_port()}"
    done = penstock("read", "t", "--bootstrap-server", address)
    assert done.code == 6
    assert f"No Kafka broker answers at {address} (--bootstrap-server)." in done.err
    assert "--worker FILE" in done.err
