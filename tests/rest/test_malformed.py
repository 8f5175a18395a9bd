"""A worker answers every malformed request with a well-formed error, and nothing changes.

`malformed` generates the requests. Afterwards the topics, the connectors, their states, their
offsets and the log levels are the same as before, and no task was started.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .malformed import (
    FAMILIES,
    RUNNING,
    SINK,
    SOURCE,
    STOPPED_SINK,
    STOPPED_SOURCE,
    Wrong,
    made,
    request,
)

pytestmark = pytest.mark.timeout(900)

ANSWER_S: Final = 60.0
START_S: Final = 240.0  # a busy machine may take a minute for Spark to start
SURPRISE: Final = re.compile(r"^.* ERROR .*\(penstock\.rest.*$", re.MULTILINE)
"""The log line of an unexpected error."""

CODE: Final = re.compile(r'Traceback|File "|\bat 0x[0-9a-f]{6}')
"""Text that reveals program internals."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    kind: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Target:
    """A worker with a running source, a stopped source and a stopped sink."""

    worker: WorkerProcess
    topics: Topics
    cluster: str

    def exchange(self, sent: bytes, *, cut: bool = False) -> bytes:
        """Sends this on a new connection, and returns everything the worker answers until it closes
        the connection; `cut`: half-closes it after sending."""
        url = urlsplit(self.worker.url)
        with socket.create_connection((url.hostname, url.port), ANSWER_S) as connection:
            # If the worker refuses a request early, sending fails, but its answer can be read.
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent)
                if cut:
                    connection.shutdown(socket.SHUT_WR)
            said = bytearray()
            with contextlib.suppress(ConnectionResetError):
                while data := connection.recv(65_536):
                    said += data
            return bytes(said)

    def ask(self, path: str) -> Any:
        answer = self.worker.request("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def snapshot(self) -> dict[str, Any]:
        """All that a request might have changed."""
        names = (RUNNING, STOPPED_SOURCE, STOPPED_SINK)
        return {
            "topics": {
                store: self.topics.ends(f"{self.cluster}-{store}") for store in ("config", "offset")
            },
            "connectors": self.ask("/connectors?expand=info&expand=status"),
            "tasks": [self.ask(f"/connectors/{name}/tasks") for name in names],
            "offsets": [self.ask(f"/connectors/{name}/offsets") for name in names],
            "loggers": self.ask("/admin/loggers"),
            "starts": self.worker.log_text().count("Creating task "),
        }


def replies(said: bytes, *methods: str) -> list[Reply]:
    """Parses the bytes of a connection as answers to requests with these methods. Raises
    ValueError if they are anything else, or more."""
    found = []
    for method in methods:
        head, empty, rest = said.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        version, status = line.split(" ")[:2]
        if status == "100":  # the interim answer to `Expect`
            head, empty, rest = rest.partition(b"\r\n\r\n")
            line, *fields = head.decode("latin-1").split("\r\n")
            version, status = line.split(" ")[:2]
        if not empty or version != "HTTP/1.1":
            raise ValueError(f"no HTTP: {said[:200]!r}")
        headers = {
            name.lower(): text.strip() for name, _, text in (f.partition(":") for f in fields)
        }
        body, said = _body(method, headers, rest)
        found.append(Reply(int(status), headers.get("content-type"), body))
    if said:
        raise ValueError(f"more than was asked for: {said[:200]!r}")
    return found


def _body(method: str, headers: Mapping[str, str], rest: bytes) -> tuple[bytes, bytes]:
    """The body, and the bytes after it."""
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            body, rest = body + rest[:length], rest[length + 2 :]
            if not length:
                return body, rest
    length = 0 if method == "HEAD" else int(headers.get("content-length", "0"))
    if "content-length" not in headers and headers.get("connection") == "close":
        length = len(rest)
    if len(rest) < length:
        raise ValueError(f"{len(rest)} of {length} bytes: {rest[:200]!r}")
    return rest[:length], rest[length:]


@pytest.fixture(scope="module")
def target(
    make_worker: Callable[..., WorkerProcess],
    topics: Topics,
    cluster: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Target:
    worker = make_worker().start()
    worker.await_rest()
    file = tmp_path_factory.mktemp("files") / "in.txt"
    file.write_text("one\ntwo\n")
    topic = topics.create(f"{cluster}-lines")
    worker.create(RUNNING, {**SOURCE, "file": str(file), "topic": topic})
    worker.create(STOPPED_SOURCE, {**SOURCE, "file": str(Path(file).with_name("absent"))})
    worker.create(STOPPED_SINK, {**SINK, "topics": topic})
    for name in (RUNNING, STOPPED_SOURCE, STOPPED_SINK):
        worker.await_states(name, ["RUNNING", "RUNNING"], START_S)
    for name in (STOPPED_SOURCE, STOPPED_SINK):
        worker.request("PUT", f"/connectors/{name}/stop")
        worker.await_states(name, ["STOPPED"])
    target = Target(worker, topics, cluster)
    wait_until(lambda: topics.count(topic) == 2, 60, "both lines in the topic")
    wait_until(
        lambda: target.ask(f"/connectors/{RUNNING}/offsets")["offsets"], 60, "a stored offset"
    )
    return target


@pytest.fixture(scope="module")
def before(target: Target) -> dict[str, Any]:
    return target.snapshot()


def problem(wrong: Wrong, said: bytes) -> str | None:
    """What is wrong with an answer; None for a good one."""
    if not said:
        return None if wrong.cut else "no answer"
    try:
        [reply] = replies(said, wrong.sent.split(b" ")[0].decode("latin-1"))
    except ValueError as error:
        return str(error)
    if reply.status not in wrong.statuses:
        return f"{reply.status}, not one of {sorted(wrong.statuses)}: {reply.body[:300]!r}"
    if CODE.search(reply.body.decode(errors="replace")):
        return f"tells about code: {reply.body[:300]!r}"
    if not wrong.http and reply.kind is not None and reply.kind.startswith("text/plain"):
        return None if 0 < len(reply.body) < 200 else f"odd words: {reply.body[:300]!r}"
    if reply.kind not in ("application/json", None):
        return f"of type {reply.kind}: {reply.body[:300]!r}"
    error = json.loads(reply.body)
    if set(error) != {"error_code", "message"} or error["error_code"] != reply.status:
        return f"another shape: {error}"
    if not isinstance(error["message"], str) or not error["message"]:
        return f"says nothing: {error}"
    if wrong.names not in error["message"]:
        return f"does not speak of {wrong.names!r}: {error}"
    return None


def test_there_are_enough() -> None:
    every = [wrong.sent for family in FAMILIES for wrong in made(family)]
    assert len(set(every)) >= 1_000


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_refused(target: Target, before: dict[str, Any], family: str) -> None:
    found = [
        f"{wrong.what}: {reported}"
        for wrong in made(family)
        if (reported := problem(wrong, target.exchange(wrong.sent, cut=wrong.cut))) is not None
    ]
    assert not found, "\n".join([f"{len(found)} of {len(made(family))}", *found])


def test_requests_that_follow_each_other_at_once_are_answered_in_order(target: Target) -> None:
    asked = [("GET", "/"), ("HEAD", "/connectors"), ("GET", "/connectors/none"), ("GET", "/nope")]
    sent = b"".join(
        request(method, path, headers={"Connection": "keep-alive"}) for method, path in asked
    )
    said = target.exchange(sent + request("GET", "/connectors/last"))
    answers = replies(said, *(method for method, _ in asked), "GET")
    assert [reply.status for reply in answers] == [200, 200, 404, 404, 404]
    assert b"none" in answers[2].body
    assert b"last" in answers[4].body


def test_a_malformed_request_after_a_good_one_is_refused_alone(target: Target) -> None:
    sent = request("GET", "/", headers={"Connection": "keep-alive"}) + b"nonsense\r\n\r\n"
    good, bad = replies(target.exchange(sent), "GET", "GET")
    assert (good.status, bad.status) == (200, 400)


def test_older_and_unusual_http_is_answered(target: Target) -> None:
    host = urlsplit(target.worker.url).netloc
    for sent in (
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: worker\r\n\r\n",
        f"GET {target.worker.url}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode(),
        request("GET", "/", headers={"Upgrade": "h2c", "Connection": "Upgrade, close"}),
        request("GET", "/", headers={"Expect": "100-continue"}),
        request("GET", "/", b"a body that nobody wants", content_type="application/json"),
    ):
        [reply] = replies(target.exchange(sent), "GET")
        assert reply.status == 200, (sent, reply)
        assert json.loads(reply.body)["version"]


def test_a_body_that_nobody_wants_does_not_keep_the_answer_away(target: Target) -> None:
    for method, path, status in (("POST", "/nope", 404), ("PATCH", "/connectors", 405)):
        said = target.exchange(request(method, path, b"x" * 3_000_000))
        [reply] = replies(said, method)
        assert reply.status == status


def test_a_large_body_is_read_and_refused(target: Target) -> None:
    body = json.dumps(["x" * 1_000] * 10_000).encode()
    [reply] = replies(target.exchange(request("POST", "/connectors", body)), "POST")
    assert reply.status == 500


def test_nothing_has_changed(target: Target, before: dict[str, Any]) -> None:
    assert target.snapshot() == before


def test_the_worker_was_not_surprised(target: Target) -> None:
    assert SURPRISE.findall(target.worker.log_text()) == []
