"""CSV by the rules of opencsv: `tests/golden/opencsv.jsonl` has what its CSVReader returned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.api import DataError
from penstock.connectors.files.formats.csv_read import Dialect
from penstock.connectors.files.formats.opencsv import NullCells, Parser
from tests.places import TESTS

from .readings import reading, values

GOLDEN = TESTS / "golden" / "opencsv.jsonl"
BY_SETTINGS: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
for line in GOLDEN.read_text().splitlines():
    case = json.loads(line)
    BY_SETTINGS.setdefault(tuple(case["settings"]), []).append(case)


def parser_of(settings: list[Any]) -> Parser:
    return Parser(*settings[:-1], nulls=NullCells[settings[-1]])


def rows(parser: Parser, text: str) -> list[list[str | None]]:
    data, begin, parsed = text.encode(), 0, []
    for end in [*parser.ends(data), len(data)]:
        if end > begin:
            parsed.append(parser.cells(data[begin:end]))
            begin = end
    return parsed


def outcome(case: dict[str, Any]) -> object:
    """The rows, or the error if there is one."""
    try:
        return rows(parser_of(case["settings"]), case["text"])
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("settings", BY_SETTINGS, ids=json.dumps)
def test_records_and_cells_are_those_of_opencsv(settings: tuple[Any, ...]) -> None:
    cases = BY_SETTINGS[settings]
    found = {case["text"]: outcome(case) for case in cases}
    for case in cases:
        if case["fails"]:
            assert "quote is not closed" in str(found[case["text"]]), case["text"]
        else:
            assert found[case["text"]] == case["rows"], case["text"]


def dialect(**given: Any) -> Dialect:
    nulls = given.get("nulls", NullCells.NEITHER)
    keeps_cr = given.get("keeps_cr", False)
    return Dialect(nulls=nulls, keeps_cr=keeps_cr, joins_lines=True, opencsv=Parser(**given))


def read(text: str, csv_dialect: Dialect, **options: Any) -> list[Any]:
    parsed = values(reading("Csv", csv_dialect=csv_dialect, **options), text.encode())
    pieces = reading("Csv", csv_dialect=csv_dialect, **options)
    assert parsed == values(pieces, text.encode(), max_bytes=1)
    return parsed


def test_lines_before_the_header_are_skipped() -> None:
    text = "# orders\n# of today\nid,name\n1,a\n"
    assert read(text, dialect(), csv_skip=2) == [{"id": "1", "name": "a"}]
    assert read(text, dialect(), csv_skip=9) == []


def test_a_backslash_keeps_a_quote() -> None:
    text = 'id,name\n1,"a \\"b\\", c"\n2,"d"\n'
    assert read(text, dialect()) == [{"id": "1", "name": 'a "b", c'}, {"id": "2", "name": "d"}]
    assert read('id\n"a\\b"\n', dialect(escape=None)) == [{"id": "a\\b"}]


@pytest.mark.parametrize(
    ("nulls", "expected"),
    [
        (NullCells.NEITHER, ["", ""]),
        (NullCells.EMPTY_SEPARATORS, [None, ""]),
        (NullCells.EMPTY_QUOTES, ["", None]),
        (NullCells.BOTH, [None, None]),
    ],
)
def test_the_indicator_says_which_empty_cells_are_null(
    nulls: NullCells, expected: list[str | None]
) -> None:
    [row] = read('id,a,b\n1,,""\n', dialect(nulls=nulls))
    assert [row["a"], row["b"]] == expected


def test_white_space_before_a_quote_is_left_out_or_kept() -> None:
    text = 'id,name\n1,   "a"\n'
    assert read(text, dialect())[0]["name"] == "a"
    assert read(text, dialect(ignores_white_space=False))[0]["name"] != "a"


def test_carriage_returns_are_kept_if_asked_for() -> None:
    assert read("id,name\n1,a\r\n", dialect()) == [{"id": "1", "name": "a"}]
    assert read("id,name\n1,a\r\n", dialect(keeps_cr=True)) == [{"id": "1", "name": "a\r"}]


@pytest.mark.parametrize("max_bytes", [1, 9, 1 << 20])
def test_carriage_returns_end_records_in_blocks_of_any_size(max_bytes: int) -> None:
    its = reading("Csv", csv_dialect=Dialect(opencsv=Parser(), nulls=NullCells.NEITHER))
    found = values(its, b"a,b\r1,2\r3,4\r", max_bytes=max_bytes)
    assert found == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_a_null_text_and_empty_quotes_mean_the_same_for_the_parser_in_python() -> None:
    odd = b'a,b\nNULL,\n5" pipe,"x"\n'
    assert values(reading("Csv", csv_null="NULL"), odd)[0] == {"a": None, "b": ""}
    quoted = b'a,b\n"",1\n"2",2\n'
    assert values(reading("Csv", csv_infer_rows=5), quoted)[0] == {"a": "", "b": 1}
