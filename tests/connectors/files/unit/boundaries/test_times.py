"""The times that RecordField extracts, and everything that was captured from Joda-Time 2.12.7's
ISODateTimeFormat.dateTimeParser."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pytest

from penstock.api import DataError
from penstock.connectors.files.boundaries.times import parse_iso, time_of
from tests.places import TESTS

GOLDEN: Final = TESTS / "golden" / "joda_times.jsonl"
LINES: Final[list[Any]] = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
NOON: Final = 1_709_208_000_000


def parsed(text: str) -> int | None:
    try:
        return parse_iso(text)
    except (ValueError, OverflowError):
        return None


def test_iso_8601_is_read_as_joda_time_reads_it() -> None:
    assert [[line["text"], parsed(line["text"])] for line in LINES] == [
        [line["text"], line["ms"]] for line in LINES
    ]
    assert len(LINES) > 300


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (datetime(2024, 2, 29, 12, tzinfo=UTC), NOON),
        (NOON, NOON),
        (float(NOON), NOON),
        (1.9, 1),
        (Decimal("1709208000000.7"), NOON),
        (str(NOON), NOON),
        ("-5", -5),
        ("2023", 2023),
        ("2024-02-29T12:00:00", NOON),
        ("2024-02-29 12:00:00", NOON),
        ("2024-02-29T13:00:00+01:00", NOON),
        ("2023-11", 1_698_796_800_000),
        ("2023-W46-2", 1_699_920_000_000),
    ],
)
def test_a_time_is_a_number_a_number_as_text_or_iso_8601(value: Any, ms: int) -> None:
    assert time_of(value, "m.ts") == ms


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        b"5",
        float("nan"),
        float("inf"),
        "today",
        "",
        " 5",
        "1.5",
        "9" * 19,
        "2024-02-30",
    ],
)
def test_a_value_that_is_no_time_is_refused_with_the_name_of_the_field(value: Any) -> None:
    with pytest.raises(DataError, match=r"^Field 'm\.ts' \(timestamp\.field\) contains "):
        time_of(value, "m.ts")
