"""Which commits a sink's offsets continue."""

from __future__ import annotations

import pytest

from penstock.flow.stage.events import Assigned, Position
from penstock.flow.stage.lineages import Lineages
from penstock.ids import TopicPartition

AT = TopicPartition("orders", 0)


def assigned(position: int, *commits: tuple[int, str | None]) -> Assigned:
    """The event of an assignment at a position, with the committed offset."""
    return Assigned(
        {AT: Position(1, position)}, dict.fromkeys([AT], commits[-1]) if commits else {}
    )


def test_a_task_that_begins_where_its_predecessor_committed_continues_its_lineage() -> None:
    first, second = Lineages(), Lineages()
    first.assigned(assigned(0))
    lineage = first.of(AT)
    assert first.of(AT) == lineage
    second.assigned(assigned(7, (7, first.metadata(AT))))
    assert second.of(AT) == lineage


@pytest.mark.parametrize(
    ("position", "commits"),
    [(0, []), (7, [(7, "")]), (7, [(7, None)]), (0, [(7, "penstock-lineage 1")])],
    ids=["no offset", "an administrator's offset", "without metadata", "another position"],
)
def test_offsets_that_no_task_committed_begin_a_later_lineage(
    position: int, commits: list[tuple[int, str | None]]
) -> None:
    lineages = Lineages()
    lineages.assigned(assigned(0))
    before = lineages.of(AT)
    lineages.assigned(assigned(position, *commits))
    assert lineages.of(AT)[:15] >= before[:15]
    assert lineages.of(AT) != before


def test_records_that_go_back_begin_another_lineage() -> None:
    lineages = Lineages()
    lineages.assigned(assigned(10))
    before = lineages.of(AT)
    lineages.arrived(AT, 10, 20)
    lineages.arrived(AT, 25, 30)
    assert lineages.of(AT) == before
    lineages.arrived(AT, 0, 5)
    assert lineages.of(AT) != before


def test_records_that_the_task_has_sought_do_not() -> None:
    lineages = Lineages()
    lineages.assigned(assigned(10))
    before = lineages.of(AT)
    lineages.arrived(AT, 10, 20)
    lineages.moved([AT])
    lineages.arrived(AT, 10, 20)
    assert lineages.of(AT) == before
