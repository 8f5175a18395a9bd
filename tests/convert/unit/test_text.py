"""StringConverter, cell by cell. Replacements in malformed UTF-8 were printed by a JVM."""

from __future__ import annotations

import pytest

from penstock.api import Failed, Use
from penstock.convert.text import StringConverter
from penstock.data import schema as s
from penstock.data.records import Column, Run
from penstock.data.schema import Value
from penstock.errors import ConfigInvalid


def converter(encoding: str | None = None) -> StringConverter:
    props = {} if encoding is None else {"converter.encoding": encoding}
    return StringConverter(StringConverter.plugin.config.parse(props), Use.VALUE)


def write(column: Column, encoding: str | None = None) -> list[bytes | None]:
    failed: Failed = {}
    cells = converter(encoding).from_connect(["t"] * len(column), column, failed)
    assert not failed
    return cells


def read(cells: list[bytes | None], encoding: str | None = None) -> list[Value]:
    failed: Failed = {}
    column = converter(encoding).to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    assert column.runs == [Run(len(cells), s.OPTIONAL_STRING)]
    return column.values


ENCODINGS = [
    ("UTF8", "aü€", "61c3bce282ac"),
    ("UTF-8", "aü€", "61c3bce282ac"),
    ("ISO-8859-1", "aü", "61fc"),
    ("ISO8859_1", "aü", "61fc"),
    ("US-ASCII", "a", "61"),
    ("UTF-16", "aü", "feff006100fc"),
    ("UTF-16", "", ""),
    ("UTF-16BE", "aü", "006100fc"),
    ("UTF-16LE", "aü", "6100fc00"),
    ("UTF-32", "aü", "00000061000000fc"),
    ("Cp1252", "€", "80"),
    ("windows-1252", "€", "80"),
]


@pytest.mark.parametrize(("encoding", "text", "hex"), ENCODINGS)
def test_text_is_written_and_read_in_java_character_sets(
    encoding: str, text: str, hex: str
) -> None:
    cell = bytes.fromhex(hex)
    assert write(Column.of([text, None], s.STRING), encoding) == [cell, None]
    assert read([cell, None], encoding) == [text, None]


@pytest.mark.parametrize(
    ("encoding", "hex", "text"),
    [("UTF-16", "fffe6100", "a"), ("UTF-16", "0061", "a"), ("UTF-32", "fffe000061000000", "a")],
)
def test_a_byte_order_mark_is_heeded(encoding: str, hex: str, text: str) -> None:
    assert read([bytes.fromhex(hex)], encoding) == [text]


@pytest.mark.parametrize(
    ("hex", "text"),
    [
        ("ff", "�"),
        ("61e28261", "a�a"),
        ("eda080", "�"),
        ("eda041", "�A"),
        ("edbfbf41", "�A"),
        ("c080", "��"),
        ("e08080", "���"),
        ("f09041", "�A"),
        ("f4908080", "����"),
    ],
)
def test_malformed_bytes_are_replaced_as_in_java(hex: str, text: str) -> None:
    assert read([b"fine", bytes.fromhex(hex), None]) == ["fine", text, None]


def test_characters_the_set_lacks_become_question_marks() -> None:
    assert write(Column.of(["aü"], s.STRING), "US-ASCII") == [b"a?"]
    assert write(Column.of(["a\ud800"], s.STRING)) == [b"a?"]


def test_every_value_has_a_text() -> None:
    point = s.struct({"x": s.INT8, "y": s.OPTIONAL_STRING})
    column = Column(
        ["s", 1, None, True, {"k": "v"}, {"x": 1, "y": None}, None, "t"],
        [Run(5, None), Run(7, point.as_optional()), Run(8, s.STRING)],
    )
    assert write(column) == [b"s", b"1", None, b"true", b"{k=v}", b"Struct{x=1}", None, b"t"]


def test_no_rows_make_no_runs() -> None:
    assert converter().to_connect([], [], {}) == Column([], [])


@pytest.mark.parametrize("name", ["klingon", "", "utf_8_sig", "base64", "\0"])
def test_an_unknown_character_set_is_found_by_validation(name: str) -> None:
    with pytest.raises(ConfigInvalid, match="Unknown character set"):
        converter(name)
