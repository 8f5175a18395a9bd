"""How far shards are read, and requests to a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from penstock.api import PenstockError
from penstock.connectors.search.client.errors import Answered, Unreachable
from penstock.connectors.search.read.checkpoints import Checkpoints
from penstock.connectors.search.read.pages import ShardPages
from penstock.connectors.search.read.plan import SEQ_NO, Format, ReadPlan
from penstock.connectors.search.read.points import Points
from penstock.connectors.search.read.positions import (
    Position,
    offset_of,
    position_of,
    query_of,
)
from penstock.connectors.search.read.shards import Shard, topic_of

SHARD = Shard("orders", 1, "u1")
OPENSEARCH = {"version": {"distribution": "opensearch", "number": "2.19.3"}}


def plan_of(field: str = SEQ_NO, **changes: Any) -> ReadPlan:
    whole: dict[str, Any] = {
        "indices": "orders",
        "topic": "${index}",
        "field": field,
        "query": None,
        "source": (),
        "format": Format.MAP,
        "poll_ms": 100,
        "delay_ms": 0,
        "refreshes": True,
        "batch": 1_000,
        "in_flight": 1,
        "keep_alive_ms": 60_000,
    }
    return ReadPlan(**{**whole, **changes})


class Cluster:
    """Answers by method and path; an exception is raised."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []
        self.bodies: list[Any] = []

    def request(self, method: str, path: str, body: object = None, *, params: object = None) -> Any:
        self.asked.append(f"{method} {path}")
        self.bodies.append(body)
        answer = self.answers[self.asked[-1]]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def checkpoint(number: int) -> Any:
    copies = [
        {"routing": {"primary": False}},
        {"routing": {"primary": True}, "seq_no": {"global_checkpoint": number}},
    ]
    return {"indices": {"orders": {"shards": {"1": copies}}}}


def hit(number: int) -> dict[str, Any]:
    return {"_id": str(number), "_source": {}, "sort": [number]}


@pytest.mark.parametrize("field", [SEQ_NO, "at"])
def test_offsets_are_positions(field: str) -> None:
    plan = plan_of(field)
    position = Position(None if field == SEQ_NO else 1.5, 7)
    offset = offset_of(plan, SHARD, position)
    assert position_of(plan, SHARD, offset) == position
    assert position_of(plan, Shard("orders", 1, "anew"), offset) is None
    assert position_of(plan_of("another"), SHARD, offset) is None


def test_a_query_asks_for_what_follows() -> None:
    def filters(plan: ReadPlan, *rest: Any) -> Any:
        return query_of(plan, *rest)["query"]["bool"]["filter"]

    assert filters(plan_of(), None, None, None) == []
    assert filters(plan_of(), None, Position(None, 7), 9) == [
        {"range": {SEQ_NO: {"gt": 7, "lte": 9}}}
    ]
    assert filters(plan_of("at"), "date_nanos", Position(5_000_001, 7), 9) == [
        {"range": {"at": {"gte": 5, "lte": 9, "format": "epoch_millis"}}}
    ]
    # A rounded bound might skip documents.
    assert filters(plan_of("at"), "half_float", Position(0.1, 7), None) == [
        {"exists": {"field": "at"}}
    ]
    assert query_of(plan_of("at"), "long", Position(3, 7), None)["search_after"] == [3, 7]
    assert filters(plan_of(query={"term": {"a": 1}}), None, None, None) == [{"term": {"a": 1}}]


@pytest.mark.parametrize(
    ("template", "index", "topic"),
    [
        ("all", "orders", "all"),
        ("${index}", "bestellungen-é+1", "bestellungen-__1"),
        ("x.${index}", ".ds-logs-app-2026.01.31-000012", "x.logs-app"),
        ("x.${index}", ".ds-logs-app-000012", "x.logs-app"),
    ],
)
def test_topics_are_named_after_indices(template: str, index: str, topic: str) -> None:
    assert topic_of(template, index) == topic


@pytest.mark.parametrize(
    "answers",
    [
        {"GET /": Answered(403, "security_exception", "no")},
        {"GET /": {"version": {"distribution": "opensearch", "number": "2.3.0"}}},
        {"GET /": {"version": {"number": "7.9.3"}}},
        {"GET /": OPENSEARCH, "POST /orders/_search/point_in_time": Answered(403, "no", "no")},
        {"GET /": {"version": {"number": "7.10.0"}}, "POST /orders/_pit": Answered(405, "n", "n")},
    ],
)
def test_clusters_without_points_in_time(answers: Mapping[str, Any]) -> None:
    cluster: Any = Cluster(answers)
    points = Points(cluster, 60_000)
    assert points.open(SHARD) is None
    asked = len(cluster.asked)
    assert points.open(SHARD) is None
    assert len(cluster.asked) == asked, "it asks again"


def test_an_index_that_is_gone_is_no_cluster_without_points_in_time() -> None:
    gone = Answered(404, "index_not_found_exception", "gone")
    cluster: Any = Cluster(
        {"GET /": OPENSEARCH, "POST /orders/_search/point_in_time": [gone, {"pit_id": "p"}]}
    )
    points = Points(cluster, 60_000)
    with pytest.raises(Answered):
        points.open(SHARD)
    assert points.open(SHARD) == "p"


def test_checkpoints_are_asked_for_once_a_round_and_refreshed_when_there_is_more() -> None:
    cluster: Any = Cluster(
        {
            "GET /orders/_stats": [checkpoint(5), checkpoint(5), checkpoint(8)],
            "POST /orders/_refresh": {},
        }
    )
    checkpoints = Checkpoints(cluster, refreshes=True)
    assert [checkpoints.of(SHARD, 0, 10), checkpoints.of(SHARD, 5, 20)] == [5, 5]
    assert cluster.asked == ["GET /orders/_stats", "POST /orders/_refresh"]
    assert checkpoints.of(SHARD, 20, 30) == 5
    assert checkpoints.of(SHARD, 40, 50) == 8
    assert cluster.asked.count("POST /orders/_refresh") == 2


def test_a_refresh_that_is_refused_names_the_setting() -> None:
    refused = Answered(403, "security_exception", "no")
    cluster: Any = Cluster({"GET /orders/_stats": checkpoint(5), "POST /orders/_refresh": refused})
    with pytest.raises(PenstockError, match="refresh=false"):
        Checkpoints(cluster, refreshes=True).of(SHARD, 0, 1)


def pages_of(answers: Mapping[str, Any], clock: Callable[[], int] = lambda: 1) -> Any:
    cluster: Any = Cluster(
        {"GET /orders/_stats": checkpoint(500), "POST /orders/_refresh": {}, **answers}
    )
    pages = ShardPages(
        plan_of(keep_alive_ms=0),
        cluster,
        Points(cluster, 0),
        Checkpoints(cluster, refreshes=True),
        SHARD,
        None,
        clock,
    )
    return pages, cluster


def test_a_page_that_failed_is_asked_for_again() -> None:
    search = [
        {"hits": {"hits": [hit(number) for number in range(100)]}},
        Unreachable("away"),
        {"hits": {"hits": [hit(100)]}},
    ]
    pages, cluster = pages_of({"POST /orders/_search": search})
    assert len(pages.page().hits) == 100
    with pytest.raises(Unreachable):
        pages.page()
    assert [each["_id"] for each in pages.page().hits] == ["100"]
    assert cluster.bodies[-1]["query"]["bool"]["filter"] == [
        {"range": {SEQ_NO: {"gt": 99, "lte": 500}}}
    ]
    assert pages.due == 101


def test_large_documents_make_small_pages() -> None:
    large = [{**hit(number), "_source": {"text": "x" * 300_000}} for number in range(100)]
    pages, cluster = pages_of({"POST /orders/_search": [{"hits": {"hits": large}}, {}]})
    assert len(pages.page().hits) == 100
    assert pages.page() is None
    assert cluster.bodies[-1]["size"] == 3


def test_an_index_that_is_deleted_ends_quietly() -> None:
    gone = Answered(404, "index_not_found_exception", "gone")
    pages, _ = pages_of({"POST /orders/_search": gone})
    assert pages.page() is None
    assert pages.is_gone
