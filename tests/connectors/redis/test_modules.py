"""JSON and time series in Redis: on a real server with modules, and by the commands."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest
import redis

from penstock.api import schema as s
from penstock.connectors.redis.sink import (
    RedisSink,
)
from penstock.testing.conformance import records_of
from tests.servers import redis_modules
from tests.servers.redis import RedisServer

from .sinks import Client, findings, ours, write

ROW = s.struct({"id": s.INT64, "name": s.OPTIONAL_STRING}, name="row")

needs_modules = pytest.mark.skipif(
    redis_modules.missing() is not None, reason=str(redis_modules.missing())
)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer(modules=redis_modules.folder()) as running:
        yield running


@pytest.fixture
def client(server: RedisServer) -> Iterator[Client]:
    with redis.Redis(port=server.port) as client:
        client.flushall()
        yield client


@needs_modules
def test_documents(server: RedisServer, client: Client) -> None:
    settings = ours(server, "JSON")
    assert findings(RedisSink, settings) == {}
    client.json().set("conformance:d", "$", {"old": True})
    values = ['{"a":1,"b":"x"}', b"[]", "no JSON", None, '{"a":2}']
    records = records_of(values, keys=["a", "b", "c", "d", "a"])
    assert sorted(write(RedisSink, settings, records)) == [2]
    assert client.json().get("conformance:a") == {"a": 2}
    assert client.json().get("conformance:b") == []
    assert client.exists("conformance:c", "conformance:d") == 0


@needs_modules
def test_rows_are_documents(server: RedisServer, client: Client) -> None:
    settings = {"redis.uri": f"redis://{server.address}", "redis.command": "JSONSET"}
    row = {"id": (1 << 53) + 1, "name": None}
    assert write(RedisSink, settings, records_of([row], keys=["r"], schema=ROW)) == {}
    assert client.json().get("conformance:r") == row


@needs_modules
def test_documents_expire(server: RedisServer, client: Client) -> None:
    settings = ours(server, "JSON", redis_key_ttl="100")
    assert write(RedisSink, settings, records_of(["{}"], keys=["a"])) == {}
    assert 0 < client.ttl("conformance:a") <= 100


@needs_modules
def test_the_last_document_that_is_accepted_counts(server: RedisServer, client: Client) -> None:
    values = ['{"a":1}', '{"a":2}', "no JSON", "no JSON"]
    failed = write(RedisSink, ours(server, "JSON"), records_of(values, keys=["a"] * 4))
    assert sorted(failed) == [2, 3]
    assert client.json().get("conformance:a") == {"a": 2}


@needs_modules
def test_samples(server: RedisServer, client: Client) -> None:
    settings = ours(server, "TIMESERIES")
    assert findings(RedisSink, settings) == {}
    samples = records_of([1, 2.5, "x", None, 3], keys=[10, 20, 30, 40, "when"])
    for _ in range(2):  # a replay changes nothing
        assert sorted(write(RedisSink, settings, samples)) == [2, 4]
        assert client.ts().range("conformance", "-", "+") == [(10, 1.0), (20, 2.5)]
    assert write(RedisSink, settings, records_of([7], keys=[20])) == {}
    assert client.ts().range("conformance", "-", "+") == [(10, 1.0), (20, 7.0)]


class Double(socketserver.ThreadingTCPServer):
    """A server that accepts and records every command."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.heard: list[list[bytes]] = []
        super().__init__(("127.0.0.1", 0), _Answers)

    def __enter__(self) -> Double:
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join()


class _Answers(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2])
            assert isinstance(self.server, Double)
            self.server.heard.append(words)
            if words[0] == b"JSON.SET" and words[3] == b"no JSON":
                self.wfile.write(b"-ERR expected ident at line 1 column 2\r\n")
            else:
                self.wfile.write(b":1\r\n" if words[0] == b"TS.ADD" else b"+OK\r\n")


def test_commands_of_documents_and_samples() -> None:
    """The commands that reach the server."""
    with Double() as double:
        uri = f"redis://127.0.0.1:{double.server_address[1]}"
        row = {"id": 1, "name": None}
        values = ['{"a":1}', b"[]", "no JSON", None, '{"a":2}']
        records = records_of(values, keys=["a", "b", "c", "d", "a"])
        failed = write(RedisSink, {"redis.uri": uri, "redis.type": "JSON"}, records)
        assert sorted(failed) == [2]
        rows = records_of([row], keys=["r"], schema=ROW)
        assert write(RedisSink, {"redis.uri": uri, "redis.command": "JSONSET"}, rows) == {}
        assert double.heard == [
            [b"JSON.SET", b"conformance:b", b"$", b"[]"],
            [b"JSON.SET", b"conformance:c", b"$", b"no JSON"],
            [b"DEL", b"conformance:d"],
            [b"JSON.SET", b"conformance:a", b"$", b'{"a":2}'],
            [b"JSON.SET", b"conformance:r", b"$", b'{"id":1,"name":null}'],
        ]
        double.heard.clear()
        samples = records_of([1, 2.5, "x", None, 3], keys=[10, 20, 30, 40, "when"])
        failed = write(RedisSink, {"redis.uri": uri, "redis.type": "TIMESERIES"}, samples)
        assert sorted(failed) == [2, 4]
        more = [b"ON_DUPLICATE", b"LAST"]
        assert double.heard == [
            [b"TS.ADD", b"conformance", b"10", b"1", *more],
            [b"TS.ADD", b"conformance", b"20", b"2.5", *more],
        ]


def test_commands_where_the_last_value_is_refused() -> None:
    with Double() as double:
        uri = f"redis://127.0.0.1:{double.server_address[1]}"
        values = ['{"a":1}', '{"a":2}', "no JSON", "no JSON"]
        records = records_of(values, keys=["a"] * 4)
        failed = write(RedisSink, {"redis.uri": uri, "redis.type": "JSON"}, records)
        assert sorted(failed) == [2, 3]
        assert [words[3] for words in double.heard] == [b"no JSON", b"no JSON", b'{"a":2}']
