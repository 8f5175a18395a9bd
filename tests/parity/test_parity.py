"""The same requests to Kafka Connect 4.3.1 and to penstock: same answers, same bytes stored.

Run as a program, this writes what Kafka Connect stores to `tests/golden/`:
`python -m tests.parity.test_parity`.

Accepted differences are rows of `ACCEPTED`, with their reasons. A row that no request needs any
more fails `test_every_accepted_difference_is_still_there`.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics
from tests.places import ROOT, TESTS

from .runtimes import Runtime, ours, reference
from .script import SCRIPT, Ask, Reply

pytestmark = pytest.mark.slow(155)

Start = Callable[[str, Path], AbstractContextManager[Runtime]]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An intended difference: for which requests, what must still be equal, and why."""

    name: str
    reason: str
    applies: Callable[[Ask, Reply], bool]
    same: Callable[[Reply, Reply], bool]


def _same_shape(theirs: Reply, mine: Reply) -> bool:
    """Same status, type and error code; a text exists, but may differ."""
    return (
        (theirs.status, theirs.content_type) == (mine.status, mine.content_type)
        and theirs.json()["error_code"] == mine.json()["error_code"]
        and bool(mine.json()["message"])
    )


def _same_status(theirs: Reply, mine: Reply) -> bool:
    return theirs.status == mine.status


def _same_names(theirs: Reply, mine: Reply) -> bool:
    unreachable = {"sl/ash", "back\\slash", "per%cent?q#f;m=1", "..", "put/new"}
    return mine.status == 200 and set(theirs.json()) ^ set(mine.json()) <= unreachable


def _same_infos(theirs: Reply, mine: Reply) -> bool:
    """Equal except for documentation, others' converters and transforms, and definitions of client
    settings."""
    left, right = theirs.json(), mine.json()
    for info in left["configs"] + right["configs"]:
        name = info["value"]["name"]
        if ".override." in name:
            info["definition"] = None
        if info["definition"] is not None:
            del info["definition"]["documentation"]
    for theirs_info, my_info in zip(left["configs"], right["configs"], strict=False):
        offered, offers = theirs_info["value"], my_info["value"]
        if offered["name"].endswith(("converter", ".type")):
            offers["recommended_values"] = [
                name for name in offers["recommended_values"] if name.startswith("org.apache.")
            ]
    return _ordered(left) == _ordered(right)


_NO_FILE: Final = "Set 'file'."
_ERRORS: Final = re.compile(r"the following (\d+) error")


def _same_but_file(theirs: Reply, mine: Reply) -> bool:
    """Equal but for an extra error: that of `file`."""
    said = mine.json()
    if mine.status == theirs.status == 400:
        lines = said["message"].split("\n")
        left = "\n".join(line for line in lines if not line.endswith(_NO_FILE))
        left = _ERRORS.sub(lambda found: f"the following {int(found[1]) - 1} error", left)
        return bool(left == theirs.json()["message"])
    for info in said["configs"]:
        if info["value"]["name"] == "file":
            info["value"]["errors"] = [
                text for text in info["value"]["errors"] if not text.endswith(_NO_FILE)
            ]
    said["error_count"] -= 1
    return _same_infos(theirs, replace(mine, body=json.dumps(said)))


def _same_keys(theirs: Reply, mine: Reply) -> bool:
    """Equal but for documentation."""
    left, right = theirs.json(), mine.json()
    for key in left + right:
        del key["documentation"]
    return _ordered(left) == _ordered(right)


_UNREACHABLE: Final = re.compile("%2F|%5C|%25|%2E", re.IGNORECASE)

ACCEPTED: Final = (
    Accepted(
        "an unknown version of a connector",
        "Kafka Connect fails with a NullPointerException (500); penstock refuses it with the "
        "validation's message (400).",
        lambda ask, reply: reply.status == 500 and "VersionedPluginLoadingException" in reply.body,
        lambda theirs, mine: mine.status == 400 and "not found that matches the" in mine.body,
    ),
    Accepted(
        "text of a JSON library or of the JVM",
        "Jackson's messages and those of null pointers name Java classes and stream positions; "
        "the code, the type and the shape are equal.",
        lambda ask, reply: (
            reply.status == 500
            and any(text in reply.body for text in ("[Source: REDACTED", 'Cannot invoke \\"'))
        ),
        _same_shape,
    ),
    Accepted(
        "names that Jetty refuses in a path",
        "Jetty 12 refuses paths with an encoded '/', '\\', '%' or '..', so connectors that were "
        "created under such names are unreachable. In penstock they are not.",
        lambda ask, reply: reply.status == 400 and bool(_UNREACHABLE.search(ask.path)),
        lambda theirs, mine: mine.status in (200, 201, 204, 404),
    ),
    Accepted(
        "connectors that Kafka Connect did not delete",
        "Connectors that Jetty does not let us delete are still listed.",
        lambda ask, reply: ask.method == "GET" and ask.path == "/connectors",
        _same_names,
    ),
    Accepted(
        "Jetty's own error pages",
        "A request that never reaches the API is answered by Jetty in HTML, or without a body "
        "unless it is a GET or POST. Here it is the usual JSON object with the same code.",
        lambda ask, reply: (
            reply.status == 400
            and ((reply.content_type or "").startswith("text/html") or not reply.body)
        ),
        _same_status,
    ),
    Accepted(
        "a file connector without `file`",
        "Kafka Connect reads standard input or writes to standard output; penstock refuses it, "
        "which is one error more.",
        lambda ask, reply: (
            reply.status in (200, 400)
            and b"FileStream" in (ask.bytes or b"")
            and not re.search(rb'"file": (?!null)', ask.bytes or b"")
            and ask.method in ("POST", "PUT")
        ),
        _same_but_file,
    ),
    Accepted(
        "what a validation says about settings",
        "Documentation texts are our own; Confluent's converters are offered too; the "
        "definitions of Kafka's Java clients' settings (*.override.*) are not ours to list.",
        lambda ask, reply: reply.status == 200 and ask.path.endswith("/config/validate"),
        _same_infos,
    ),
    Accepted(
        "what a plugin says about its settings",
        "Documentation texts are our own.",
        lambda ask, reply: (
            reply.status == 200
            and ask.method == "GET"
            and ask.path.startswith("/connector-plugins/")
        ),
        _same_keys,
    ),
)

_WRAPPED: Final = "org.apache.kafka.connect.errors.ConnectException: Failed to find any class"
_CHANGED: Final = re.compile(r'"last_modified":\s*\d+')
_LOCATION: Final = re.compile(r"location='[^']*'")
_NOT_KAFKAS: Final = r"(?!org\.apache\.kafka\.)[\w.]+\."
_OURS_ALONE: Final = re.compile(
    rf"PluginDesc\{{klass=class {_NOT_KAFKAS}[^}}]*\}}, "  # in messages
    rf'|\{{"class":"{_NOT_KAFKAS}[^}}]*\}},'  # in lists
)
"""Connectors other than Kafka's own, as penstock lists them."""


def _ordered(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _normalised(reply: Reply) -> tuple[object, ...]:
    """What is compared; members of objects in their order."""
    body = reply.body
    if "Failed to find any class" in body:
        # Their message is wrapped from the second time on that a class is not found, and has plugin
        # paths.
        body = _LOCATION.sub("location='@'", body.replace(_WRAPPED, _WRAPPED.split(": ")[1]))
    body = _CHANGED.sub('"last_modified":0', _OURS_ALONE.sub("", body))
    is_json = body and reply.content_type == "application/json"
    shown = _ordered(json.loads(body)) if is_json else body
    return reply.status, reply.content_type, reply.location, reply.allow, shown


@dataclass(frozen=True, slots=True)
class Transcript:
    """Everything one runtime answered and stored."""

    replies: list[Reply]
    configs: list[tuple[str, str | None]]
    statuses: list[tuple[str, str | None]]
    offsets: list[tuple[str, str | None]]


def _play(runtime: Runtime, topics: Topics) -> Transcript:
    (runtime.folder / f"{runtime.name}-in").write_text("one\ntwo\nthree\n")
    replies = [runtime.ask(ask) for ask in SCRIPT]

    def stored(topic: str) -> list[tuple[str, str | None]]:
        rows = topics.read(f"{runtime.name}-{topic}")
        return [
            (
                runtime.placed((row.key or b"").decode()),
                None if row.value is None else runtime.placed(row.value.decode()),
            )
            for row in rows
        ]

    return Transcript(replies, stored("configs"), stored("status"), stored("offsets"))


@pytest.fixture(scope="module")
def both(
    broker: Broker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Transcript, Transcript]:
    """What both answered, side by side."""
    folder = tmp_path_factory.mktemp("parity")

    def play(start: Start) -> Transcript:
        with start(broker.bootstrap, folder) as runtime:
            return _play(runtime, topics)

    with ThreadPoolExecutor(2) as pool:
        theirs, mine = pool.map(play, (reference, ours))
    return theirs, mine


def _case(at: int, ask: Ask) -> ParameterSet:
    return pytest.param(at, id=f"{at:03d} {ask}"[:120])


CASES: Final = [_case(at, ask) for at, ask in enumerate(SCRIPT)]


@pytest.mark.parametrize("at", CASES)
def test_both_answer_the_same(both: tuple[Transcript, Transcript], at: int) -> None:
    theirs, mine = (transcript.replies[at] for transcript in both)
    if _normalised(theirs) == _normalised(mine):
        return
    for accepted in ACCEPTED:
        if accepted.applies(SCRIPT[at], theirs):
            assert accepted.same(theirs, mine), (accepted.name, theirs, mine)
            return
    assert _normalised(mine) == _normalised(theirs)


@pytest.mark.parametrize("accepted", ACCEPTED, ids=lambda accepted: accepted.name)
def test_every_accepted_difference_is_still_there(
    both: tuple[Transcript, Transcript], accepted: Accepted
) -> None:
    left, right = both
    assert any(
        accepted.applies(ask, theirs) and _normalised(theirs) != _normalised(mine)
        for ask, theirs, mine in zip(SCRIPT, left.replies, right.replies, strict=True)
    )


PAGE: Final = ROOT / "docs" / "compatibility.md"
_BEGIN: Final = "## Findings of the parity tests\n"


def _found(accepted: Sequence[Accepted]) -> str:
    """The page's part about these differences."""
    rows = [f"| {each.name} | {each.reason} |\n".replace("\\", "\\\\") for each in accepted]
    return (
        f"{_BEGIN}\n`tests/parity` sends {len(SCRIPT)} valid, invalid, unusual and concurrent "
        "requests to Kafka Connect 4.3.1 and to\npenstock, and compares statuses, headers, bodies "
        "including the order of their members, and the records in the three\ninternal topics. The "
        "differences and their reasons, as listed in the test:\n\n| What | Why |\n|---|---|\n"
        + "".join(rows)
    )


def test_the_page_tells_what_differs(both: tuple[Transcript, Transcript]) -> None:
    different = [
        next(each for each in ACCEPTED if each.applies(ask, theirs))
        for ask, theirs, mine in zip(SCRIPT, both[0].replies, both[1].replies, strict=True)
        if _normalised(theirs) != _normalised(mine)
    ]
    own, begin, _ = PAGE.read_text().partition(_BEGIN)
    assert begin
    expected = own + _found([each for each in ACCEPTED if each in different])
    if "PENSTOCK_WRITE_PAGES" in os.environ:
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected, "PENSTOCK_WRITE_PAGES=1 has this test write it anew"


def _about(name: str, rows: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    return [row for row in rows if re.search(rf"-{name}(-\d+)?$", row[0])]


@pytest.mark.parametrize("name", ["st-or-ed", "st-paused", "st-stopped", "st-sink"])
def test_both_store_the_same_configuration_records(
    both: tuple[Transcript, Transcript], name: str
) -> None:
    theirs, mine = (_about(name, transcript.configs) for transcript in both)
    assert mine == theirs


def test_both_store_the_same_source_offsets(both: tuple[Transcript, Transcript]) -> None:
    theirs, mine = (dict(transcript.offsets) for transcript in both)
    assert mine == theirs


_GENERATION: Final = re.compile(r'"generation":\d+')
_SEEN: Final = re.compile(r'"discoverTimestamp":\d+')


def _reported(rows: list[tuple[str, str | None]], *states: str) -> set[tuple[str, str | None]]:
    """The distinct records in these states, of the compared connectors."""
    return {
        (
            key,
            value and _SEEN.sub('"discoverTimestamp":0', _GENERATION.sub('"generation":0', value)),
        )
        for key, value in rows
        if "-st-" in key and (value is None or any(state in value for state in states))
    }


def test_both_store_the_same_status_records(both: tuple[Transcript, Transcript]) -> None:
    states = ("RUNNING", "PAUSED", "STOPPED", "discoverTimestamp")
    theirs, mine = (_reported(transcript.statuses, *states) for transcript in both)
    assert mine == theirs


def test_both_make_a_session_key_of_the_same_shape(both: tuple[Transcript, Transcript]) -> None:
    shapes: list[Any] = []
    for transcript in both:
        value = next(value for key, value in transcript.configs if key == "session-key")
        content = json.loads(value or "null")
        shapes.append((list(content), len(content["key"]), content["algorithm"]))
    assert shapes[0] == shapes[1]


def capture() -> None:
    """Writes the records of Kafka Connect's internal topics to `tests/golden/`."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Broker(folder / "broker") as broker, reference(broker.bootstrap, folder) as runtime:
            topics = Topics(broker.bootstrap)
            transcript = _play(runtime, topics)
        for topic, rows in (
            ("configs", transcript.configs),
            ("status", transcript.statuses),
            ("offsets", transcript.offsets),
        ):
            lines = [json.dumps({"key": key, "value": value}) + "\n" for key, value in rows]
            (TESTS / "golden" / f"{topic}.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    capture()
