"""The events of a slot's JVM, from JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import penstock.flow.spark
from penstock.flow.stage import events
from penstock.flow.stage.events import (
    Assigned,
    Closed,
    CommitDone,
    Lost,
    Position,
    ReaderStarted,
    Revoked,
    Sought,
)
from penstock.ids import TopicPartition

AT = TopicPartition("orders", 1)
OTHER = TopicPartition("orders", 2)

EVENTS: list[tuple[dict[str, Any], object]] = [
    (
        {"event": "hello", "task": -1, "host": "127.0.0.1", "port": 7, "token": "t"},
        ReaderStarted("127.0.0.1", 7, "t"),
    ),
    (
        {"event": "assigned", "partitions": [[*AT, 3, 40]], "committed": [[*AT, 40, "m"]]},
        Assigned({AT: Position(3, 40)}, {AT: (40, "m")}),
    ),
    (
        {"event": "assigned", "partitions": [[*AT, 3, 0]], "committed": []},
        Assigned({AT: Position(3, 0)}),
    ),
    ({"event": "revoked", "partitions": [[*AT], [*OTHER]]}, Revoked(frozenset({AT, OTHER}))),
    ({"event": "lost", "partitions": [[*AT]]}, Lost(frozenset({AT}))),
    (
        {"event": "sought", "id": 5, "partitions": [[*AT, 4, 9]]},
        Sought(5, {AT: Position(4, 9)}),
    ),
    ({"event": "committed", "id": 6}, CommitDone(6, None)),
    ({"event": "committed", "id": 6, "error": "no"}, CommitDone(6, "no")),
    ({"event": "closed", "member": None, "trace": None}, Closed(None, None)),
    ({"event": "closed", "member": "m-1", "trace": "at"}, Closed("m-1", "at")),
]


@pytest.mark.parametrize(("content", "event"), EVENTS, ids=lambda each: str(each)[:40])
def test_an_event_is_read(content: dict[str, Any], event: object) -> None:
    assert events.decode(content) == event


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown event: evicted"):
        events.decode({"event": "evicted", "task": 1})


def test_every_event_that_java_sends_is_known() -> None:
    (folder,) = penstock.flow.spark.__path__
    sources = " ".join(path.read_text() for path in Path(folder).glob("*.java"))
    sent = set(re.findall(r'(?:event|forget)\("(\w+)"', sources))
    assert sent == {content["event"] for content, _ in EVENTS}
