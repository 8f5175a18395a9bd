"""Bulk requests: what is retried, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from penstock.connectors.search.client.errors import Answered, Unreachable
from penstock.connectors.search.write.actions import Action
from penstock.connectors.search.write.bulk import Sender, cut

BUSY = {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "full"}}
BAD = {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": "no"}}
GOOD = {"status": 200}


def action(row: int, id: str | None = None, *, is_ordered: bool = False) -> Action:
    line = orjson.dumps(row) + b"\n"
    return Action(row, id or str(row), line, is_ordered=is_ordered, is_versioned=not is_ordered)


class Cluster:
    """Answers by the row of each action, one after the other."""

    def __init__(self, answers: dict[int, list[Any]]) -> None:
        self.answers = answers
        self.requests: list[list[int]] = []

    def bulk(self, body: bytes) -> Any:
        rows = [int(line) for line in body.split()]
        self.requests.append(rows)
        items = []
        for row in rows:
            left = self.answers.get(row)
            answer = left.pop(0) if left else GOOD
            if isinstance(answer, Exception):
                raise answer
            items.append({"index": answer})
        return {"errors": any("error" in each["index"] for each in items), "items": items}


def send(cluster: Cluster, actions: Sequence[Action], retries: int = 3) -> list[int]:
    sender = Sender(cluster, retries, 0, threading.Event())  # type: ignore[arg-type]
    return [refusal.action.row for refusal in sender.send(actions)]


def test_only_busy_items_are_sent_again() -> None:
    cluster = Cluster({1: [BUSY, BUSY], 2: [BAD]})
    assert send(cluster, [action(row) for row in range(4)]) == [2]
    assert cluster.requests == [[0, 1, 2, 3], [1], [1]]


def test_later_updates_of_a_document_are_sent_again_too() -> None:
    cluster = Cluster({0: [BUSY]})
    updates = [action(row, id, is_ordered=True) for row, id in enumerate(["a", "b", "a"])]
    assert send(cluster, updates) == []
    assert cluster.requests == [[0, 1, 2], [0, 2]]


def test_a_cluster_that_stays_busy_is_unavailable() -> None:
    cluster = Cluster({0: [BUSY] * 9})
    with pytest.raises(Unreachable) as raised:
        send(cluster, [action(0)], retries=2)
    assert raised.value.retriable
    assert len(cluster.requests) == 3


def test_a_request_that_is_refused_is_divided() -> None:
    cluster = Cluster({2: [Answered(400, "action_request_validation_exception", "id")] * 9})
    assert send(cluster, [action(row) for row in range(5)]) == [2]


def test_refused_credentials_are_no_fault_of_a_record() -> None:
    cluster = Cluster({0: [Answered(401, "security_exception", "who?")]})
    with pytest.raises(Answered):
        send(cluster, [action(0), action(1)])


@pytest.mark.parametrize(
    ("most", "most_bytes", "sizes"),
    [(2, -1, [2, 2, 1]), (9, -1, [5]), (9, 4, [2, 2, 1]), (9, 0, [1, 1, 1, 1, 1])],
)
def test_requests_are_limited(most: int, most_bytes: int, sizes: list[int]) -> None:
    actions = [action(row) for row in range(5)]
    cuts = cut(actions, most, most_bytes)
    assert [len(each) for each in cuts] == sizes
    assert [each.row for part in cuts for each in part] == list(range(5))


def test_pauses_double_and_are_not_all_alike() -> None:
    pauses: list[float] = []

    class Stopped(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0)
            return False

    cluster: Any = Cluster({0: [BUSY] * 4})
    assert Sender(cluster, 5, 100, Stopped()).send([action(0)]) == []
    assert len(set(pauses)) == 4
    for attempt, pause in enumerate(pauses):
        assert 0.05 * 2**attempt <= pause <= 0.1 * 2**attempt
