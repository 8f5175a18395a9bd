"""What a writer still sends of partitions that another task owns."""

from __future__ import annotations

from collections import deque

from penstock.api import TopicPartition
from penstock.connectors.search.write.actions import Action
from penstock.connectors.search.write.bulk import Request
from penstock.connectors.search.write.conflicts import Conflicts
from penstock.connectors.search.write.writer import SearchWriter
from penstock.testing.conformance import records_of
from penstock.testing.routed import routed


def test_failed_requests_of_lost_partitions_are_dropped_whatever_topic_records_are_routed_to() -> (
    None
):
    place = TopicPartition("orders", 3)
    records = routed(records_of([1, 2]), ["index-a", "index-b"], place)
    actions = [Action(row, str(row), b"", is_ordered=False, is_versioned=False) for row in range(2)]
    request = Request(records, actions, error=OSError())
    request.done.set()
    writer = SearchWriter.__new__(SearchWriter)
    writer._pending = deque([request])
    writer._conflicts = Conflicts()
    writer.revoked(frozenset({place}), lost=True)
    assert list(request.actions) == []
