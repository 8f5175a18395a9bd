"""What each command requests, and what it prints of states, offsets, log levels and traces.

Bodies are those of kafka-connect.md §1.5.
"""

from __future__ import annotations

import json

import httpx
import pytest

from penstock.rest.routes import ROUTES

from .answers import INFO, PAUSED, RUNNING, SINK, STATUS, not_found
from .workers import FakeWorkers, Penstock

TRACED = {"steps": [{"step": "READ", "topic": "t", "value": "v"}], "outcome": "written"}
FAILED = {
    **RUNNING,
    "state": "FAILED",
    "trace": "org.apache.kafka.connect.errors.ConnectException: no such disk"
    "\n\tat a.B.c(B.java:1)\n",
}
BROKEN = {**STATUS, "tasks": [{"id": 0, **RUNNING}, {"id": 1, **FAILED}]}
ALL = {"snk": {"status": STATUS}}
OFFSETS = {
    "offsets": [
        {"partition": {"kafka_topic": "t", "kafka_partition": n}, "offset": {"kafka_offset": 5 + n}}
        for n in (10, 2)
    ]
}
ALTERED = {"message": "The offsets for this connector have been altered successfully"}

REQUESTS = (
    # command, method, path, body sent, answer
    ("unload snk", "DELETE", "/connectors/snk", None, (204, None)),
    ("delete snk", "DELETE", "/connectors/snk", None, (204, None)),
    ("pause snk", "PUT", "/connectors/snk/pause", None, (202, None)),
    ("resume snk", "PUT", "/connectors/snk/resume", None, (202, None)),
    ("stop snk", "PUT", "/connectors/snk/stop", None, (204, None)),
    ("restart snk", "POST", "/connectors/snk/restart", None, (204, None)),
    ("restart snk --task 3", "POST", "/connectors/snk/tasks/3/restart", None, (204, None)),
    (
        "restart snk --include-tasks --only-failed",
        "POST",
        "/connectors/snk/restart?includeTasks=true&onlyFailed=true",
        None,
        (202, STATUS),
    ),
    (
        "restart snk --only-failed",
        "POST",
        "/connectors/snk/restart?onlyFailed=true",
        None,
        (202, STATUS),
    ),
    ("status", "GET", "/connectors?expand=status", None, (200, ALL)),
    ("status connectors", "GET", "/connectors?expand=status", None, (200, ALL)),
    ("status snk", "GET", "/connectors/snk/status", None, (200, STATUS)),
    ("list connectors", "GET", "/connectors?expand=info", None, (200, {"snk": {"info": INFO}})),
    ("list connectors --names", "GET", "/connectors", None, (200, ["snk"])),
    ("list connectors --json", "GET", "/connectors", None, (200, ["snk"])),
    ("list plugins", "GET", "/connector-plugins", None, (200, [])),
    ("list plugins --all", "GET", "/connector-plugins?connectorsOnly=false", None, (200, [])),
    ("config snk", "GET", "/connectors/snk/config", None, (200, SINK)),
    (
        "trace snk -n 2 -t 1 --timeout 3",
        "GET",
        "/connectors/snk/trace?task=1&records=2&timeout=3000",
        None,
        (200, {"connector": "snk", "task": 1, "records": [TRACED]}),
    ),
    ("topics snk", "GET", "/connectors/snk/topics", None, (200, {"snk": {"topics": ["t"]}})),
    ("topics snk --reset", "PUT", "/connectors/snk/topics/reset", None, (202, None)),
    ("offsets get snk", "GET", "/connectors/snk/offsets", None, (200, OFFSETS)),
    ("offsets reset snk", "DELETE", "/connectors/snk/offsets", None, (200, ALTERED)),
    ("logs level", "GET", "/admin/loggers", None, (200, {})),
    ("logs level a.b", "GET", "/admin/loggers/a.b", None, (200, {"level": "INFO"})),
    ("logs level a.b debug", "PUT", "/admin/loggers/a.b", {"level": "DEBUG"}, (200, ["a.b"])),
    (
        "logs level a.b DEBUG --cluster-wide",
        "PUT",
        "/admin/loggers/a.b?scope=cluster",
        {"level": "DEBUG"},
        (204, None),
    ),
    ("health", "GET", "/health", None, (200, {"status": "healthy", "message": "ready"})),
    (
        "patch snk --set a=1 --unset b",
        "PATCH",
        "/connectors/snk/config",
        {"a": "1", "b": None},
        (200, INFO),
    ),
)


@pytest.mark.parametrize(
    ("command", "method", "path", "body", "answer"), REQUESTS, ids=[row[0] for row in REQUESTS]
)
def test_a_command_is_one_request(
    penstock: Penstock,
    workers: FakeWorkers,
    command: str,
    method: str,
    path: str,
    body: object,
    answer: tuple[int, object],
) -> None:
    workers.on("GET", "/connectors/snk/config", (200, SINK))
    workers.on(method, path, answer)
    result = penstock(*command.split())
    assert result.code == 0, result.err
    assert (method, path, body) in workers.asked
    assert [method for method, _, _ in workers.asked if method != "GET"] in ([], [method])


@pytest.mark.parametrize(
    ("command", "method", "path", "body", "answer"),
    [row for row in REQUESTS if "--names" not in row[0] and "--json" not in row[0]],
)
def test_json_is_just_what_the_worker_answered(
    penstock: Penstock,
    workers: FakeWorkers,
    command: str,
    method: str,
    path: str,
    body: object,
    answer: tuple[int, object],
) -> None:
    status, document = answer
    odd = b"" if document is None else json.dumps(document, indent=3).encode()
    path = "/connectors" if command == "list connectors" else path
    workers.on(method, path, (status, odd))
    before, after = penstock("--json", *command.split()), penstock(*command.split(), "--json")
    assert before.out == after.out == (odd.decode() + "\n" if odd else "")


@pytest.mark.parametrize("name", ["a/b", "ü x", "..", "a?b#c;d", "%2F", "-v"])
def test_a_name_is_one_segment_of_the_path_whatever_it_holds(
    penstock: Penstock, workers: FakeWorkers, name: str
) -> None:
    penstock("pause", "--", name)
    [request] = workers.requests
    path = request.url.raw_path.decode()
    [route] = [row for row in ROUTES if row.path == "/connectors/{connector}/pause"]
    assert route.match(path.strip("/").split("/")) == {"connector": name}


def test_a_status_is_a_table_with_the_first_lines_of_traces(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors/snk/status", (200, BROKEN))
    result = penstock("status", "snk")
    assert result.code == 4
    assert result.lines == [
        "CONNECTOR  TYPE  TASK  STATE    WORKER         REASON",
        "snk        sink  -     RUNNING  10.0.0.1:8083",
        "snk        sink  0     RUNNING  10.0.0.1:8083",
        "snk        sink  1     FAILED   10.0.0.1:8083  "
        "org.apache.kafka.connect.errors.ConnectException: no such disk",
        "",
        "TO                                            RUN",
        "see the causes and the stack                  penstock status snk --trace",
        "restart what failed, once the cause is fixed  "
        "penstock restart snk --include-tasks --only-failed",
    ]
    assert "\tat a.B.c(B.java:1)" in penstock("status", "snk", "--trace").out


def test_a_record_that_failed_may_be_skipped_or_kept(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    trace = "ToleranceExceeded: Tolerance exceeded in error handler: VALUE_CONVERTER failed"
    failed = {"id": 0, **RUNNING, "state": "FAILED", "trace": trace}
    workers.on("GET", "/connectors/snk/status", (200, {**STATUS, "tasks": [failed]}))
    lines = penstock("status", "snk").lines
    skip = "penstock patch snk --set errors.tolerance=all"
    assert f"skip such records                             {skip}" in lines
    assert (
        "skip them, and keep them in a topic           "
        f"{skip} --set errors.deadletterqueue.topic.name=TOPIC"
    ) in lines


def test_of_all_connectors_one_that_failed_is_enough(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    both = {"snk": {"status": BROKEN}, "a": {"status": {**STATUS, "name": "a"}}}
    workers.on("GET", "/connectors?expand=status", (200, both))
    result = penstock("status")
    assert result.code == 4
    assert [line.split()[0] for line in result.lines] == [
        "CONNECTOR",
        "a",
        "a",
        "snk",
        "snk",
        "snk",
    ]


def test_an_unknown_connector_is_told_from_one_without_a_status(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors/snk/status", not_found("No status found for connector snk"))
    workers.on("GET", "/connectors/snk", not_found("Connector snk not found"), (200, INFO))
    unknown, young = penstock("status", "snk"), penstock("status", "snk")
    assert (unknown.code, young.code) == (5, 5)
    assert "Connector snk not found (HTTP 404)" in unknown.err
    assert "no status yet" in young.err


def test_waiting_ends_when_all_runs(penstock: Penstock, workers: FakeWorkers) -> None:
    young = {**STATUS, "tasks": []}
    starting = {**STATUS, "tasks": [{"id": 0, **RUNNING, "state": "UNASSIGNED"}]}
    workers.on(
        "GET",
        "/connectors/snk/status",
        not_found("No status found for connector snk"),
        (500, {"error_code": 500, "message": "Request timed out"}),
        (200, young),
        (200, starting),
        (200, STATUS),
    )
    workers.on("GET", "/connectors/snk", (200, INFO))
    result = penstock("wait", "snk")
    assert result.code == 0
    assert result.lines[-1].split() == ["snk", "0", "RUNNING", "10.0.0.1:8083"]
    assert len(workers.answers["GET", "/connectors/snk/status"]) == 1


def test_waiting_has_an_end_and_says_what_was_missing(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors/snk/status", (200, {**STATUS, "tasks": []}))
    result = penstock("wait", "snk", "--timeout", "7")
    assert result.code == 7
    assert "Timed out waiting for 'snk' to be RUNNING: it has no tasks yet." in result.err


def test_waiting_ends_early_when_something_has_failed(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors/snk/status", (200, BROKEN), (200, STATUS))
    result = penstock("wait", "snk")
    assert result.code == 4
    assert "task 1: org.apache.kafka.connect.errors.ConnectException: no such disk" in result.err
    workers.on("GET", "/connectors/snk/status", (200, BROKEN), (200, STATUS))
    assert penstock("wait", "snk", "--ignore-failed").code == 0


def test_waiting_for_what_is_not_configured_ends_soon(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors/snk/status", not_found("No status found for connector snk"))
    workers.on("GET", "/connectors/snk", not_found("Connector snk not found"))
    result = penstock("wait", "snk")
    assert result.code == 5
    assert len(workers.asked) < 40


def test_waiting_outlasts_a_worker_that_starts(penstock: Penstock, workers: FakeWorkers) -> None:
    refused = httpx.ConnectError("[Errno 111] Connection refused")
    workers.on("GET", "/connectors/snk/status", refused, refused, (200, STATUS))
    assert penstock("wait", "snk").code == 0
    workers.on("GET", "/connectors/snk/status", refused)
    assert penstock("wait", "snk", "--timeout", "3").code == 6


def test_a_worker_that_hangs_does_not_hold_up_the_end(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors/snk/status", (200, {**STATUS, "tasks": []}))
    penstock("wait", "snk", "--timeout", "7")
    given = [request.extensions["timeout"]["read"] for request in workers.requests]
    assert given[0] <= 7
    assert given[-1] == 2
    penstock("status", "snk")
    assert workers.requests[-1].extensions["timeout"]["read"] == 95


def test_after_a_change_a_state_has_to_last(penstock: Penstock, workers: FakeWorkers) -> None:
    # kafka-connect.md §6.6: the first status may be the one from before the change.
    workers.on("PUT", "/connectors/snk/pause", (202, None))
    workers.on("PUT", "/connectors/snk/resume", (202, None))
    paused = {**STATUS, "connector": PAUSED, "tasks": [{"id": 0, **PAUSED}]}
    workers.on(
        "GET", "/connectors/snk/status", (200, STATUS), (200, STATUS), (200, paused), (200, STATUS)
    )
    result = penstock("resume", "snk", "--wait")
    assert result.code == 0
    assert len(workers.answers["GET", "/connectors/snk/status"]) == 1
    workers.on("GET", "/connectors/snk/status", (200, BROKEN), (200, BROKEN), (200, STATUS))
    assert penstock("resume", "snk", "--wait").code == 0
    workers.on("GET", "/connectors/snk/status", (200, BROKEN))
    assert penstock("resume", "snk", "--wait").code == 4


def test_offsets_of_a_sink_are_a_table(penstock: Penstock, workers: FakeWorkers) -> None:
    workers.on("GET", "/connectors/snk/offsets", (200, OFFSETS))
    assert penstock("offsets", "get", "snk").lines == [
        "TOPIC  PARTITION  OFFSET",
        "t      2          7",
        "t      10         15",
    ]


def test_offsets_of_a_source_are_shown_as_they_are(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    stored = {"offsets": [{"partition": {"filename": "/ü.txt"}, "offset": {"position": 30}}]}
    workers.on("GET", "/connectors/src/offsets", (200, stored))
    assert penstock("offsets", "get", "src").lines == [
        "PARTITION               OFFSET",
        '{"filename": "/ü.txt"}  {"position": 30}',
    ]


@pytest.mark.parametrize("wrap", [lambda body: body, lambda body: body["offsets"]])
def test_offsets_that_were_got_can_be_given(
    penstock: Penstock, workers: FakeWorkers, wrap: object
) -> None:
    assert callable(wrap)
    workers.on("PATCH", "/connectors/snk/offsets", (200, ALTERED))
    result = penstock("offsets", "alter", "snk", "-", stdin=json.dumps(wrap(OFFSETS)))
    assert (result.code, result.out) == (0, ALTERED["message"] + "\n")
    assert workers.asked == [("PATCH", "/connectors/snk/offsets", OFFSETS)]


def test_levels_are_shown_with_when_they_changed(penstock: Penstock, workers: FakeWorkers) -> None:
    levels = {
        "a.b": {"level": "DEBUG", "last_modified": 1_700_000_000_000},
        "root": {"level": "INFO", "last_modified": None},
    }
    workers.on("GET", "/admin/loggers", (200, levels))
    assert penstock("logs", "level").lines == [
        "LOGGER  LEVEL  CHANGED",
        "a.b     DEBUG  2023-11-14 22:13:20+00:00",
        "root    INFO",
    ]


@pytest.mark.parametrize("args", [("a", "LOUD"), ("--cluster-wide",), ("a", "--cluster-wide")])
def test_a_level_that_makes_no_sense_is_refused_here(
    penstock: Penstock, workers: FakeWorkers, args: tuple[str, ...]
) -> None:
    assert penstock("logs", "level", *args).code == 2
    assert workers.asked == []


@pytest.mark.parametrize(
    ("status", "word", "code"),
    [(200, "healthy", 0), (503, "starting", 4), (500, "unhealthy", 4)],
)
def test_health_is_a_word_and_an_exit_code(
    penstock: Penstock, workers: FakeWorkers, status: int, word: str, code: int
) -> None:
    workers.on("GET", "/health", (status, {"status": word, "message": "As it is."}))
    result = penstock("health")
    assert result.code == code
    assert result.lines[1].split(maxsplit=2) == ["http://localhost:8083", word, "As it is."]


def test_every_worker_is_asked_for_its_health(penstock: Penstock, workers: FakeWorkers) -> None:
    workers.on("GET", "/health", (200, {"status": "healthy", "message": "m"}))
    workers.down["w2"] = httpx.ConnectError("[Errno 111] Connection refused")
    result = penstock("health", "--url", "w1:1,w2:2,w3:3")
    assert result.code == 6
    assert [line.split()[1] for line in result.lines[1:]] == ["healthy", "no", "healthy"]
    assert penstock("health", "--url", "w1:1,w2:2", "--wait", "--timeout", "5").code == 7


def test_health_can_be_waited_for(penstock: Penstock, workers: FakeWorkers) -> None:
    workers.on(
        "GET",
        "/health",
        (503, {"status": "starting", "message": "m"}),
        (503, {"status": "starting", "message": "m"}),
        (200, {"status": "healthy", "message": "m"}),
    )
    assert penstock("health", "--wait").code == 0
    assert len(workers.asked) == 3


def test_several_connectors_are_asked_one_by_one(penstock: Penstock, workers: FakeWorkers) -> None:
    for name in ("a", "b"):
        workers.on("PUT", f"/connectors/{name}/stop", (204, None))
    out = penstock("stop", "a", "b").out
    assert out == "a: target state is STOPPED\nb: target state is STOPPED\n"


def test_nothing_that_a_terminal_would_obey_is_printed(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    evil = {**STATUS, "connector": {**FAILED, "trace": "\x1b[2J\x9b31m[red]:smile:\rboo"}}
    workers.on("GET", "/connectors/snk/status", (200, evil))
    result = penstock("status", "snk", "--trace")
    assert not {"\x1b", "\x9b", "\r"} & set(result.out)
    assert r"\x1b[2J\x9b31m[red]:smile:\rboo" in result.out


def test_a_trace_shows_what_each_step_changed(workers: FakeWorkers, penstock: Penstock) -> None:
    read = {"step": "READ", "topic": "t", "partition": 0, "offset": 7, "key": None, "value": "v"}
    convert = {**read, "step": "VALUE_CONVERTER", "class": "a.b.TextConverter"}
    change = {**convert, "step": "TRANSFORMATION", "alias": "wrap", "class": "a.Wrap$Value"}
    record = {
        "steps": [read, convert, {**change, "value": {"x": 1}}],
        "outcome": "failed",
        "by": {"step": "TASK_PUT", "class": "a.Sink"},
        "error": "DataError: no",
    }
    path = "/connectors/snk/trace?task=0&records=1&timeout=10000"
    workers.on("GET", path, (200, {"connector": "snk", "task": 0, "records": [record]}))
    result = penstock("trace", "snk")
    assert result.code == 0
    assert result.out.splitlines() == [
        "1. t-0@7",
        "  READ",
        "    topic        t",
        "    partition    0",
        "    value        v",
        "  VALUE_CONVERTER (TextConverter)",
        "    (no change)",
        "  TRANSFORMATION 'wrap' (Wrap$Value)",
        '    value        {"x": 1}',
        "  → failed by TASK_PUT (Sink)",
        "    DataError: no",
    ]
    workers.on("GET", path, (200, {"connector": "snk", "task": 0, "records": []}))
    nothing = penstock("trace", "snk")
    assert nothing.code == 1
    assert "has read no record within 10 s" in nothing.err
