"""What dead letters say of their failures."""

from __future__ import annotations

from dataclasses import replace

from penstock.cli.records.letters import letter, root_cause
from penstock.cli.records.lines import ShownRecord, json_line, text_lines
from penstock.cli.records.sides import Cell
from penstock.errors import DataError
from penstock.flow.stage.failures import Letter, context_headers
from penstock.flow.stage.pipeline import Failure, Stage
from penstock.ids import TaskId


def headers() -> list[tuple[str, bytes | None]]:
    """The headers that our tasks write."""
    try:
        try:
            raise ValueError("Expecting value: line 1")
        except ValueError as cause:
            raise DataError("Converting byte[] failed") from cause
    except DataError as error:
        failure = Failure(0, Stage.VALUE_CONVERTER, "org.example.Converter", error)
    original = Letter("orders", 2, 41, None, None, b"{", [], "")
    return [("source", b"web"), *context_headers(TaskId("sink", 3), failure, original)]


def test_a_record_without_such_headers_is_no_dead_letter() -> None:
    assert letter([("source", b"web")]) is None
    assert letter([]) is None


def test_people_read_where_it_failed_and_why() -> None:
    found = letter(headers())
    assert found is not None
    reported = found.lines()
    assert reported[:3] == [
        "record: orders-2@41",
        "connector: sink, task 3",
        "failed in: VALUE_CONVERTER, org.example.Converter",
    ]
    assert reported[3].startswith("because: ")
    assert "Converting byte[] failed" in reported[3]
    assert "Expecting value: line 1" in " ".join(reported[3:])  # the cause, on any line
    assert "Traceback" not in "\n".join(reported)
    assert len(found.lines(trace=True)) > len(reported)


def test_programs_read_the_same() -> None:
    found = letter(headers())
    assert found is not None
    document = found.document()
    assert document["partition"] == 2
    assert document["offset"] == 41
    assert document["stage"] == "VALUE_CONVERTER"
    shown = ShownRecord("dlq", 0, 0, None, Cell(None), Cell("{"), (), found)
    assert b'"failure":{"connector":"sink","task":3' in json_line(shown)
    assert "  record: orders-2@41" in text_lines(shown, headers=False, trace=False)
    own = [("source", Cell("web")), ("__connect.errors.stage", Cell("VALUE_CONVERTER"))]
    lines_of = text_lines(replace(shown, headers=own), headers=True, trace=False)
    assert [line for line in lines_of if "header" in line] == ["  header source: web"]


def test_of_the_jvms_traces_the_last_cause_counts() -> None:
    trace = "a.B: x\n\tat q\nCaused by: c.D: y\n\tat r\nCaused by: e.F: z\n\tat s\n"
    assert root_cause(trace) == "e.F: z"
    assert root_cause("a.B: x\n\tat q") == ""


def test_a_cause_that_repeats_the_message_is_not_shown() -> None:
    found = letter(
        [
            ("__connect.errors.exception.message", b"failed: z"),
            ("__connect.errors.exception.stacktrace", b"a.B: failed: z\nCaused by: e.F: z\n"),
        ]
    )
    assert found is not None
    assert found.lines() == ["because: failed: z"]
