"""Folders and names of files."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.api import DataError
from penstock.connectors.files.boundaries.joda import PatternInvalid, compile_pattern, has_names
from penstock.connectors.files.boundaries.paths import (
    Contents,
    Naming,
    TimeFolders,
    escaped,
    field_text,
    to_local,
)
from penstock.connectors.files.boundaries.templates import TemplateInvalid, compile_template
from penstock.connectors.files.settings.hdfs import _named

HOURLY = "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"
HOUR = 3_600_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def folder(time: str, pattern: str = HOURLY, zone: str = "UTC", duration_ms: int = HOUR) -> str:
    folders = TimeFolders(compile_pattern(pattern), ZoneInfo(zone), duration_ms)
    return folders.of([ms(time)])[0]


def test_folders_of_hdfs_are_different_for_different_values() -> None:
    assert _named("at=12:30") == "at=12%3A30"
    assert _named("at=12%3A30") == "at=12%253A30"


@pytest.mark.parametrize(
    "template",
    [
        "{{topic}}-{{partition}}{{start_offset}}",
        "{{topic}}-{{partition}}00{{start_offset}}",
        "{{topic}}{{partition}}-{{start_offset}}",
        "{{start_offset}}-{{partition}}{{topic}}",
        "{{topic}}{{key}}",
        "{{key}}{{partition}}",
    ],
)
def test_a_template_of_which_different_records_have_one_name_is_refused(template: str) -> None:
    with pytest.raises(TemplateInvalid, match="need a character between them"):
        compile_template(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{topic}}-{{partition}}-{{start_offset}}",
        "{{topic}}/{{partition}}_{{start_offset}}",
        "{{topic}}-{{partition:padding=true}}{{start_offset}}",
        "{{topic}}-{{partition}}{{start_offset:padding=true}}",
        "{{topic}}{{timestamp:unit=yyyy}}{{timestamp:unit=MM}}{{partition:padding=true}}"
        "{{start_offset}}",
        "{{key}}",
    ],
)
def test_a_template_whose_parts_can_be_told_apart_is_accepted(template: str) -> None:
    assert compile_template(template).names


def test_names_are_those_of_confluent() -> None:
    naming = Naming("topics")
    assert naming.path(Contents("orders", "partition=3", 3, 42), ".json.gz") == (
        "topics/orders/partition=3/orders+3+0000000042.json.gz"
    )
    other = Naming("", "/", "_", 3)
    assert other.path(Contents("o", "", 0, 12345), ".avro") == "o/o_0_12345.avro"


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (HOURLY, "year=2024/month=02/day=29/hour=13"),
        ("YYYY-MM-dd'T'HH:mm:ss.SSS", "2024-02-29T13:04:05.678"),
        ("yy D e x ww", "24 060 4 2024 09".replace("060", "60")),
        ("EEE EEEE MMM MMMM a hh", "Thu Thursday Feb February PM 01"),
        ("''yyyy'' 'o''clock' Z", "'2024' o'clock +0000"),
        ("ZZ ZZZ G CC", "+00:00 UTC AD 20"),
    ],
)
def test_patterns_are_those_of_joda(pattern: str, written: str) -> None:
    moment = datetime(2024, 2, 29, 13, 4, 5, 678_000, tzinfo=UTC).astimezone(ZoneInfo("UTC"))
    assert compile_pattern(pattern)(moment) == written


@pytest.mark.parametrize("pattern", ["'year", "YYYY'", "jj", "b"])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternInvalid):
        compile_pattern(pattern)


def test_patterns_with_names() -> None:
    assert [has_names(each) for each in ("MMM", "EE", "a", "'MMM' MM", HOURLY)] == [
        *(True, True, True, False, False),
    ]


@pytest.mark.parametrize(
    ("time", "zone", "written"),
    [
        ("2024-02-29T13:59:59.999+00:00", "UTC", "year=2024/month=02/day=29/hour=13"),
        ("2024-02-29T23:30:00+00:00", "Europe/Berlin", "year=2024/month=03/day=01/hour=00"),
        ("2024-07-01T05:10:00+00:00", "Asia/Kolkata", "year=2024/month=07/day=01/hour=10"),
        ("2024-07-01T04:20:00+00:00", "Asia/Kathmandu", "year=2024/month=07/day=01/hour=10"),
        ("1969-12-31T23:30:00+00:00", "UTC", "year=1969/month=12/day=31/hour=23"),
        # The hour that is skipped in spring, and the one that comes twice in autumn.
        ("2024-03-31T00:59:00+00:00", "Europe/Berlin", "year=2024/month=03/day=31/hour=01"),
        ("2024-03-31T01:00:00+00:00", "Europe/Berlin", "year=2024/month=03/day=31/hour=03"),
        ("2024-10-27T00:30:00+00:00", "Europe/Berlin", "year=2024/month=10/day=27/hour=02"),
        ("2024-10-27T01:30:00+00:00", "Europe/Berlin", "year=2024/month=10/day=27/hour=02"),
        ("2024-10-27T02:00:00+00:00", "Europe/Berlin", "year=2024/month=10/day=27/hour=03"),
    ],
)
def test_folders_go_by_the_clocks_of_the_zone(time: str, zone: str, written: str) -> None:
    assert folder(time, zone=zone) == written


def test_a_period_begins_by_the_clocks_of_the_zone() -> None:
    assert folder("2024-07-01T21:59:00+00:00", "YYYYMMdd HHmm", "Europe/Berlin", 24 * HOUR) == (
        "20240701 0000"
    )
    assert folder("2024-07-01T10:44:59+00:00", "HHmm", "UTC", 300_000) == "1040"


def test_times_that_are_known_and_times_that_are_not() -> None:
    folders = TimeFolders(compile_pattern("HHmm"), ZoneInfo("UTC"), 15 * 60_000)
    first = ms("2024-07-01T10:44:59+00:00")
    assert folders.of([first]) == ["1030"]
    assert folders.of([first, first + 2_000, first - HOUR]) == ["1030", "1045", "0930"]
    assert folders.of([]) == []
    with pytest.raises(DataError, match="outside the years"):
        folders.of([1 << 60])


def test_fields_that_name_a_folder() -> None:
    given = [("a", "x y"), ("a", 5), ("a", True), ("a", None)]
    assert [field_text(*each) for each in given] == ["a=x y", "a=5", "a=true", "a=null"]
    with pytest.raises(DataError, match=r"'a' of partition.field.name is of type float"):
        field_text("a", 1.5)


def test_a_folder_leads_nowhere_else() -> None:
    given = ["..", "a=../b", "a=\\x\n", "a=ü ", "a=.b"]
    assert [escaped(each) for each in given] == [
        *("%2E%2E", "a=..%2Fb", "a=%5Cx%0A", "a=ü ", "a=.b"),
    ]


def test_different_texts_are_different_folders() -> None:
    texts = [
        "a/b",
        "a%2Fb",
        "a%252Fb",
        "a%25252Fb",
        "..",
        "%2E%2E",
        "\n",
        "%0A",
        "5%",
        "5%25",
        "%zz",
    ]
    assert len({escaped(text) for text in texts}) == len(texts)
    assert escaped("5%") == "5%"


def test_local_time_is_what_clocks_show() -> None:
    summer = ms("2024-07-01T10:00:00+00:00")
    assert to_local(summer, ZoneInfo("Europe/Berlin")) - summer == 2 * HOUR
