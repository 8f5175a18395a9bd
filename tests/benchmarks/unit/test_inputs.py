import json
from pathlib import Path

import pytest

from benchmarks import inputs
from benchmarks.inputs import (
    FILE_BATCH,
    JSON,
    LINES,
    SCHEMAS,
    TRANSFORMED,
    Kind,
    WrongOutcome,
    check,
    generated,
    line_bytes,
    lines_of,
    whole_batches,
    write_file,
)

RECORDS = 5_000


def lines(kind: Kind, records: int = RECORDS) -> list[bytes]:
    """The lines that a file sink writes."""
    return [line for block in generated(kind.line(tuple(kind.fields)), records) for line in block]


def blocks(found: list[bytes], size: int = 700) -> list[list[bytes]]:
    return [found[start : start + size] for start in range(0, len(found), size)]


KINDS = [LINES, JSON, SCHEMAS, TRANSFORMED]
KIND = pytest.mark.parametrize("kind", KINDS, ids=["lines", "json", "schemas", "transformed"])


@KIND
def test_an_outcome_equal_to_the_input_passes(kind: Kind) -> None:
    check(blocks(lines(kind)), kind, RECORDS, partitions=2)
    assert line_bytes(kind, RECORDS) == sum(map(len, lines(kind))) + RECORDS


@KIND
def test_partitions_may_be_interleaved_in_any_way(kind: Kind) -> None:
    found = lines(kind)
    check(blocks(found[1::2] + found[0::2]), kind, RECORDS, partitions=2)


@KIND
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda found: found[:-1], "found 4,999"),
        (lambda found: [*found, found[-1]], "found 5,001"),
        (lambda found: [*found[:-1], found[7]], "not those that went in"),
        (lambda found: [*found[:9], found[9].replace(b"9", b"8"), *found[10:]], "not those"),
        (lambda found: [found[2], found[1], found[0], *found[3:]], "0 follows 2 in partition 0"),
        (lambda found: [], "found 0"),
    ],
    ids=["lost", "repeated", "replaced", "altered", "swapped", "nothing"],
)
def test_a_wrong_outcome_is_refused(kind: Kind, spoil, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(WrongOutcome, match=said):
        check(blocks(spoil(lines(kind))), kind, RECORDS, partitions=2)


def test_a_swap_across_blocks_is_seen() -> None:
    found = lines(LINES)
    found[699], found[701] = found[701], found[699]
    with pytest.raises(WrongOutcome, match="not in order; 699 follows 701 in partition 1"):
        check(blocks(found), LINES, RECORDS, partitions=2)


def test_a_map_may_have_its_fields_in_any_order_but_only_these() -> None:
    order = ("score", "id", "active", "name", "city")
    found = [line for block in generated(JSON.line(order), RECORDS) for line in block]
    check(blocks(found), JSON, RECORDS, partitions=2)
    with pytest.raises(WrongOutcome, match="expected the fields"):
        check(blocks(lines(TRANSFORMED)), JSON, RECORDS, partitions=2)


@pytest.mark.parametrize("kind", [JSON, SCHEMAS])
def test_values_are_json_of_five_fields(kind: Kind) -> None:
    (block,) = generated(kind.value, 4)
    values = [json.loads(value) for value in block]
    rows = [value["payload"] for value in values] if kind is SCHEMAS else values
    assert [row["id"] for row in rows] == [0, 1, 2, 3]
    assert rows[1] == {"id": 1, "name": "user-1", "city": "Zürich", "score": 1.5, "active": True}
    if kind is SCHEMAS:
        fields = values[0]["schema"]["fields"]
        assert [field["field"] for field in fields] == list(rows[0])


def test_lines_are_as_java_prints_them() -> None:
    assert lines(JSON, 2)[1].decode() == (
        "{id=1, name=user-1, city=Zürich, score=1.5, active=true}"
    )
    assert lines(SCHEMAS, 2)[1].decode() == (
        "Struct{id=1,name=user-1,city=Zürich,score=1.5,active=true}"
    )
    assert lines(TRANSFORMED, 2)[1].decode() == (
        "{id=1, label=user-1, city=, score=1.5, origin=bench}"
    )


def test_the_lines_of_a_file_are_those_written(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(inputs, "_READ", 1_000)
    file = tmp_path / "lines.txt"
    write_file(file, LINES, RECORDS)
    found = list(lines_of(file))
    assert len(found) > 1
    check(found, LINES, RECORDS, partitions=1)
    assert file.stat().st_size == line_bytes(LINES, RECORDS)


@pytest.mark.parametrize("records", [1, 4_000, 4_001, 1_999_999, 2_000_000])
def test_each_of_two_files_holds_whole_batches(records: int) -> None:
    found = whole_batches(records)
    assert found >= records
    assert found - records < 2 * FILE_BATCH
    assert found // 2 % FILE_BATCH == 0
