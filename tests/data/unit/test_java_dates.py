"""Dates as text: everything that was captured from Java's SimpleDateFormat, and shortcuts."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from penstock.data.java_dates import DateFormat, PatternInvalid, Unparseable
from penstock.data.logical import ms_to_timestamp, timestamp_to_ms
from penstock.errors import DataError
from tests.parity.date_cases import NOW_MS
from tests.places import TESTS

GOLDEN: Final = TESTS / "golden" / "java_dates.jsonl.gz"
LINES: Final[list[Any]] = [
    json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()
]
RIGHT: Final = [line for line in LINES if "wrong" not in line]
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def read(format: DateFormat, text: str) -> int | None:
    try:
        return format.parse(text)
    except Unparseable:
        return None


def read_moment(format: DateFormat, text: str) -> int | str | None:
    try:
        return timestamp_to_ms(format.parse_moment(text))
    except Unparseable:
        return None
    except DataError:
        return "no moment of Python's"


def test_patterns_are_refused_as_java_refuses_them() -> None:
    refused = {}
    for line in LINES:
        try:
            DateFormat(line["pattern"])
        except PatternInvalid as error:
            refused[line["pattern"]] = str(error)
    wrong = {line["pattern"]: line["wrong"] for line in LINES if "wrong" in line}
    assert refused == wrong
    assert len(wrong) > 3


def test_moments_are_written_as_java_writes_them() -> None:
    for line in RIGHT:
        format = DateFormat(line["pattern"], NOW_MS)
        texts = [[ms, format.format(ms)] for ms, _ in line["written"]]
        assert texts == line["written"], line["pattern"]
        assert [[ms, format.format_known(ms)] for ms, _ in texts] == texts


def test_texts_are_read_as_java_reads_them() -> None:
    for line in RIGHT:
        format = DateFormat(line["pattern"], NOW_MS)
        found = [[text, read(format, text)] for text, _ in line["read"]]
        assert found == line["read"], line["pattern"]


def test_short_cuts_lead_to_the_same() -> None:
    for line in RIGHT:
        format = DateFormat(line["pattern"], NOW_MS)
        for ms, text in line["written"]:
            if FIRST_MS <= ms <= LAST_MS:
                assert format.format_moment(ms_to_timestamp(ms)) == text
        for text, ms in line["read"]:
            if ms is None or FIRST_MS <= ms <= LAST_MS:
                assert read_moment(format, text) == ms, (line["pattern"], text)
            else:
                assert read_moment(format, text) == "no moment of Python's"


@pytest.mark.parametrize(
    ("pattern", "text", "moment"),
    [
        ("yyyy", "2E3", datetime(2000, 1, 1, tzinfo=UTC)),
        ("yyyy-MM-dd", "٢٠٢٤-٠٢-٢٩", datetime(2024, 2, 29, tzinfo=UTC)),
        ("yy", "45", datetime(2045, 1, 1, tzinfo=UTC)),
        ("yy", "46", datetime(1946, 1, 1, tzinfo=UTC)),
        ("dd MMM yy", "20 nov 45", datetime(2045, 11, 20, tzinfo=UTC)),
        ("dd MMM yy", "22 NOVEMBER 45", datetime(1945, 11, 22, tzinfo=UTC)),
        ("yyyy-MM-dd HH:mm z", "2024-07-01 12:00 CEST", datetime(2024, 7, 1, 10, tzinfo=UTC)),
        (
            "yyyy-MM-dd HH:mm z",
            "2024-07-01 12:00 GMT+2:30",
            datetime(2024, 7, 1, 9, 30, tzinfo=UTC),
        ),
        ("yyyy-MM-dd HH:mm:ss", "2024-02-29 24:00:00", datetime(2024, 3, 1, tzinfo=UTC)),
    ],
)
def test_odd_texts_are_read(pattern: str, text: str, moment: datetime) -> None:
    assert DateFormat(pattern, NOW_MS).parse_moment(text) == moment


def test_whether_the_century_matters_is_known() -> None:
    patterns = ("yy", "y", "d MMM yy", "YY", "yyyy", "yyy", "HH", "'yy'")
    short = [pattern for pattern in patterns if DateFormat(pattern).reads_short_years]
    assert short == ["yy", "y", "d MMM yy", "YY"]
