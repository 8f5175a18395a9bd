"""Where files end, by example."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.api.schema import INT32, INT64, STRING, Schema, struct
from penstock.connectors.files.boundaries.schemas import Compatibility
from penstock.connectors.files.boundaries.spans import (
    EMPTY,
    Action,
    Add,
    Rows,
    Rules,
    advance,
    is_due,
    next_scheduled,
)

V1 = struct({"id": INT32}, name="row", version=1)
V2 = struct({"id": INT64}, name="row", version=2)


def rows(
    folders: str | Sequence[str] = "a",
    *,
    offsets: Sequence[int] = range(10),
    times: Sequence[int] | None = None,
    schemas: Sequence[tuple[int, Schema | None]] = (),
    tombstones: bool | Sequence[bool] = False,
) -> Rows:
    runs = [(stop, (schema, None)) for stop, schema in schemas] or [(len(offsets), (None, None))]
    each = folders if len(folders) == 1 else list(folders)
    return Rows(offsets, each, runs, times, tombstones)


def reported(actions: Sequence[Action]) -> list[str]:
    return [
        f"{each.file.folder}{each.file.start}:{','.join(map(str, each.rows))}"
        if isinstance(each, Add)
        else f"cut {each.offset}"
        for each in actions
    ]


def actions(rules: Rules, rows: Rows, now: int = 0) -> list[str]:
    return reported(advance(rules, EMPTY, rows, now)[1])


def test_a_file_ends_at_its_size() -> None:
    assert actions(Rules(4), rows()) == [
        *("a0:0,1,2,3", "cut 4", "a4:4,5,6,7", "cut 8", "a8:8,9"),
    ]


def test_the_size_counts_the_records_of_all_files() -> None:
    assert actions(Rules(4), rows("abababbbab")) == [
        *("a0:0,2", "b1:1,3", "cut 4", "a4:4", "b5:5,6,7", "cut 8", "a8:8", "b9:9"),
    ]


def test_offsets_may_have_gaps() -> None:
    given = rows(offsets=[3, 5, 9, 20])
    assert actions(Rules(2), given) == ["a3:0,1", "cut 6", "a9:2,3", "cut 21"]


def test_a_file_ends_before_the_record_that_is_too_late() -> None:
    times = [100, 150, 90, 199, 200, 250, 301, 302, 302, 302]
    assert actions(Rules(100, interval_ms=100), rows(times=times)) == [
        *("a0:0,1,2,3", "cut 4", "a4:4,5", "cut 6", "a6:6,7,8,9"),
    ]


def test_with_an_interval_a_file_ends_where_the_folder_changes() -> None:
    given = rows("aaabbbabbb", times=[0] * 10)
    assert actions(Rules(100, interval_ms=9), given) == [
        *("a0:0,1,2", "cut 3", "b3:3,4,5", "cut 6", "a6:6", "cut 7", "b7:7,8,9"),
    ]
    rules = Rules(100, interval_ms=9, cut_on_folder=False)
    assert actions(rules, given) == ["a0:0,1,2,6", "b3:3,4,5,7,8,9"]


def test_another_schema_begins_another_file() -> None:
    given = rows(schemas=[(3, V1), (5, V2), (10, V1)])
    assert actions(Rules(100), given) == [
        *("a0:0,1,2", "cut 3", "a3:3,4", "cut 5", "a5:5,6,7,8,9"),
    ]


def test_older_schemas_are_projected_and_newer_ones_begin_another_file() -> None:
    given = rows(schemas=[(3, V1), (5, V2), (10, V1)])
    backward = ["a0:0,1,2", "cut 3", "a3:3,4,5,6,7,8,9"]
    forward = ["a0:0,1,2,3,4,5,6,7,8,9"]
    for compatibility, expected in (
        ("BACKWARD", backward),
        ("FULL", backward),
        ("FORWARD", forward),
    ):
        assert actions(Rules(100, compatibility=Compatibility(compatibility)), given) == expected


def test_schemas_that_cannot_be_compared_are_refused() -> None:
    rules = Rules(100, compatibility=Compatibility.BACKWARD)
    given = rows(schemas=[(3, V1), (4, None), (5, STRING), (10, V1)])
    _, done, refused = advance(rules, EMPTY, given, 0)
    assert reported(done) == ["a0:0,1,2,5,6,7,8,9"]
    assert sorted(refused) == [3, 4]


def test_tombstones_have_files_of_their_own() -> None:
    kinds = [each == "t" for each in "vvvttvvvvv"]
    folders = ["tombstone" if each else "a" for each in kinds]
    assert actions(Rules(100), rows(folders, tombstones=kinds)) == [
        *("a0:0,1,2", "cut 3", "tombstone3:3,4", "cut 5", "a5:5,6,7,8,9"),
    ]


def test_files_end_before_too_many_are_open() -> None:
    assert actions(Rules(100, max_files=2), rows("ababcabcaa")) == [
        *("a0:0,2", "b1:1,3", "cut 4", "c4:4", "a5:5", "cut 6"),
        *("b6:6", "c7:7", "cut 8", "a8:8,9"),
    ]


def test_files_end_by_the_clock() -> None:
    rules = Rules(100, schedule_ms=1000)
    span, done, _ = advance(rules, EMPTY, rows(), now=5_400)
    assert reported(done) == ["a0:0,1,2,3,4,5,6,7,8,9"]
    assert not is_due(rules, span, 5_999)
    assert is_due(rules, span, 6_000)
    assert not is_due(rules, EMPTY, 6_000)
    _, done, _ = advance(rules, span, rows(offsets=[10, 11]), now=6_001)
    assert reported(done) == ["cut 10", "a10:0,1"]


def test_the_schedule_begins_at_midnight() -> None:
    day, hour = 86_400_000, 3_600_000
    assert next_scheduled(day + hour, 7 * hour) == day + 7 * hour
    assert next_scheduled(day + 22 * hour, 7 * hour) == day + 28 * hour
    assert next_scheduled(day, hour) == day + hour
