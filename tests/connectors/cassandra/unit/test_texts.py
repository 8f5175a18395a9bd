"""Mappings, KCQL, and values in text."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.api import DataError
from penstock.connectors.cassandra.text.kcql import parse_kcql
from penstock.connectors.cassandra.text.mapping import (
    TIMESTAMP,
    TTL,
    Entry,
    MappingInvalid,
    parse_mapping,
)
from penstock.connectors.cassandra.text.values import FormatInvalid, Texts, blob_of, duration_of
from penstock.connectors.kcql import KcqlInvalid


def test_a_mapping_has_columns_and_fields() -> None:
    text = (
        ' a = key , "B c"="value.x y", d=value.e.f,g=header.h, "i""j"=now(),\n__ttl=value.t, '
        "__timestamp=key.ts, k=value"
    )
    assert parse_mapping(text) == (
        Entry("a", "key", ""),
        Entry("B c", "value", "x y"),
        Entry("d", "value", "e.f"),
        Entry("g", "header", "h"),
        Entry('i"j', "", "now()"),
        Entry(TTL, "value", "t"),
        Entry(TIMESTAMP, "key", "ts"),
        Entry("k", "value", ""),
    )


@pytest.mark.parametrize(
    "text",
    ["", "a", "a=", "a=b", "a=value.", "a=header", "a=value,", "a==b", "a=uuid()", "a=value a=b",
     "=value", "a=value;b=key", 'a="', "a=value, a=key"],
)  # fmt: skip
def test_other_mappings_are_refused(text: str) -> None:
    with pytest.raises(MappingInvalid):
        parse_mapping(text)


def test_kcql_has_the_clauses_of_cassandras_connectors() -> None:
    first, second = parse_kcql(
        "insert into my-topic select a, b.c as d, * from `my table` ignore e, f pk a "
        "WITHUNWRAP INCREMENTALMODE=TimeUUID TTL=5 WITHKEY(a, b) KEYDELIMITER='|';"
        "UPSERT INTO ks.t SELECT 'x y' AS z, now() AS n FROM topic.with.dots "
        "PROPERTIES('ttl'='1', deletesEnabled=false);"
    )
    assert (first.target, first.source, first.everything) == ("my-topic", "my table", True)
    assert [(each.name, each.alias) for each in first.fields] == [("a", "a"), ("b.c", "d")]
    assert (first.ignored, first.keys, first.mode, first.ttl) == (("e", "f"), ("a",), "timeuuid", 5)
    assert (first.unwraps, first.with_keys, first.delimiter) == (True, ("a", "b"), "|")
    assert (second.target, second.source) == ("ks.t", "topic.with.dots")
    assert [(each.name, each.alias) for each in second.fields] == [("x y", "z"), ("now()", "n")]
    assert second.properties == {"ttl": "1", "deletesEnabled": "false"}


@pytest.mark.parametrize(
    "text",
    ["", ";", "SELECT * FROM t", "INSERT t", "INSERT INTO t SELECT FROM x",
     "INSERT INTO t SELECT * FROM x AUTOCREATE", "INSERT INTO t SELECT * FROM x TTL=soon",
     "INSERT INTO t SELECT * FROM x STOREAS y", "INSERT INTO t SELECT * FROM x PROPERTIES(",
     "INSERT INTO t SELECT a AS FROM x", "INSERT INTO t SELECT * FROM x $"],
)  # fmt: skip
def test_other_kcql_is_refused(text: str) -> None:
    with pytest.raises(KcqlInvalid):
        parse_kcql(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-31T12:30:00.123Z", 1769862600123),
        ("2026-01-31 12:30+01:00", 1769859000000),
        ("2026-01-31T12:30:00.123456789+0100", 1769859000123),
        ("2026-01-31", 1769817600000),
        ("2026-01-31T13:30+01:00[Europe/Vienna]", 1769862600000),
        ("1769862600000", 1769862600000),
    ],
)
def test_timestamps_are_read_as_cql_writes_them(text: str, ms: int) -> None:
    assert Texts().timestamp_ms(text) == ms


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "2026-01-31T25:00", "12:30", ""])
def test_other_timestamps_are_refused(text: str) -> None:
    with pytest.raises(DataError):
        Texts().timestamp_ms(text)


def test_numbers_are_read_as_the_locale_writes_them() -> None:
    assert Texts().number("1,234.5") == Decimal("1234.5")
    assert Texts(locale="de_AT").number("1.234,5") == Decimal("1234.5")
    assert Texts(locale="fr_FR").number("1\u202f234,5") == Decimal("1234.5")
    assert Texts().number("-1e3") == Decimal("-1000")
    assert Texts().number("TRUE") == 1
    with pytest.raises(DataError):
        Texts().number("0x10")


@pytest.mark.parametrize(
    "wrong",
    [{"locale": "xx"}, {"unit": "AGES"}, {"zone": "Mars"}, {"date": "bb"}, {"timestamp": "'"}],
)
def test_settings_of_codecs_are_checked(wrong: dict[str, str]) -> None:
    with pytest.raises(FormatInvalid):
        Texts(**wrong)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1y2mo3w4d5h6m7s8ms9us10ns", (14, 25, 18_367_008_009_010)),
        ("-2h", (0, 0, -7_200_000_000_000)),
        ("P1Y2M3DT4H5M6S", (14, 3, 14_706_000_000_000)),
        ("P2W", (0, 14, 0)),
    ],
)
def test_durations_are_read(text: str, parts: tuple[int, int, int]) -> None:
    assert duration_of(text) == parts


@pytest.mark.parametrize("text", ["", "P", "5", "1x", "1y x"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(DataError):
        duration_of(text)


def test_bytes_are_read_from_hexadecimal_and_base64() -> None:
    assert (blob_of("0xCAFE"), blob_of("yv4=")) == (b"\xca\xfe", b"\xca\xfe")
    with pytest.raises(DataError):
        blob_of("0x#")
