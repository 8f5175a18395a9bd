"""ByteArrayConverter."""

from __future__ import annotations

from penstock.api import Failed, Use
from penstock.convert.raw import ByteArrayConverter
from penstock.data import schema as s
from penstock.data.records import Column, Run

CONVERTER = ByteArrayConverter(ByteArrayConverter.plugin.config.parse({}), Use.VALUE)


def test_bytes_are_read_as_they_are() -> None:
    column = CONVERTER.to_connect(["t"] * 2, [b"\x00", None], {})
    assert column == Column([b"\x00", None], [Run(2, s.OPTIONAL_BYTES)])


def test_only_bytes_are_written() -> None:
    failed: Failed = {}
    column = Column(
        [b"a", None, bytearray(b"b"), "text", 5, 1, None],
        [Run(3, s.OPTIONAL_BYTES), Run(5, None), Run(7, s.OPTIONAL_INT8)],
    )
    cells = CONVERTER.from_connect(["t"] * 7, column, failed)
    assert cells == [b"a", None, b"b", None, None, None, None]
    assert {row: str(error) for row, error in failed.items()} == {
        3: "ByteArrayConverter is not compatible with objects of type class java.lang.String",
        4: "ByteArrayConverter is not compatible with objects of type class java.lang.Long",
        5: "Invalid schema type for ByteArrayConverter: INT8",
        6: "Invalid schema type for ByteArrayConverter: INT8",
    }
