"""The parts of the stage that need neither Spark nor Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.data.records import Column, Header, Records
from penstock.flow import stage
from penstock.flow.stage import RESULT
from penstock.ids import TaskId

NOWHERE = {"partition": None, "position": None}
TRIED = {"retries": 3, "lost": 1}

RESULTS: list[tuple[dict[tuple[str, int | None], int | None], list[dict[str, Any]]]] = [
    ({}, [{"records": 5, "done": 4, "failed": 1, **TRIED, "rows": 2, "topic": "", **NOWHERE}]),
    (
        {("a", None): None},
        [{"records": 5, "done": 4, "failed": 1, **TRIED, "rows": 2, "topic": "a", **NOWHERE}],
    ),
    (
        {("a", 0): 7, ("a", 2): 9},
        [
            {
                "records": 5,
                "done": 4,
                "failed": 1,
                **TRIED,
                "rows": 2,
                "topic": "a",
                "partition": 0,
                "position": 7,
            },
            {
                "records": 0,
                "done": 0,
                "failed": 0,
                "retries": 0,
                "lost": 0,
                "rows": 0,
                "topic": "a",
                "partition": 2,
                "position": 9,
            },
        ],
    ),
]


@pytest.mark.parametrize(("places", "rows"), RESULTS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_result_counts_once_and_names_every_place(
    places: dict[tuple[str, int | None], int | None], rows: list[dict[str, Any]], whole: bool
) -> None:
    counts = stage.Counts(5, 1, 4, 3, 1, rows=2, places=places)
    result = stage._result(counts, whole)
    assert result.schema == RESULT
    assert result.to_pylist() == [{**row, "whole": whole} for row in rows]


def test_converted_records_travel_as_arrow_and_back() -> None:
    records = Records(
        topics=["a", "b", "a"],
        partitions=[None, 3, 0],
        timestamps=[5, None, None],
        keys=Column.of([b"k", None, b""], None),
        values=Column.of([None, b"\xff", b"v"], None),
        headers=[[Header("h", b"\x00"), Header("h", None)], [], []],
    )
    again = stage.unpacked(pa.Table.from_batches([stage._converted(records)]))
    assert (again.topics, again.partitions) == (records.topics, records.partitions)
    assert again.timestamps == records.timestamps
    assert again.keys.values == records.keys.values
    assert again.values.values == records.values.values
    assert [list(each) for each in again.headers] == [list(each) for each in records.headers]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([], []), ([10] * 5, [5]), ([600_000] * 4, [2, 2]), ([3_000_000, 10, 10], [2, 1])],
)
def test_large_batches_come_in_pieces(sizes: list[int], expected: list[int]) -> None:
    batch = pa.RecordBatch.from_pydict({"cell": pa.array([b"x" * n for n in sizes], pa.binary())})
    pieces = list(stage._pieces([batch]))
    assert [piece.num_rows for piece in pieces] == expected
    assert pa.Table.from_batches(pieces, batch.schema) == pa.Table.from_batches([batch])


# ── what is kept open ────────────────────────────────────────────────────────────────────────────


@dataclass
class End:
    """An open end that knows whether it was closed."""

    plan: Plan
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class Plan:
    """As much of a plan as matters here."""

    task: TaskId
    run: int
    made: list[End] = field(default_factory=list, compare=False)


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    """What tests open is not kept for others."""
    before = dict(stage._OPENED)
    stage._OPENED.clear()
    yield
    stage._OPENED.clear()
    stage._OPENED.update(before)


def opened(task: str, run: int) -> End:
    end: End = stage._open(Plan(TaskId(task, 0), run), End)  # type: ignore[arg-type]
    return end


def test_a_run_of_a_task_is_opened_once() -> None:
    assert opened("a", 1) is opened("a", 1)


def test_a_new_run_closes_the_one_before_and_no_others() -> None:
    old, other = opened("a", 1), opened("b", 1)
    new = opened("a", 2)
    assert new is not old
    assert (old.closed, other.closed, new.closed) == (True, False, False)


def test_what_was_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(stage.time, "monotonic", lambda: now[0])
    idle, busy = opened("idle", 1), opened("busy", 1)
    now[0] += 40
    opened("busy", 1)
    now[0] += 40
    assert opened("busy", 1) is busy
    assert idle.closed
    assert not busy.closed
