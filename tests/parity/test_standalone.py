"""Standalone mode: the same requests to Kafka Connect 4.3.1 and to penstock, and one offset file
that goes back and forth between them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker, free_port
from penstock.offsets.file import read
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.reference import STANDALONE, reference_worker

from .runtimes import Runtime
from .script import Ask, Reply, create, delete, get, gone, put, sink, source, status

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow(60)]

WAIT_S: Final = 300.0
_SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"


def settings(bootstrap: str, offsets: Path, port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": _STRING,
        "value.converter": _STRING,
        "offset.storage.file.filename": str(offsets),
        "offset.flush.interval.ms": "500",
        "consumer.heartbeat.interval.ms": "500",
        "listeners": f"http://127.0.0.1:{port}",
    }


def theirs(folder: Path, props: dict[str, str], *files: Path) -> WorkerProcess:
    return reference_worker(folder, props, "theirs", options=_SMALL, main=STANDALONE, files=files)


def ours(folder: Path, props: dict[str, str], *files: Path) -> WorkerProcess:
    command = [sys.executable, "-m", "penstock", "standalone"]
    return WorkerProcess(folder, props, "ours", lambda file: [*command, *map(str, (file, *files))])


SCRIPT: Final = (
    get("/"),
    get("/health"),
    get("/connectors"),
    create("s"),
    create("s"),
    get("/connectors/s"),
    get("/connectors/s/config"),
    get("/connectors/s/tasks"),
    status("s", "RUNNING", "RUNNING"),
    get("/connectors/s/tasks/0/status"),
    get("/connectors/s/topics"),
    get("/connectors/s/offsets"),
    put("s", source(batch__size="7")),
    Ask("PATCH", "/connectors/s/config", {"batch.size": "9", "none": None}),
    get("/connectors/s/config"),
    create("two", sink(tasks__max="2"), initial_state="PAUSED"),
    status("two", "PAUSED"),
    Ask("PUT", "/connectors/two/resume"),
    status("two", "RUNNING", "RUNNING", "RUNNING"),
    put("two", sink(tasks__max="1")),
    status("two", "RUNNING", "RUNNING"),
    Ask("PUT", "/connectors/two/pause"),
    status("two", "PAUSED", "PAUSED"),
    Ask("PUT", "/connectors/two/stop"),
    status("two", "STOPPED"),
    get("/connectors/two"),
    create("three", source(), initial_state="STOPPED"),
    status("three", "STOPPED"),
    create("three", source(tasks__max="x")),
    create("four", {"connector.class": "Nope"}),
    put("three", source(name="other")),
    Ask("POST", "/connectors/s/restart"),
    Ask("POST", "/connectors/s/tasks/0/restart"),
    status("s", "RUNNING", "RUNNING"),
    Ask("POST", "/connectors/none/restart"),
    Ask("POST", "/connectors/none/restart?includeTasks=true"),
    Ask("POST", "/connectors/none/tasks/0/restart"),
    Ask("PUT", "/connectors/none/pause"),
    Ask("PUT", "/connectors/none/resume"),
    Ask("PUT", "/connectors/none/stop"),
    get("/connectors/none"),
    get("/connectors/none/config"),
    get("/connectors/none/tasks"),
    get("/connectors/none/status"),
    get("/connectors/none/topics"),
    get("/connectors/none/offsets"),
    delete("none"),
    put("none-such", source(connector__class="Nope")),
    Ask("POST", "/connectors/s/tasks", []),
    Ask("PUT", "/connectors/s/fence"),
    Ask("PATCH", "/connectors/s/offsets", {"offsets": []}),
    Ask("DELETE", "/connectors/s/offsets"),
    Ask("PUT", "/connectors/s/stop"),
    status("s", "STOPPED"),
    Ask(
        "PATCH",
        "/connectors/s/offsets",
        {"offsets": [{"partition": {"filename": "@dir@/x"}, "offset": {"position": 5}}]},
    ),
    get("/connectors/s/offsets"),
    Ask("DELETE", "/connectors/s/offsets"),
    get("/connectors/s/offsets"),
    Ask("PUT", "/connectors/s/topics/reset"),
    Ask("PUT", "/admin/loggers/org.example?scope=cluster", {"level": "DEBUG"}),
    # There a task of that number is in the status from now on, although the answer is 404.
    Ask("POST", "/connectors/s/tasks/5/restart"),
    delete("s"),
    gone("s"),
    delete("two"),
    delete("three"),
    get("/connectors"),
)


MEANT: Final = {
    "POST /connectors/none/restart": "Connector none not found",
    "POST /connectors/none/tasks/0/restart": "Connector none not found",
    "PUT /connectors/none/stop": "Unknown connector none",
}
"""What we answer with 404 and Kafka Connect with 500: it notices that the connector is missing,
continues anyway, and fails on the missing parts."""


@pytest.fixture(scope="module")
def answers(
    broker: Broker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[Ask, Reply, Reply]]]:
    """What both answered, request by request."""
    folder = tmp_path_factory.mktemp("standalone")
    with ExitStack() as stack:
        runtimes = []
        for make, name in ((theirs, "alonetheirs"), (ours, "aloneours")):
            home = folder / name
            home.mkdir()
            topics.create(f"{name}-t")
            port = free_port()
            worker = make(home, settings(broker.bootstrap, home / "offsets", port))
            runtimes.append((stack.enter_context(worker), Runtime(name, port, folder)))
        for worker, _ in runtimes:
            worker.await_rest(WAIT_S, "/health")
        with ThreadPoolExecutor(2) as pool:
            found = [
                [*pool.map(lambda runtime: runtime.ask(ask), (r for _, r in runtimes))]  # noqa: B023
                for ask in SCRIPT
            ]
        yield [(ask, *both) for ask, both in zip(SCRIPT, found, strict=True)]


@pytest.mark.parametrize("number", range(len(SCRIPT)), ids=[str(ask)[:90] for ask in SCRIPT])
def test_both_answer_alike(number: int, answers: list[tuple[Ask, Reply, Reply]]) -> None:
    ask, reference, mine = answers[number]
    if str(ask) in MEANT:
        body = {"error_code": 404, "message": MEANT[str(ask)]}
        assert (reference.status, mine.status, mine.json()) == (500, 404, body)
    else:
        assert (mine.status, _comparable(mine)) == (reference.status, _comparable(reference))


def _comparable(reply: Reply) -> object:
    """The answer, without the order of members, the installed plugins, and the class name that
    precedes that message every other time (kafka-connect.md §19)."""
    if not reply.body:
        return None
    text = re.sub(r'available connectors are: [^"]*', "", reply.body)
    return json.loads(text.replace("org.apache.kafka.connect.errors.ConnectException: ", ""))


def test_one_offset_file_goes_back_and_forth(
    broker: Broker, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, lines, offsets = unique("lines"), tmp_path / "lines.txt", tmp_path / "offsets"
    topics.create(topic)
    file = tmp_path / "source.properties"
    connector = {"name": "s", "connector.class": "FileStreamSource"}
    file.write_bytes(render_properties({**connector, "file": str(lines), "topic": topic}))
    written: list[bytes] = []
    for turn, make in enumerate((theirs, ours, theirs)):
        with lines.open("a") as out:
            out.writelines(f"turn {turn}, line {number}\n" for number in range(50))
        written += [f"turn {turn}, line {number}".encode() for number in range(50)]
        home = tmp_path / f"turn{turn}"
        home.mkdir()
        with make(home, settings(broker.bootstrap, offsets, free_port()), file) as worker:
            wait_until(lambda: len(topics.values(topic)) >= len(written), WAIT_S, f"turn {turn}")  # noqa: B023
            worker.stop()
        assert topics.values(topic) == written, turn
        [(key, value)] = read(offsets).items()
        assert key == f'["s",{{"filename":"{lines}"}}]'.encode()
        assert value == f'{{"position":{lines.stat().st_size}}}'.encode()
