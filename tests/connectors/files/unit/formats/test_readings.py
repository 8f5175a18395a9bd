"""Every format, read: files of the sinks, and files of others."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import cramjam
import pyarrow as pa
import pytest

from penstock.api import Unavailable
from penstock.api.schema import (
    BYTES,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
    Schema,
    Value,
    array,
    struct,
)
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.codecs import AVRO_CODECS, FILE_CODECS
from penstock.connectors.files.formats.columns import PARQUET_CODECS, Orc, Parquet
from penstock.connectors.files.formats.csv_read import Dialect
from penstock.connectors.files.formats.decoder import (
    NotThisFormat,
    Position,
    TooLarge,
    Truncated,
)
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv, TextLines
from penstock.connectors.files.write.rows import HEADERS

from .readings import START, File, drained, read, reading, reading_back, values
from .test_formats import EMPTY, EVERYTHING, FULL, written

ROWS: list[Value] = [FULL, {**EMPTY, "level": 7}, FULL]


def without_marks(schema: Schema | None) -> Schema | None:
    """A schema without the parameters that Confluent's AvroData adds."""
    if schema is None:
        return None
    parameters = {
        name: text
        for name, text in (schema.parameters or {}).items()
        if not name.startswith("io.confluent")
    }
    return Schema(
        schema.type,
        schema.optional,
        schema.default,
        schema.name,
        schema.version,
        schema.doc,
        parameters or None,
        without_marks(schema.key_schema),
        without_marks(schema.value_schema),
        tuple(
            type(field)(field.name, field.index, without_marks(field.schema))  # type: ignore[arg-type]
            for field in schema.fields
        ),
    )


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
@pytest.mark.parametrize(
    "format",
    [
        *(Avro(codec) for codec in AVRO_CODECS),
        *(Parquet(codec) for codec in PARQUET_CODECS),
        *(JsonLines(codec) for codec in FILE_CODECS),
        JsonLines(numeric=True),
        *(Csv(codec) for codec in FILE_CODECS),
        Csv(delimiter="\t"),
    ],
    ids=lambda format: format.ending if isinstance(format, Format) else None,
)
def test_records_that_are_written_are_read(format: Format, max_bytes: int) -> None:
    data = written(format, EVERYTHING, ROWS[:1], [EMPTY, FULL])
    options: dict[str, Any] = {}
    if isinstance(format, JsonLines | Csv):
        options["schema"] = EVERYTHING
    if format.ending == ".csv" and b"\t" in data:
        options["csv_dialect"] = Dialect("\t")
    result = read(reading_back(format, **options), data, max_bytes=max_bytes)
    assert result.error is None
    assert not result.failed
    assert result.values == ROWS
    assert [without_marks(schema) for schema in result.schemas] == [EVERYTHING] * 3


def test_orc_has_no_times() -> None:
    data = written(Orc(), EVERYTHING, ROWS)
    assert values(reading("Orc"), data) == [
        {**row, "clock": None if row["clock"] is None else 47_655_016} for row in ROWS
    ]


@pytest.mark.parametrize("format", [Avro(), Parquet(), Orc()])
@pytest.mark.parametrize(
    ("schema", "some"),
    [
        (INT64, [1, -(1 << 62)]),
        (STRING, ["a", "ü"]),
        (OPTIONAL_STRING, ["a", None]),
        (TIMESTAMP, [datetime(2024, 2, 29, tzinfo=UTC)]),
        (array(STRING), [["a"], []]),
        (HEADERS, [[{"key": "a", "value": "b"}, {"key": "a", "value": ""}], []]),
    ],
)
def test_keys_and_headers_are_read(format: Format, schema: Schema, some: list[Value]) -> None:
    """As the sink writes them: Parquet's in `RecordKey`, all others unwrapped."""
    wrapped = schema
    given = some
    if format.structs_only:
        wrapped = struct({"key": schema}, name="RecordKey")
        given = [{"key": value} for value in some]
    result = read(reading_back(format, member="key"), written(format, wrapped, given))
    if isinstance(format, Orc):
        # Its files do not say that they hold no structs.
        assert result.values == [{"value": value} for value in some]
    else:
        assert result.values == some
        assert [without_marks(each) for each in result.schemas] == [schema] * len(some)


def test_json_values_have_no_schema() -> None:
    some: list[Value] = [{"a": 1, "b": [1.5, None]}, "text", None, 1 << 70, [{"a": 2**63}], True]
    data = written(JsonLines(), None, some)
    result = read(reading("Json"), data)
    assert (result.values, set(result.schemas)) == (some, {None})


BAD_LINES = b'{"a": 1}\n{"a": \n\n  \r\n{"a": 3}\r\n{"a": 4}, {"a": 5}\nNaN\n{"a": 6}'


def test_bad_lines_of_json_fail_by_themselves() -> None:
    result = read(reading("Json"), BAD_LINES)
    assert result.values == [{"a": 1}, None, {"a": 3}, None, None, {"a": 6}]
    assert [(row, str(error)[:8]) for row, error in result.failed.items()] == [
        (1, "Line 2: "),
        (3, "Line 6: "),
        (4, "Line 7: "),
    ]


def test_lines_that_are_json_only_together_fail() -> None:
    result = read(reading("Json"), b'{"a": [{}\n{}]}\n{}, {}\n')
    assert result.values == [None] * 3


def test_bad_lines_are_named_by_their_byte_in_a_range() -> None:
    result = read(reading("Json"), BAD_LINES, Position(0, 5))
    assert str(result.failed[0]).startswith("The line at byte 9: ")
    result = read(reading("Json"), BAD_LINES, Position(2, 21))
    assert str(result.failed[1]).startswith("The line at byte 31: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"a": 1}, [2], "x", 3]', [{"a": 1}, [2], "x", 3]),
        ("[]", []),
        (" \n", []),
        ('{\n "a": [1, 2]\n}', [{"a": [1, 2]}]),
        ('{"a": 1} {"a": 2}\n[3, 4]', [{"a": 1}, {"a": 2}, 3, 4]),
        ("12", [12]),
        (f"[{1 << 70}, 1.5]", [1 << 70, 1.5]),
        ('\ufeff["ü"]', ["ü"]),
    ],
)
@pytest.mark.parametrize("max_bytes", [1, 10_000])
def test_documents_of_json(text: str, expected: list[Value], max_bytes: int) -> None:
    its = reading("Json", json_documents=True)
    assert values(its, text.encode(), max_bytes=max_bytes) == expected
    for skip in range(len(expected) + 1):
        assert values(its, text.encode(), Position(skip, None)) == expected[skip:]


@pytest.mark.parametrize(
    ("text", "good", "error"),
    [
        ('[1, {"a": 2}', [1], Truncated),
        ("[1, 2", [1], Truncated),
        ("[1, ", [1], Truncated),
        ("[1 2]", [], Truncated),
        ("[1, NaN]", [1], Truncated),
        ('{"a": ', [], Truncated),
        ("<xml>", [], NotThisFormat),
    ],
)
def test_documents_that_are_damaged(text: str, good: list[Value], error: type[Exception]) -> None:
    result = read(reading("Json", json_documents=True), text.encode())
    assert (result.values, type(result.error)) == (good, error)


def test_large_documents_are_read_in_pieces() -> None:
    some = [{"id": number, "text": "x" * (number % 700)} for number in range(5000)]
    data = json.dumps(some, indent=1).encode()
    its = reading("Json", json_documents=True, record_max_bytes=1000)
    result = read(its, data, max_bytes=100_000)
    assert result.values == some
    assert len(result.positions) > 10
    too_large = read(reading("Json", json_documents=True), b'["' + b"x" * 300_000)
    assert isinstance(too_large.error, Truncated)
    its = reading("Json", json_documents=True, record_max_bytes=100_000)
    assert isinstance(read(its, b'["' + b"x" * 300_000).error, TooLarge)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "ü\r\n\n🐟\rx\n"),
        ("utf-8", "\ufeffa\nb"),
        ("latin-1", "ü\né"),
        ("utf-16", "ü\n🐟\n"),
        ("utf-16-le", "ਊ\nb\n"),
        ("shift_jis", "表\nソ\n"),
        ("cp037", "a\nb"),
    ],
)
def test_lines_of_text(encoding: str, text: str) -> None:
    data = text.encode(encoding)
    lines = text.removeprefix("\ufeff").split("\n")
    lines = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    for max_bytes in (1, 100):
        result = read(reading("String", encoding=encoding), data, max_bytes=max_bytes)
        assert (result.values, set(result.schemas)) == (lines, {STRING})


def test_lines_that_are_no_text_fail_by_themselves() -> None:
    result = read(reading("String"), b"a\n\xff\nb\n")
    assert result.values == ["a", None, "b"]
    assert "Line 2: it is not text in utf-8" in str(result.failed[1])


def test_a_line_that_has_no_end_is_refused() -> None:
    its = reading("String", record_max_bytes=100_000)
    assert values(its, b"x" * 99_000) == ["x" * 99_000]
    result = read(its, b"a\n" + b"x" * 1_000_000, max_bytes=1000)
    assert result.values == ["a"]
    assert isinstance(result.error, TooLarge)
    assert "larger than 100000 bytes; increase penstock.record.max.bytes" in str(result.error)


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        ({}, b"a\n\nb", [b"a", b"", b"b"]),
        ({"separator": b"\r\n"}, b"a\nb\r\n\xef\xbb\xbfc\r\n", [b"a\nb", b"\xef\xbb\xbfc"]),
        ({"separator": None}, b"a\nb", [b"a\nb"]),
        ({"separator": None}, b"", [b""]),
        ({"separator": None, "slice_bytes": 2}, b"abcde", [b"ab", b"cd", b"e"]),
        ({"separator": None, "slice_bytes": 2}, b"", []),
    ],
)
def test_raw_bytes(options: dict[str, Any], data: bytes, expected: list[bytes]) -> None:
    for max_bytes in (1, 3, 100):
        its = reading("ByteArray", **options)
        result = read(its, data, max_bytes=max_bytes)
        assert (result.values, set(result.schemas)) == (expected, {BYTES} if expected else set())
        for skip in range(len(expected) + 1):
            assert values(its, data, Position(skip, None)) == expected[skip:]
        packed = reading("ByteArray", "a.gz", **options)
        assert values(packed, gzip.compress(data), max_bytes=max_bytes) == expected


def test_a_file_that_is_too_large_for_a_record_is_refused() -> None:
    its = reading("ByteArray", separator=None, record_max_bytes=10)
    assert values(its, b"x" * 10) == [b"x" * 10]
    with pytest.raises(TooLarge, match=r"penstock\.record\.max\.bytes"):
        its.open(File(b"x" * 11), START)
    its = reading("ByteArray", "a.gz", separator=None, record_max_bytes=10)
    assert isinstance(read(its, gzip.compress(b"x" * 11)).error, TooLarge)


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
        (".zst", lambda data: bytes(cramjam.zstd.compress(data))),
        (".sz", lambda data: bytes(cramjam.snappy.compress(data))),
    ],
)
def test_files_that_others_have_compressed(ending: str, pack: Callable[[bytes], bytes]) -> None:
    lines = [f'{{"id": {number}}}\n'.encode() for number in range(20_000)]
    whole = b"".join(lines)
    expected = [{"id": number} for number in range(20_000)]
    its = reading("Json", f"a.json{ending}")
    assert not its.splittable
    assert values(its, pack(whole)) == expected
    members = pack(b"".join(lines[:9000])) + pack(b"".join(lines[9000:]))
    assert values(its, members, max_bytes=1000) == expected
    assert values(its, members, Position(15_000, None)) == expected[15_000:]
    assert values(its, b"") == []
    assert isinstance(read(its, b'{"id": 1}\n').error or None, NotThisFormat)
    for size in (1, 5, len(members) // 3, len(members) - 1):
        result = read(its, members[:size])
        assert isinstance(result.error, Truncated), size
        assert result.values == expected[: len(result.values)]


def test_compression_is_found_where_it_is_not_expected() -> None:
    for its in (reading("Json"), reading("Csv"), reading("String")):
        with pytest.raises(NotThisFormat, match="compressed with gzip"):
            its.open(File(gzip.compress(b"a\n")), START).read(100)
    assert values(reading("String", compression="gzip"), gzip.compress(b"a\n")) == ["a"]


def test_snappy_of_hadoop_and_of_java() -> None:
    def snap(data: bytes) -> bytes:
        return pa.compress(data, "snappy", asbytes=True)  # type: ignore[no-any-return]

    def sized(data: bytes) -> bytes:
        return len(data).to_bytes(4) + data

    its = reading("String", "a.snappy")
    # A block of 8 bytes in two pieces, an empty one, and another one.
    hadoop = (8).to_bytes(4) + sized(snap(b"one\nt")) + sized(snap(b"wo\n")) + bytes(4)
    hadoop += (6).to_bytes(4) + sized(snap(b"three\n"))
    java = b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1, 0, 0, 0, 1])
    java += sized(snap(b"one\nt")) + sized(snap(b"wo\nthree\n"))
    for data in (hadoop, java, hadoop + hadoop, java + java):
        assert values(its, data)[:3] == ["one", "two", "three"]
    data = written(TextLines("snappy"), None, [f"line {number}" for number in range(100_000)])
    assert values(its, data)[-1] == "line 99999"


def test_a_store_that_is_unreachable_is_reported_as_such() -> None:
    class Away(File):
        left = 3

        def read(self, n: int | None = -1, /) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise Unavailable("The store does not answer")
            return super().read(min(n or 1, 64) if n != -1 else 64)

    row = struct({"id": INT64})
    some: list[Value] = [{"id": number} for number in range(50_000)]
    for format in (JsonLines(), JsonLines("zstd"), Avro(), Parquet(), Orc(), JsonLines("snappy")):
        file = Away(written(format, row, some))
        with pytest.raises(Unavailable, match="does not answer"):
            drained(reading_back(format).open(file, START))
