"""Templates, pointers and dates: what they make, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import DataError, Header
from penstock.api.schema import BYTES, DATE, INT64, STRING, TIMESTAMP, array, decimal, struct
from penstock.connectors.http.pointers import MISSING, Pointer
from penstock.connectors.http.read.dates import DatePattern, instant, moment_of
from penstock.connectors.http.read.freemarker import OffsetTemplate
from penstock.connectors.http.templates import Row, Style, Template, json_text


def row(value: Any = None, schema: Any = None, **given: Any) -> Row:
    whole: dict[str, Any] = {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "key_schema": None,
        "value": value,
        "value_schema": schema,
        **given,
    }
    return Row(**whole)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", ""),
        ("no placeholder", "no placeholder"),
        ("${topic}-${partition}-${offset}", "t-3-42"),
        ("${timestamp}", "1700000000000"),
        ("${key}", "k"),
        ("${value}", '{"a":{"b":[1,2]},"c":"text","d":1.5,"e":true}'),
        ("${value.a.b} ${a.b}", "[1,2] [1,2]"),
        ("${c}${d}${e}", "text1.5true"),
        ("${header.h}", "second"),
        ("$ {topic} $topic {topic}", "$ {topic} $topic {topic}"),
    ],
)
def test_dollar_templates(text: str, made: str) -> None:
    value = {"a": {"b": [1, 2]}, "c": "text", "d": 1.5, "e": True}
    headers = (Header("h", "first"), Header("h", "second", STRING))
    assert Template(text, Style.DOLLAR).render(row(value, headers=headers)) == made


def test_values_with_a_schema_in_templates() -> None:
    schema = struct(
        {
            "n": INT64,
            "when": TIMESTAMP,
            "day": DATE,
            "amount": decimal(2),
            "raw": BYTES.as_optional(),
        }
    )
    value = {
        "n": 7,
        "when": datetime(2026, 1, 31, tzinfo=UTC),
        "day": datetime(2026, 1, 31, tzinfo=UTC).date(),
        "amount": Decimal("1.10"),
        "raw": b"x",
    }
    text = "${n} ${when} ${amount} ${raw}"
    assert Template(text, Style.DOLLAR).render(row(value, schema)) == "7 1769817600000 1.10 x"
    assert json_text(schema, value) == (
        b'{"n":7,"when":1769817600000,"day":20484,"amount":"bg==","raw":"eA=="}'
    )
    assert json_text(array(INT64), [1]) == b"[1]"
    with pytest.raises(DataError, match="raw"):
        Template("${raw}", Style.DOLLAR).render(row({**value, "raw": None}, schema))


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("${", Style.DOLLAR),
        ("${topic", Style.DOLLAR),
        ("${}", Style.DOLLAR),
        ("${topic.a}", Style.DOLLAR),
        ("${header}", Style.DOLLAR),
        ("${a..b}", Style.DOLLAR),
        ("{{topic}", Style.BRACES),
        ("{{name}}", Style.BRACES),
    ],
)
def test_templates_that_cannot_be(text: str, style: Style) -> None:
    with pytest.raises(ValueError, match=r"placeholder|header|topic"):
        Template(text, style)


def test_values_in_a_url_cannot_change_its_structure() -> None:
    template = Template("http://h/${key}?q=${key}", Style.DOLLAR, url=True)
    filled = template.render(row(key="a/b?c#d&e=ü %"))
    assert filled == "http://h/a/b%3Fc%23d%26e%3D%C3%BC%20%25?q=a%2Fb%3Fc%23d%26e%3D%C3%BC%20%25"
    whole = Template("${key}", Style.DOLLAR, url=True)
    assert whole.render(row(key="https://x/?a=b")) == "https://x/?a=b"


@given(st.text())
def test_any_text_is_a_template_or_refused(text: str) -> None:
    for style in Style:
        try:
            template = Template(text, style)
        except ValueError:
            continue
        if "${" not in text and "{{" not in text:
            assert template.render(row()) == text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("${offset.key}", "7"),
        ("${key}", "7"),
        ("${offset['key']}", "7"),
        ("${offset.none!'x}y'}", "x}y"),
        ("${offset.none!}", ""),
        ("${offset.none!0}", "0"),
        ("${offset.key?number + 1}", "8"),
        ("${offset.timestamp?datetime.iso?long}", "1769862600000"),
        ("${offset.timestamp?datetime.iso?string['yyyy/MM/dd HH:mm']}", "2026/01/31 12:30"),
        ('${offset.timestamp?datetime.iso?string("yyyy")}', "2026"),
        ("${offset.timestamp?url}", "2026-01-31T12%3A30%3A00Z"),
        ("${offset.key!'1'?upper_case}", "7"),
    ],
)
def test_offset_templates(text: str, made: str) -> None:
    offset = {"key": "7", "timestamp": "2026-01-31T12:30:00Z"}
    assert OffsetTemplate(text).render(offset) == made


@pytest.mark.parametrize(
    "text",
    ["${", "${offset.key", "${}", "${offset.key?eval}", "<#list x as y>", "${1 + 2}", "${a b}"],
)
def test_offset_templates_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"supported|closed|not a valid placeholder"):
        OffsetTemplate(text)


@pytest.mark.parametrize("text", ["${offset.gone}", "${offset.key?datetime.iso}"])
def test_offsets_that_do_not_fit_a_template(text: str) -> None:
    with pytest.raises(DataError):
        OffsetTemplate(text).render({"key": "seven"})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/", {"a": [{"b": 1}], "": 2, "m~n": 3, "x/y": None}),
        ("/a/0/b", 1),
        ("/a/1", MISSING),
        ("/a/-1", MISSING),
        ("/a/b", MISSING),
        ("/m~0n", 3),
        ("/x~1y", None),
        ("/a/0/b/c", MISSING),
    ],
)
def test_pointers(text: str, found: object) -> None:
    document = {"a": [{"b": 1}], "": 2, "m~n": 3, "x/y": None}
    assert Pointer(text).find(document) == found or found is MISSING


@pytest.mark.parametrize(
    ("pattern", "text", "iso"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS]X", "2026-01-31T12:30:00Z", "2026-01-31T12:30:00Z"),
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS]X", "2026-01-31T12:30:00.123+01", "2026-01-31T11:30:00.123Z"),
        ("yyyy-MM-dd HH:mm:ss", "2026-01-31 12:30:00", "2026-01-31T12:30:00Z"),
        ("dd/MMM/yyyy hh:mm a", "31/Jan/2026 01:05 PM", "2026-01-31T13:05:00Z"),
        ("EEE, d MMM yyyy HH:mm:ss Z", "Sat, 31 Jan 2026 12:30:00 +0100", "2026-01-31T11:30:00Z"),
        ("yyyyMMdd", "20260131", "2026-01-31T00:00:00Z"),
    ],
)
def test_dates(pattern: str, text: str, iso: str) -> None:
    assert instant(DatePattern(pattern).parse(text)) == iso


@given(
    st.datetimes(
        min_value=datetime(1970, 1, 1),  # noqa: DTZ001 - Hypothesis takes bounds without a zone
        max_value=datetime(2100, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    )
)
def test_an_instant_is_read_as_it_was_written(moment: datetime) -> None:
    assert moment_of(instant(moment)) == moment
    pattern = DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
    assert pattern.parse(pattern.format(moment)) == moment
    there = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert instant(there) == instant(moment)


@pytest.mark.parametrize("pattern", ["yyyy-QQ", "'open", "[yyyy", "yyyy]"])
def test_patterns_that_cannot_be(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        DatePattern(pattern)
