"""Topics into requests, and pages into topics, next to a loop of the HTTP client alone.

The server is a bare asyncio protocol in its own process, on the same cores: it reads requests,
counts them, and answers, with a page for each request. `python -m benchmarks.web PORT` serves.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
import httpx
import orjson

from benchmarks.inputs import JSON, PARTITIONS, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import Load, Note, Scenario, note_curve
from benchmarks.watching import peak_memory, watch
from penstock.host.processes import Process
from penstock.kafka.broker import free_port

_PAGE: Final = 2_000
_BATCH: Final = 1_000
_AT_ONCE: Final = 32
_TAKEN: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"
_SCHEMALESS: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_BODY: Final = b'{"id":12345,"name":"name-345","city":"Graz","score":45.5,"active":true}'


class _Protocol(asyncio.Protocol):
    requests = 0
    records = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out: Any = transport
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[:end]
            at = head.lower().find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            end_of_body = end + 4 + size
            if len(self._read) < end_of_body:
                return
            body, self._read = self._read[end + 4 : end_of_body], self._read[end_of_body:]
            self._out.write(self._answer(head, body))

    def _answer(self, head: bytes, body: bytes) -> bytes:
        method, target, _ = head.split(b" ", 2)
        if method == b"POST":
            _Protocol.requests += 1
            _Protocol.records += body.count(b'"id"')
            return _TAKEN
        if target == b"/count":
            return _framed(orjson.dumps([_Protocol.requests, _Protocol.records]))
        return _page(int(target.rpartition(b"=")[2]))


def _framed(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _page(after: int) -> bytes:
    rows = [
        {"id": number, "time": 1_700_000_000_000 + number, "name": "name", "city": "Graz"}
        for number in range(after + 1, after + 1 + _PAGE)
    ]
    return _framed(orjson.dumps({"items": rows}))


async def _serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Protocol, "127.0.0.1", port)
    await server.serve_forever()


@contextmanager
def _server() -> Iterator[int]:
    port = free_port()
    with TemporaryDirectory(prefix="penstock-bench-web-") as folder:
        command = [sys.executable, "-m", "benchmarks.web", str(port)]
        process = Process(command, Path(folder) / "log", name="The server")
        process.start()

        def answers() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        try:
            process.wait_for(answers, 30, "the server")
            yield port
        finally:
            process.kill()


def _into_requests(session: Session, load: Load, note: Note, batch: int) -> None:
    topic = load.topic(JSON)
    rate = None
    for run in ("cold", "warm"):
        name = session.name("requests")
        with _server() as port:
            config = {
                "connector.class": "io.confluent.connect.http.HttpSinkConnector",
                "topics": topic,
                "tasks.max": str(PARTITIONS),
                "http.api.url": f"http://127.0.0.1:{port}/take",
                "request.body.format": "json",
                "batch.max.size": str(batch),
                "batch.json.as.array": "true" if batch > 1 else "false",
                "penstock.http.order": "none",
                "penstock.http.max.in.flight": str(_AT_ONCE),
                **_SCHEMALESS,
            }

            def stored(name: str = name) -> int:
                return sum(session.topics.committed(f"connect-{name}", topic).values())

            with (
                peak_memory(session.worker.pid) as peak,
                session.running({name: config}) as began,
            ):
                curve = watch(stored, load.records, began, load.timeout_s, session.check)
            requests, records = httpx.get(f"http://127.0.0.1:{port}/count", trust_env=False).json()
            if records != load.records:
                raise WrongOutcome(f"{load.records:,} records were to be sent, {records:,} were")
            note(f"{run}.requests", requests)
        note_curve(note, run, curve)
        rate = curve.rate
        note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
    with _server() as port:
        alone = asyncio.run(_alone(port, load.records, batch))
    note("hand", alone)
    note("share", None if rate is None else rate / alone)


async def _alone(port: int, records: int, batch: int) -> float:
    """The records per second of the client alone, with prepared bodies."""
    body = _BODY if batch == 1 else b"[" + b",".join([_BODY] * batch) + b"]"
    batches = iter(range(records // batch))
    url = f"http://127.0.0.1:{port}/take"
    began = time.monotonic()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_AT_ONCE)) as client:

        async def work() -> None:
            for _ in batches:
                async with client.post(url, data=body) as answer:
                    await answer.read()

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return records / (time.monotonic() - began)


def _one_by_one(session: Session, load: Load, note: Note) -> None:
    _into_requests(session, load, note, 1)


def _in_batches(session: Session, load: Load, note: Note) -> None:
    _into_requests(session, load, note, _BATCH)


def _pages(session: Session, load: Load, note: Note) -> None:
    for run in ("cold", "warm"):
        name, topic = session.name("pages"), session.name("pages-topic")
        with _server() as port:
            config = {
                "connector.class": "com.github.castorm.kafka.connect.http.HttpSourceConnector",
                "http.request.url": f"http://127.0.0.1:{port}/page",
                "http.request.params": "after=${offset.key!'-1'}",
                "http.response.list.pointer": "/items",
                "http.response.record.offset.pointer": "key=/id, timestamp=/time",
                "http.response.record.mapper": "StringKvSourceRecordMapper",
                "http.timer.interval.millis": "0",
                "http.timer.catchup.interval.millis": "0",
                "kafka.topic": topic,
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "topic.creation.default.partitions": "1",
                "topic.creation.default.replication.factor": "1",
            }

            def arrived(topic: str = topic) -> int:
                return min(session.topics.count(topic), load.records)

            with session.running({name: config}) as began:
                curve = watch(arrived, load.records, began, load.timeout_s, session.check)
        note_curve(note, run, curve)
    with _server() as port, httpx.Client(trust_env=False) as client:
        began = time.monotonic()
        after = -1
        while after + 1 < load.records:
            rows = orjson.loads(client.get(f"http://127.0.0.1:{port}/page?after={after}").content)
            after = rows["items"][-1]["id"]
        note("floor.loop", load.records / (time.monotonic() - began))


_SETTINGS: Final = {"offset.flush.interval.ms": "200"}  # offsets tell how much is stored
SCENARIOS: Final = (
    Scenario("http-sink", "topic → HTTP, one by one", _one_by_one, _SETTINGS, alone=True),
    Scenario("http-sink-batch", "topic → HTTP, batches", _in_batches, _SETTINGS, alone=True),
    Scenario("http-source", "HTTP → topic", _pages, alone=True),
)

if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
