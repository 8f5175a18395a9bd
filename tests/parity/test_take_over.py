"""A cluster is taken over and handed back: Kafka Connect runs it, then penstock, then Kafka Connect
again, with the same worker file on the same topics, each stopped cleanly before the next one
starts. A file grows all the while. And a cluster with both at the same time.

docs/migrating.md tells operators what is checked here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from penstock.cluster.records import SessionKey, decode_config
from penstock.host.processes import worker_command
from penstock.kafka.broker import Broker
from penstock.rest.forward import sign
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Cell, Stored, Topics
from penstock.testing.waiting import wait_until
from tests.servers.reference import ReferenceWorker, reference_worker

pytestmark = [
    pytest.mark.timeout(1_500),  # half a minute each on an idle machine
    pytest.mark.slow(240),
]

START_S: Final = 300.0
ATTEMPTS: Final = 3
SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
WIDTH: Final = len(b"line 0000000\n")
ITEMS: Final = [b"item-%02d" % number for number in range(20)]
STARTED: Final = ["RUNNING", "RUNNING"]

_CONNECT: Final = "org.apache.kafka.connect"
_JSON: Final = f"{_CONNECT}.json.JsonConverter"


def source(file: Path, topic: str, **more: str) -> dict[str, str]:
    """A file source's configuration; in the names of further settings `__` stands for a dot."""
    named = {"connector.class": f"{_CONNECT}.file.FileStreamSourceConnector", "tasks.max": "1"}
    others = {name.replace("__", "."): text for name, text in more.items()}
    return {**named, "file": str(file), "topic": topic, **others}


def sink(file: Path, topic: str, tasks: int = 1, **more: str) -> dict[str, str]:
    """A file sink's configuration."""
    named = {"connector.class": f"{_CONNECT}.file.FileStreamSinkConnector"}
    others = {name.replace("__", "."): text for name, text in more.items()}
    return {**named, "tasks.max": str(tasks), "file": str(file), "topics": topic, **others}


def append(file: Path, *lines: bytes) -> None:
    """Appends whole lines."""
    with file.open("ab") as out:
        out.writelines(line + b"\n" for line in lines)


class GrowingFile:
    """A file that gets a line every few milliseconds, each in two pieces: at any time, the last
    line may be torn."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._grow, name="growing-file", daemon=True)

    def _grow(self) -> None:
        with self.file.open("ab", buffering=0) as out:
            for number in itertools.count():
                line = b"line %07d\n" % number
                for piece in (line[:8], line[8:]):
                    out.write(piece)
                    self._stop.wait(0.002)
                self.lines = number + 1
                if self._stop.is_set():
                    return

    def __enter__(self) -> GrowingFile:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Returns when the last line is whole."""
        self._stop.set()
        self._thread.join()


@dataclass(frozen=True)
class Border:
    """The state in Kafka and in files while no worker runs."""

    position: int  # in the growing file, as stored
    sent: int  # lines of it in their topic
    committed: int  # of that topic by the sink
    written: int  # lines in the sink's file
    statuses: Mapping[Cell, bytes]
    offsets: list[Stored]


@dataclass
class Shift:
    """One runtime's time with the cluster."""

    runtime: str
    opened: Any = None  # REST's report when all was running
    closed: Any = None  # … and just before the stop
    configs: list[Stored] = field(default_factory=list)  # written meanwhile
    statuses: list[Stored] = field(default_factory=list)
    keys: tuple[bytes | None, bytes | None] = (None, None)  # session keys before and after
    probes: tuple[httpx.Response, ...] = ()  # signed with the earlier key, and a wrong one
    border: Border | None = None  # after it

    @property
    def after(self) -> Border:
        assert self.border is not None
        return self.border


class Cluster:
    """The cluster that changes hands: one worker at a time, all with the same file."""

    def __init__(self, name: str, folder: Path, bootstrap: str) -> None:
        self.name = name
        self.folder = folder
        self.topics = Topics(bootstrap)
        theirs = reference_worker(
            folder, worker_settings(bootstrap, name), name="worker", options=SMALL
        )
        ours = WorkerProcess(folder, theirs.settings, "worker", worker_command)
        assert ours.file == theirs.file, "not the same worker file"
        self.workers = {"reference": theirs, "penstock": ours}

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def internal(self, store: str, begin: Mapping[int, int] | None = None) -> list[Stored]:
        """What an internal topic holds from these offsets on."""
        rows = self.topics.read(f"{self.name}-{store}")
        return [row for row in rows if row.offset >= (begin or {}).get(row.partition, 0)]

    def lines(self, name: str) -> list[bytes]:
        file = self.file(name)
        return file.read_bytes().splitlines() if file.exists() else []

    def session_key(self) -> bytes | None:
        return self.topics.latest(f"{self.name}-config").get(b"session-key")

    def position(self, connector: str, file: Path) -> int:
        """The position that is stored for a file source."""
        key = json.dumps([connector, {"filename": str(file)}], separators=(",", ":")).encode()
        value = self.topics.latest(f"{self.name}-offset").get(key)
        return int(json.loads(value)["position"]) if value else 0

    def border(self) -> Border:
        growing = self.topic("growing-lines")
        statuses = self.topics.latest(f"{self.name}-status")
        return Border(
            position=self.position("growing-lines", self.file("growing-lines")),
            sent=self.topics.count(growing),
            committed=self.topics.committed("connect-copied", growing).get(0, 0),
            written=len(self.lines("copied")),
            statuses={key: value for key, value in statuses.items() if value is not None},
            offsets=self.internal("offset"),
        )

    def messages(self, worker: WorkerProcess) -> Any:
        """Everything REST reports about the connectors; of a trace, only its existence, because its
        text differs."""
        found = worker.request("GET", "/connectors?expand=info&expand=status").json()
        for name, about in found.items():
            about["topics"] = worker.request("GET", f"/connectors/{name}/topics").json()
            about["tasks"] = worker.request("GET", f"/connectors/{name}/tasks").json()
            for part in (about["status"]["connector"], *about["status"]["tasks"]):
                if "trace" in part:
                    part["trace"] = bool(part["trace"])
        return found

    def probe(self, worker: WorkerProcess, key: SessionKey) -> httpx.Response:
        """The answer to an internal request that changes nothing: tasks for a stopped connector are
        refused, but only after the signature check."""
        body = b'[{"a":"b"}]'
        headers = {**sign(body, key, "HmacSHA256"), "Content-Type": "application/json"}
        url = f"{worker.url}/connectors/stopped/tasks"
        return httpx.post(url, content=body, headers=headers, timeout=90, trust_env=False)


class ReferenceHung(Exception):
    """Kafka Connect did not stop, and was killed."""


def key_of(stored: bytes | None) -> SessionKey:
    record = decode_config(b"session-key", stored)
    assert isinstance(record, SessionKey), record
    return record


@dataclass(frozen=True)
class Story:
    """The three shifts, and the final state."""

    cluster: Cluster
    shifts: list[Shift]
    wanted: list[bytes]  # every line of the growing file


@pytest.fixture(scope="module")
def story(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Reference, penstock, reference; each moves lines and gets an order or two. Starts over if
    Kafka Connect hangs while stopping, as it does once in some dozens of runs: then it is killed,
    and its state proves nothing."""
    for attempt in range(1, ATTEMPTS + 1):
        name = f"taken-over-{attempt}"
        cluster = Cluster(name, tmp_path_factory.mktemp(name), broker.bootstrap)
        with contextlib.suppress(ReferenceHung):
            return tell(cluster)
    pytest.fail(f"Kafka Connect hung at its stop in {ATTEMPTS} attempts")


def tell(cluster: Cluster) -> Story:
    """Raises ReferenceHung if Kafka Connect does not stop cleanly."""
    shifts: list[Shift] = []
    with contextlib.ExitStack() as stack:
        for worker in cluster.workers.values():
            stack.callback(worker.close)
        with GrowingFile(cluster.file("growing-lines")) as growing:
            for runtime, orders in (
                ("reference", set_up),
                ("penstock", change),
                ("reference", resume),
            ):
                shifts.append(run_shift(cluster, runtime, orders, growing, shifts))
        worker = cluster.workers["penstock"]
        worker.start().await_rest(START_S, "/connectors")
        wait_until(
            lambda: cluster.file("copied").stat().st_size == growing.lines * WIDTH,
            START_S,
            "the rest of the growing file",
        )
        worker.stop()
    return Story(cluster, shifts, cluster.lines("growing-lines"))


def run_shift(
    cluster: Cluster,
    runtime: str,
    orders: Callable[[Cluster, WorkerProcess], None],
    growing: GrowingFile,
    before: list[Shift],
) -> Shift:
    """Starts a worker, lets it move lines, gives it its orders and stops it."""
    shift = Shift(runtime)
    ends = {
        store: cluster.topics.ends(f"{cluster.name}-{store}") if before else {}
        for store in ("config", "status")
    }
    old_key = cluster.session_key() if before else None
    worker = cluster.workers[runtime].start()
    worker.await_rest(START_S, "/connectors")
    if before:
        expected = before[-1].closed
        with contextlib.suppress(TimeoutError):  # the tests report differences
            wait_until(lambda: cluster.messages(worker) == expected, START_S, "everything to go on")
        shift.opened = cluster.messages(worker)
        right = key_of(old_key)
        wrong = SessionKey(bytes(32), right.algorithm, right.created_ms)
        shift.probes = tuple(cluster.probe(worker, key) for key in (right, wrong))
    orders(cluster, worker)
    shift.keys = (old_key, cluster.session_key())
    append(cluster.file("shaped-lines"), *ITEMS)
    seen = len(cluster.lines("copied"))
    lines = growing.lines
    wait_until(
        lambda: len(cluster.lines("copied")) > max(lines, seen + 500), START_S, "lines to be moved"
    )
    shaped = cluster.topic("shaped-lines")
    wait_until(
        lambda: cluster.topics.count(shaped) >= len(ITEMS) * (len(before) + 1), 60, "shaped lines"
    )
    shift.closed = cluster.messages(worker)
    worker.stop()
    if isinstance(worker, ReferenceWorker) and worker.hung:
        raise ReferenceHung
    shift.border = cluster.border()
    shift.configs = cluster.internal("config", ends["config"])
    shift.statuses = cluster.internal("status", ends["status"])
    return shift


def set_up(cluster: Cluster, worker: WorkerProcess) -> None:
    """Everything a cluster may hold: running, paused, failed and deleted connectors."""

    def create(name: str, config: dict[str, str], states: list[str]) -> None:
        worker.create(name, config)
        worker.await_states(name, states, START_S)

    topics, topic, file = cluster.topics, cluster.topic, cluster.file
    topics.create(topic("born"))
    for name in ("at-rest", "put-away", "stopped", "deleted", "deleted-later"):
        topics.create(topic(name))
        append(file(name), b"first")
        create(name, source(file(name), topic(name)), STARTED)
        wait_until(lambda n=name: topics.count(topic(n)) == 1, 60, f"the line of {name}")
    topics.create(topic("growing-lines"))
    create("growing-lines", source(file("growing-lines"), topic("growing-lines")), STARTED)
    topics.create(topic("shaped-lines"), partitions=4)
    create("shaped-lines", source(file("shaped-lines"), topic("shaped-lines"), **SHAPE), STARTED)
    create("copied", sink(file("copied"), topic("growing-lines")), STARTED)
    topics.append(topics.create(topic("not-json")), [b"no json"])
    as_json = {"value__converter": _JSON, "value__converter__schemas__enable": "false"}
    broken = sink(file("broken"), topic("not-json"), **as_json)
    create("broken", broken, ["RUNNING", "FAILED"])
    for name in ("put-away", "stopped"):
        await_position(cluster, name)
        worker.request("PUT", f"/connectors/{name}/stop")
        worker.await_states(name, ["STOPPED"])
    await_position(cluster, "at-rest")
    worker.request("PUT", "/connectors/at-rest/pause")
    worker.await_states("at-rest", ["PAUSED", "PAUSED"])
    delete(worker, "deleted")
    for name in ("at-rest", "put-away"):
        append(file(name), b"while it rests")


SHAPE: Final = {
    "transforms": "hoist,key,mark",
    "transforms__hoist__type": f"{_CONNECT}.transforms.HoistField$Value",
    "transforms__hoist__field": "line",
    "transforms__key__type": f"{_CONNECT}.transforms.ValueToKey",
    "transforms__key__fields": "line",
    "transforms__mark__type": f"{_CONNECT}.transforms.InsertHeader",
    "transforms__mark__header": "origin",
    "transforms__mark__value__literal": "a file",
    **{
        f"{part}__converter{more}": text
        for part in ("key", "value", "header")
        for more, text in (("", _JSON), ("__schemas__enable", "false"))
    },
}
"""Records with keys and headers, from the connector's own transforms and converters."""


def change(cluster: Cluster, worker: WorkerProcess) -> None:
    """Deletes a connector, creates one, and resumes a stopped one."""
    delete(worker, "deleted-later")
    append(cluster.file("born"), b"first")
    worker.create("born", source(cluster.file("born"), cluster.topic("born")))
    worker.await_states("born", STARTED)
    worker.request("PUT", "/connectors/put-away/resume")
    worker.await_states("put-away", STARTED)
    for name, count in (("born", 1), ("put-away", 2)):
        wait_until(
            lambda n=name, c=count: cluster.topics.count(cluster.topic(n)) == c, 60, f"{name}"
        )
        await_position(cluster, name)


def resume(cluster: Cluster, worker: WorkerProcess) -> None:
    """Resumes what rests."""
    worker.request("PUT", "/connectors/at-rest/resume")
    worker.await_states("at-rest", STARTED)
    wait_until(lambda: cluster.topics.count(cluster.topic("at-rest")) == 2, 60, "what rested")


def delete(worker: WorkerProcess, connector: str) -> None:
    assert worker.request("DELETE", f"/connectors/{connector}").status_code == 204
    wait_until(
        lambda: worker.request("GET", f"/connectors/{connector}/status").status_code == 404,
        60,
        f"'{connector}' to be forgotten",
    )


def await_position(cluster: Cluster, connector: str) -> None:
    file = cluster.file(connector)
    wait_until(
        lambda: cluster.position(connector, file) == file.stat().st_size,
        60,
        f"the position of '{connector}'",
    )


BORDERS: Final = [pytest.param(at, id=name) for at, name in ((1, "over"), (2, "back"))]


@pytest.mark.parametrize("at", BORDERS)
def test_both_runtimes_report_the_same_about_every_connector(story: Story, at: int) -> None:
    before, after = story.shifts[at - 1].closed, story.shifts[at].opened
    assert sorted(after) == sorted(before)
    for name in before:
        assert after[name] == before[name], name


@pytest.mark.parametrize("at", BORDERS)
def test_nothing_is_planned_or_written_again(story: Story, at: int) -> None:
    """Only what was ordered is in the config topic."""
    written: dict[str, list[str]] = {}
    for row in story.shifts[at].configs:
        key = (row.key or b"").decode()
        found = re.fullmatch(r"(connector|task|commit|target-state)-(.+?)(?:-\d+)?", key)
        assert found is not None, key
        kind, name = found.groups()
        written.setdefault(name, []).append(kind if row.value is not None else f"no {kind}")
    ordered: list[dict[str, list[str]]] = [
        {},
        {
            "deleted-later": ["no connector", "no target-state"],
            "born": ["connector", "task", "commit"],
            "put-away": ["target-state", "task", "commit"],
        },
        {"at-rest": ["target-state"]},
    ]
    assert written == ordered[at]


@pytest.mark.parametrize("at", range(3))
def test_nothing_is_lost_or_repeated_where_one_stops(story: Story, at: int) -> None:
    border = story.shifts[at].after
    assert border.sent > 0
    assert border.position == border.sent * WIDTH, "what was sent is not what was stored as sent"
    assert border.committed == border.written, "what was written is not what was committed"
    assert border.written <= border.sent


def test_every_line_is_moved_once_and_in_order(story: Story) -> None:
    cluster = story.cluster
    assert len(story.wanted) > 2_000
    assert cluster.topics.values(cluster.topic("growing-lines")) == story.wanted
    assert cluster.lines("copied") == story.wanted
    for name in ("at-rest", "put-away"):
        lines = cluster.topics.values(cluster.topic(name))
        assert lines == [b"first", b"while it rests"], name


def test_keys_stay_in_their_partition_and_records_are_alike(story: Story) -> None:
    cluster = story.cluster
    rows: dict[bytes, list[Stored]] = {}
    for row in cluster.topics.read(cluster.topic("shaped-lines")):
        rows.setdefault(row.key or b"", []).append(row)
    assert sorted(rows) == [b'{"line":"%s"}' % item for item in ITEMS]
    for key, found in rows.items():
        assert len(found) == len(story.shifts), key
        alike = {(row.partition, row.value, row.headers) for row in found}
        assert len(alike) == 1, alike
        assert found[0].headers == (("origin", b'"a file"'),)
    assert len({found[0].partition for found in rows.values()}) > 1


def test_offsets_are_stored_under_the_same_bytes_in_the_same_partition(story: Story) -> None:
    cluster = story.cluster
    places: dict[tuple[str, str], set[tuple[int, bytes]]] = {}
    for row in cluster.internal("offset"):
        key = row.key or b""
        connector, partition = json.loads(key)
        place = connector, json.dumps(partition, sort_keys=True)
        places.setdefault(place, set()).add((row.partition, key))
        assert row.value is not None
        assert re.fullmatch(rb'\{"position":\d+\}', row.value), row
    assert all(len(found) == 1 for found in places.values()), places
    named = ["at-rest", "born", "deleted", "deleted-later", "growing-lines", "put-away"]
    assert sorted(name for name, _ in places) == [*named, "shaped-lines", "stopped"]


def test_both_runtimes_leave_the_same_statuses_when_they_stop(story: Story) -> None:
    theirs, ours, theirs_again = (
        {key: _alike(value) for key, value in shift.after.statuses.items()}
        for shift in story.shifts
    )
    assert theirs_again == ours
    changed = re.compile(rb"born|deleted-later|put-away")  # what was ordered of penstock

    def unchanged(statuses: Mapping[Cell, bytes]) -> dict[Cell, bytes]:
        return {key: value for key, value in statuses.items() if not changed.search(key or b"")}

    assert unchanged(ours) == unchanged(theirs)


def test_running_connectors_are_reported_in_the_same_bytes(story: Story) -> None:
    reported = [
        {
            (row.partition, row.key, _alike(row.value))
            for row in shift.statuses
            if row.value is not None and b'"state":"UNASSIGNED"' not in row.value
        }
        for shift in story.shifts
    ]
    about = re.compile(rb"(growing|shaped)-lines|copied|broken")
    theirs, ours, theirs_again = (
        {row for row in rows if about.search(row[1] or b"") and b"status-topic" not in row[1]}
        for rows in reported
    )
    assert len(ours) == 9
    assert ours == theirs == theirs_again


def test_group_generations_continue(story: Story) -> None:
    """A lower one may not overwrite an UNASSIGNED or FAILED (kafka-connect.md §4.4)."""
    last = 0
    for shift in story.shifts:
        found = [
            json.loads(row.value)["generation"]
            for row in shift.statuses
            if row.value is not None and b"generation" in row.value
        ]
        assert min(found) > last
        last = max(found)


def _alike(value: bytes | None) -> bytes:
    """A status without what must differ: the group's generation, and a trace's text. With
    UNASSIGNED, Kafka Connect reports the version or not, depending on timing."""
    text = re.sub(rb'"generation":\d+', b'"generation":0', value or b"")
    text = re.sub(rb'"discoverTimestamp":\d+', b'"discoverTimestamp":0', text)
    text = re.sub(rb'("state":"UNASSIGNED".*"version":)"4.3.1"', rb"\1null", text)
    return re.sub(rb'"trace":"(?:[^"\\]|\\.)*"', b'"trace":"@"', text)


@pytest.mark.parametrize("at", BORDERS)
def test_a_session_key_of_the_other_one_stays_valid(story: Story, at: int) -> None:
    shift = story.shifts[at]
    assert shift.keys[0] == shift.keys[1]
    right, wrong = ((answer.status_code, answer.json()["message"]) for answer in shift.probes)
    refused = "Cannot submit non-empty set of task configs for stopped connector stopped"
    assert right == (400, refused)
    assert wrong == (403, "Internal request contained invalid signature.")


def test_deleted_connectors_stay_deleted(story: Story) -> None:
    over, back = story.shifts[1:]
    assert "deleted" not in {*over.opened, *over.closed, *back.opened, *back.closed}
    assert "deleted-later" in over.opened
    assert "deleted-later" not in {*over.closed, *back.opened, *back.closed}
    for shift in story.shifts:
        assert not [key for key in shift.after.statuses if (key or b"").endswith(b"-deleted")]


@pytest.fixture
def start(
    broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[tuple[str, Callable[[str], WorkerProcess]]]:
    """The group's id, and what starts a `reference` or `penstock` worker in it."""
    cluster = unique("together")
    with contextlib.ExitStack() as running:

        def start(kind: str) -> WorkerProcess:
            settings = {
                **worker_settings(broker.bootstrap, cluster),
                "scheduled.rebalance.max.delay.ms": "0",
            }
            worker = (
                reference_worker(tmp_path, settings, name=kind, options=SMALL)
                if kind == "reference"
                else WorkerProcess(tmp_path, settings, name=kind)
            )
            running.enter_context(worker)
            worker.await_rest(START_S, "/connectors")
            return worker

        yield cluster, start


class Together:
    """The connectors of a cluster of two workers, and their expected results."""

    def __init__(self, cluster: str, folder: Path, topics: Topics) -> None:
        self.names = [f"lines-{number}" for number in range(6)]
        self.cluster = cluster
        self.folder = folder
        self.topics = topics
        self.shared = topics.create(f"{cluster}-shared", partitions=4)
        self.target = folder / "shared-out.txt"
        self.sent: list[bytes] = []
        for name in self.names:
            topics.create(self.topic(name))

    def topic(self, name: str) -> str:
        return f"{self.cluster}-{name}"

    def source(self, name: str, **more: str) -> dict[str, str]:
        return source(self.folder / f"{name}.txt", self.topic(name), **more)

    def move(self, line: bytes) -> None:
        """Moves a line through everything; expects all lines so far, once each."""
        self.sent.append(line)
        for name in self.names:
            append(self.folder / f"{name}.txt", line)
        for partition in range(4):
            self.topics.append(self.shared, [b"%s %d" % (line, partition)], partition=partition)
        for name in self.names:
            wait_until(
                lambda n=name: len(self.topics.values(self.topic(n))) >= len(self.sent),
                START_S,
                f"{line!r} of {name}",
            )
            assert self.topics.values(self.topic(name)) == self.sent, name
        wanted = sorted(b"%s %d" % (line, part) for line in self.sent for part in range(4))
        wait_until(lambda: len(self.written()) >= len(wanted), START_S, f"{line!r} in the file")
        assert sorted(self.written()) == wanted

    def written(self) -> list[bytes]:
        return self.target.read_bytes().splitlines() if self.target.exists() else []

    def owners(self, asked: WorkerProcess, *, tasks: bool) -> set[str]:
        """Who runs the connectors, or their tasks, as one worker sees it."""
        found = [asked.status(name) for name in (*self.names, "shared")]
        parts = [each["tasks"] if tasks else [each["connector"]] for each in found]
        return {part["worker_id"] for some in parts for part in some}

    def await_running(self, workers: list[WorkerProcess]) -> None:
        """Waits until everything runs, spread over these workers, and all of them say so."""
        ids = {worker.id for worker in workers}
        for worker in workers:
            for name in self.names:
                worker.await_states(name, STARTED, START_S)
            worker.await_states("shared", ["RUNNING"] * 5, START_S)
            for tasks in (False, True):
                wait_until(
                    lambda w=worker, t=tasks: self.owners(w, tasks=t) == ids,
                    START_S,
                    f"{ids} to run {'tasks' if tasks else 'connectors'}, as {worker.id} sees it",
                )


def ordered(worker: WorkerProcess, method: str, path: str, body: object = None) -> None:
    """Sends a request, and retries while the group settles."""
    answers: list[httpx.Response] = []

    def done() -> bool:
        answers.append(worker.request(method, path, body))
        return answers[-1].status_code != 409

    wait_until(done, 90, f"{method} {path}")
    assert answers[-1].status_code < 400, answers[-1].text


def note_of(worker: WorkerProcess, connector: str) -> str | None:
    """The first task's setting `note`; None also while the group settles."""
    answer = worker.request("GET", f"/connectors/{connector}/tasks")
    tasks = answer.json() if answer.status_code == 200 else []
    return tasks[0]["config"].get("note") if tasks else None


@pytest.mark.parametrize("leader", ["reference", "penstock"])
def test_both_can_be_in_one_group_whoever_leads(
    leader: str, start: tuple[str, Callable[[str], WorkerProcess]], topics: Topics, tmp_path: Path
) -> None:
    cluster, run = start
    first = run(leader)
    second = run("penstock" if leader == "reference" else "reference")
    both = [first, second]
    work = Together(cluster, tmp_path, topics)
    for name, worker in zip(work.names, itertools.cycle(both), strict=False):
        ordered(worker, "POST", "/connectors", {"name": name, "config": work.source(name)})
    shared = {"name": "shared", "config": sink(work.target, work.shared, tasks=4)}
    ordered(second, "POST", "/connectors", shared)
    work.await_running(both)
    work.move(b"one")
    for worker in both:
        assert sorted(worker.request("GET", "/connectors").json()) == [*work.names, "shared"]

    # Each asks for what only the other can do: the leader, or the owner of the task.
    begin = topics.ends(f"{cluster}-config")
    for name, worker in zip(work.names, itertools.cycle(reversed(both)), strict=False):
        ordered(worker, "PUT", f"/connectors/{name}/config", work.source(name, note="changed"))
    for name in work.names:
        for worker in both:
            wait_until(
                lambda w=worker, n=name: note_of(w, n) == "changed",
                START_S,
                f"the new task of {name}",
            )
    work.await_running(both)
    rows = [row for row in topics.read(f"{cluster}-config") if row.offset >= begin[0]]
    keys = [(row.key or b"").decode() for row in rows]
    for name in work.names:
        about = [key for key in keys if name in key]
        assert about == [f"connector-{name}", f"task-{name}-0", f"commit-{name}"]
    for worker in both:
        for name in work.names:
            ordered(worker, "POST", f"/connectors/{name}/tasks/0/restart")
            ordered(worker, "POST", f"/connectors/{name}/restart")
    work.await_running(both)
    work.move(b"two")
    for worker, name in zip(both, work.names, strict=False):
        ordered(worker, "PUT", f"/connectors/{name}/pause")
        for each in both:
            each.await_states(name, ["PAUSED", "PAUSED"], START_S)
        ordered(worker, "PUT", f"/connectors/{name}/stop")
        for each in both:
            each.await_states(name, ["STOPPED"], START_S)
        ordered(worker, "PUT", f"/connectors/{name}/resume")
    work.await_running(both)

    # When one leaves, the other gets everything; on return, it gets a share.
    for leaving, staying in ((second, first), (first, second)):
        leaving.stop()
        work.await_running([staying])
        work.move(b"without " + leaving.id.encode())
        leaving.start().await_rest(START_S, "/connectors")
        work.await_running(both)
        work.move(b"with " + leaving.id.encode())
    for name, worker in zip(work.names, itertools.cycle(both), strict=False):
        ordered(worker, "DELETE", f"/connectors/{name}")
    for worker in both:
        wait_until(
            lambda w=worker: w.request("GET", "/connectors").json() == ["shared"], 60, "the end"
        )
