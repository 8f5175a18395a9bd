"""The Protobuf converter with a Schema Registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from penstock.api import Failed, Use
from penstock.data import schema as s
from penstock.data.records import Column
from penstock.data.schema import Schema, Value
from penstock.errors import DataError
from penstock.schema_registry.protobuf import ProtobufConverter
from penstock.schema_registry.protobuf_files import (
    from_base64,
    to_base64,
)
from penstock.schema_registry.protobuf_names import (
    TYPE,
)
from penstock.schema_registry.transport import MockTransport

from .protobuf_examples import (
    BOOK,
    BOOK_FILE,
    CHOICE,
    COLOR,
    NOT_READ,
    SINK,
    TREE,
    file_of,
    order_type,
)

Scope = Callable[..., ProtobufConverter]
Register = Callable[..., int]

_numbers = count(1)


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a registry for one test."""
    name = f"protobuf-{next(_numbers)}"
    yield f"mock://{name}"
    MockTransport.forget(name)


@pytest.fixture
def way(url: str) -> MockTransport:
    """The transport to that registry."""
    return MockTransport(url.removeprefix("mock://"))


@pytest.fixture
def scope(url: str) -> Scope:
    """Makes converters that use the registry."""

    def make(use: Use = Use.VALUE, **props: str) -> ProtobufConverter:
        given = {key.replace("__", "."): text for key, text in props.items()}
        given["schema.registry.url"] = url
        return ProtobufConverter(ProtobufConverter.plugin.config.parse(given), use)

    return make


@pytest.fixture
def registry(way: MockTransport) -> Register:
    """Registers files where the converters look for them."""

    def register(subject: str, text: str, **body: Any) -> int:
        body = {"schema": to_base64(file_of(text)), "schemaType": "PROTOBUF", **body}
        return int(way.request("POST", f"/subjects/{subject}/versions", {}, body)["id"])

    return register


def write(
    converter: ProtobufConverter, column: Column, topics: Sequence[str] | None = None
) -> list[bytes | None]:
    failed: Failed = {}
    cells = converter.from_connect(topics or ["t"] * len(column), column, failed)
    assert not failed
    return cells


def read(converter: ProtobufConverter, cells: Sequence[bytes | None]) -> Column:
    failed: Failed = {}
    column = converter.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    return column


def errors_of_writing(converter: ProtobufConverter, column: Column) -> dict[int, str]:
    failed: Failed = {}
    cells = converter.from_connect(["t"] * len(column), column, failed)
    assert all(isinstance(error, DataError) for error in failed.values())
    assert [row for row, cell in enumerate(cells) if cell is None] == list(failed)
    return {row: str(error) for row, error in failed.items()}


def errors_of_reading(
    converter: ProtobufConverter, cells: Sequence[bytes | None]
) -> dict[int, str]:
    failed: Failed = {}
    column = converter.to_connect(["t"] * len(cells), cells, failed)
    assert all(isinstance(error, DataError) for error in failed.values())
    assert len(column) == len(cells)
    assert all(column.values[row] is None for row in failed)
    return {row: str(error) for row, error in failed.items()}


# schema of a field, value, the field's bytes, what it reads as.
FIELDS: list[tuple[Schema, Value, str, Value]] = [
    (s.INT8, -1, "08 ff ff ff ff ff ff ff ff ff 01", -1),
    (s.INT32, 150, "08 96 01", 150),
    (s.INT32, 0, "", 0),
    (s.OPTIONAL_INT32, None, "", 0),
    (s.INT64, -(2**63), "08 80 80 80 80 80 80 80 80 80 01", -(2**63)),
    (replace(s.INT64, parameters={TYPE: "uint32"}), 2**32 - 1, "08 ff ff ff ff 0f", 2**32 - 1),
    (replace(s.INT64, parameters={TYPE: "fixed64"}), -1, "09 ff ff ff ff ff ff ff ff", -1),
    (replace(s.INT32, parameters={TYPE: "sint32"}), -1, "08 01", -1),
    (s.FLOAT32, 1.5, "0d 00 00 c0 3f", 1.5),
    (s.FLOAT64, 1.5, "09 00 00 00 00 00 00 f8 3f", 1.5),
    (s.BOOLEAN, True, "08 01", True),
    (s.STRING, "ü", "0a 02 c3 bc", "ü"),
    (s.BYTES, b"\0", "0a 01 00", b"\0"),
    (s.decimal(2), Decimal("-1.25"), "0a 07 0a 01 83 10 03 18 02", Decimal("-1.25")),
    (s.decimal(3), Decimal("0.000"), "0a 07 0a 01 00 10 01 18 03", Decimal("0.000")),
    (s.DATE, date(2020, 2, 29), "0a 07 08 e4 0f 10 02 18 1d", date(2020, 2, 29)),
    (s.TIME, time(1, 2, 3, 4000), "0a 0b 08 01 10 02 18 03 20 80 92 f4 01", time(1, 2, 3, 4000)),
    (
        s.TIMESTAMP,
        datetime(1969, 12, 31, 23, 59, 59, 1000, UTC),
        "0a 0f 08 ff ff ff ff ff ff ff ff ff 01 10 c0 84 3d",
        datetime(1969, 12, 31, 23, 59, 59, 1000, UTC),
    ),
    (s.array(s.INT32), [1, 300], "0a 03 01 ac 02", [1, 300]),
    (s.array(s.STRING), ["a", ""], "0a 01 61 0a 00", ["a", ""]),
    (s.array(s.STRING), [], "", []),
    (s.array(s.DATE), [date(1, 1, 1)], "0a 06 08 01 10 01 18 01", [date(1, 1, 1)]),
    (s.map_of(s.STRING, s.INT32), {"a": 1}, "0a 05 0a 01 61 10 01", {"a": 1}),
    (s.map_of(s.FLOAT32, s.STRING), {1.5: "x"}, "0a 08 0d 00 00 c0 3f 12 01 78", {1.5: "x"}),
    (
        s.map_of(s.STRING, BOOK),
        {"a": {"title": "x", "pages": 1}},
        "0a 0a 0a 01 61 12 05 0a 01 78 10 01",
        {"a": {"title": "x", "pages": 1}},
    ),
    (
        s.map_of(BOOK, s.BOOLEAN),
        [({"title": "x", "pages": 1}, True)],
        "0a 09 0a 05 0a 01 78 10 01 10 01",
        [({"title": "x", "pages": 1}, True)],
    ),
    (BOOK, {"title": "x"}, "0a 03 0a 01 78", {"title": "x", "pages": 0}),
    (BOOK.as_optional(), None, "", None),
    (
        s.array(BOOK),
        [{"title": "x"}, {}],
        "0a 03 0a 01 78 0a 00",
        [{"title": "x", "pages": 0}, {"title": "", "pages": 0}],
    ),
    (COLOR, "RED", "08 01", "RED"),
    (replace(s.OPTIONAL_INT32, default=7), None, "08 07", 7),
]


@pytest.mark.parametrize(("schema", "value", "data", "back"), FIELDS)
def test_values_are_written_and_read(
    schema: Schema, value: Value, data: str, back: Value, scope: Scope
) -> None:
    converter = scope()
    row = {"f": value}
    before = deepcopy(row)
    (cell,) = write(converter, Column.of([row], s.struct({"f": schema}, name="M")))
    assert row == before
    assert cell is not None
    assert cell == b"\0\0\0\0\1\0" + bytes.fromhex(data), cell[6:].hex(" ")
    column = read(converter, [cell])
    assert column.values == [{"f": back}]


@pytest.mark.parametrize("row", [{"choice_0": {"a": "x"}}, {"choice_0": {"b": 0}}, {}])
def test_unions_are_written_and_read(row: Value, scope: Scope) -> None:
    converter = scope()
    cells = write(converter, Column.of([row], s.struct({"choice_0": CHOICE}, name="M")))
    union = row.get("choice_0")
    expected = union and {"a": None, "b": None, **union}
    assert read(converter, cells).values == [{"choice_0": expected}]


def test_values_that_were_read_are_written_unchanged(scope: Scope, registry: Register) -> None:
    registry("t-value", SINK)
    message = GetMessageClass(order_type())(
        id=2**64 - 1, small=7, note="", state=2, tags=["a"], cash={"cents": 3}, lines=[{}]
    )
    message.at.seconds = 9
    data = b"\0\0\0\0\1\0" + message.SerializeToString()
    converter = scope(optional__for__nullables="true", wrapper__for__raw__primitives="false")
    column = read(converter, [data])
    (cell,) = write(converter, column, ["other"])
    assert cell == b"\0\0\0\0\2\0" + data[6:]


def test_nullable_fields_can_be_optional_or_wrapped(scope: Scope) -> None:
    schema = s.struct({"a": s.OPTIONAL_INT32, "b": s.OPTIONAL_STRING, "c": s.INT32}, name="M")
    rows = [{"a": 0, "b": None, "c": 0}, {"a": None, "b": "", "c": 1}]
    for setting in ("optional__for__nullables", "wrapper__for__nullables"):
        converter = scope(**{setting: "true"})
        cells = write(converter, Column.of(rows, schema), [setting, setting])
        failed: Failed = {}
        column = converter.to_connect([setting] * 2, cells, failed)
        assert not failed
        assert column.values == rows
        read_schema = column.runs[0].schema
        assert read_schema is not None
        assert [field.schema.optional for field in read_schema.fields] == [True, True, False]


def test_names_that_are_not_allowed_are_scrubbed(scope: Scope) -> None:
    schema = s.struct({"a-b": s.INT32, "c": s.STRING}, name="M")
    converter = scope(scrub__invalid__names="true")
    cells = write(converter, Column.of([{"a-b": 1, "c": "x"}], schema))
    assert read(converter, cells).values == [{"a_b": 1, "c": "x"}]


def test_null_is_a_tombstone(scope: Scope, way: MockTransport) -> None:
    converter = scope()
    assert write(converter, Column.of([None], None)) == [None]
    assert write(converter, Column.of([None], BOOK.as_optional())) == [None]
    assert way.request("GET", "/subjects") == []
    cells = write(converter, Column.of([None, {"title": "x"}, None], BOOK.as_optional()))
    assert cells == [None, b"\0\0\0\0\1\0\n\1x", None]
    column = read(converter, cells)
    assert [run.schema is None for run in column.runs] == [True, False, True]


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        (s.INT32, 5, b"\0\0\0\0\1\2\x08\x08\x05"),
        (s.STRING, "x", b"\0\0\0\0\1\2\x0e\n\1x"),
        (s.OPTIONAL_BOOLEAN, False, b"\0\0\0\0\1\2\x0c"),
    ],
)
def test_single_values_are_written_and_read(
    schema: Schema, value: Value, data: bytes, scope: Scope
) -> None:
    converter = scope()
    assert write(converter, Column.of([value], schema)) == [data]
    column = read(converter, [data])
    assert column.values == [value]
    assert column.runs[0].schema == replace(schema.as_required(), version=1)


REFUSED_VALUES: list[tuple[Schema, Value, str]] = [
    (s.INT8, 200, "Field 'f': Invalid type for INT8: class java.lang.Long"),
    (s.INT32, 2**31, "Field 'f': Invalid type for INT32: class java.lang.Long"),
    (s.INT32, "x", "Field 'f': Invalid type for INT32: class java.lang.String"),
    (s.INT32, True, "Field 'f': Invalid type for INT32: class java.lang.Boolean"),
    (s.STRING, 5, "Field 'f': Invalid type for STRING: class java.lang.Long"),
    (s.STRING, "\ud800", "Invalid value for the Protobuf schema: 'utf-8' codec can't encode"),
    (s.BYTES, 5, "Field 'f': Invalid type for BYTES: class java.lang.Long"),
    (s.BOOLEAN, "x", "Field 'f': Invalid type for BOOLEAN: class java.lang.String"),
    (s.array(s.INT32), {}, "Field 'f': Invalid type for ARRAY: class java.util.HashMap"),
    (s.array(s.INT32), [1, None], "Field 'f': Protobuf cannot have null in a repeated field"),
    (s.array(s.INT32), ["x"], "Field 'f[0]': Invalid type for INT32: class java.lang.String"),
    (s.map_of(s.STRING, s.INT32), "x", "Field 'f': Invalid type for MAP: class java.lang.String"),
    (
        s.map_of(s.STRING, s.INT32),
        {"a": "x"},
        "Field 'f[\"a\"]': Invalid type for INT32: class java.lang.String",
    ),
    (BOOK, 5, "Field 'f': Invalid type for STRUCT: class java.lang.Long"),
    (BOOK, {"nope": 1}, "Field 'f': Mismatching struct schema"),
    (s.DATE, 5, "Field 'f': Invalid type for Date, expected Date but was class java.lang.Long"),
    (s.decimal(1), 5, "Field 'f': Invalid type for Decimal, expected BigDecimal but was"),
    (CHOICE, {"a": None}, "Field 'f': Cannot find non-null field"),
    (COLOR, "BLUE", "Field 'f': 'BLUE' is not a symbol of the enum Color"),
]


@pytest.mark.parametrize(("schema", "value", "message"), REFUSED_VALUES)
def test_values_that_are_not_their_schemas_are_refused(
    schema: Schema, value: Value, message: str, scope: Scope
) -> None:
    rows = Column.of([{"f": None}, {"f": value}, {}], s.struct({"f": schema}, name="M"))
    errors = errors_of_writing(scope(), rows)
    assert errors.keys() == {1}
    assert errors[1].startswith(message)


def test_a_struct_with_an_unknown_field_is_refused(scope: Scope) -> None:
    errors = errors_of_writing(scope(), Column.of([{"title": "x", "more": 1}], BOOK))
    assert errors == {0: "Mismatching struct schema"}


def test_bad_messages_are_refused_and_cost_no_neighbour(scope: Scope, registry: Register) -> None:
    registry("t-value", BOOK_FILE)
    start = b"\0\0\0\0\1\0"
    retrieving = f"{NOT_READ}Error retrieving Protobuf value schema for id"
    bad = {
        b"": f"{NOT_READ}Unknown magic byte!",
        b"\0\0\0\0\1": f"{NOT_READ}Invalid message indexes: a number does not end",
        b"\0\0\0\0\1\2\4": f"{retrieving} 1: Invalid message indexes: [2]",
        b"\0\0\0\0\x09\0": f"{retrieving} 9: Schema 9 not found; error code: 40403",
        start + b"\n\xff": "",
    }
    cells = [cell for each in bad for cell in (start + b"\n\1x", each)]
    errors = errors_of_reading(scope(), [*cells, start])
    assert list(errors) == [1, 3, 5, 7, 9]
    *of_registry, of_message = errors.values()
    assert of_registry == [*bad.values()][:-1]
    assert of_message.startswith("Invalid Protobuf message: ")


@pytest.mark.parametrize(
    ("field", "data", "message"),
    [
        (s.DATE, "0a 00", "Field 'f': Invalid google.type.Date: 0-0-0"),
        (s.TIME, "0a 02 08 19", "Field 'f': Invalid google.type.TimeOfDay: hour must be in 0..23"),
        (s.decimal(0), "0a 00", "Field 'f': Zero length BigInteger"),
    ],
)
def test_messages_without_a_logical_value_are_refused(
    field: Schema, data: str, message: str, scope: Scope
) -> None:
    converter = scope()
    write(converter, Column.of([{}], s.struct({"f": field}, name="M")))
    (error,) = errors_of_reading(converter, [b"\0\0\0\0\1\0" + bytes.fromhex(data)]).values()
    assert error.startswith(message)


def test_nested_and_later_messages_are_read_by_path(scope: Scope, registry: Register) -> None:
    registry("t-value", SINK)
    inner, money = b"\0\0\0\0\1\4\0\2\x08\1", b"\0\0\0\0\1\2\2\x08\x04"
    column = read(scope(), [inner, money, inner])
    assert column.values == [{"x": True}, {"cents": 2}, {"x": True}]
    assert [run.schema and run.schema.name for run in column.runs] == ["Inner", "Money", "Inner"]


SHELF_FILE = """
    name: "shelf.proto" package: "lib" syntax: "proto3" dependency: "lib/book.proto"
    message_type {
      name: "Shelf"
      field { name: "books" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
              type_name: ".lib.Book" }
    }
"""


def test_a_missing_reference_is_refused(scope: Scope, registry: Register) -> None:
    registry("t-value", SHELF_FILE)
    (error,) = errors_of_reading(scope(), [b"\0\0\0\0\1\0"]).values()
    assert error.startswith(
        f"{NOT_READ}Error retrieving Protobuf value schema for id 1: Invalid Protobuf schema: "
    )


LATEST = {"auto__register__schemas": "false", "use__latest__version": "true"}
MOVED_FILE = """
    name: "default" package: "lib" syntax: "proto3"
    message_type { name: "Other" }
    message_type {
      name: "Book"
      field { name: "title" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
      field { name: "pages" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
      field { name: "year" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
    }
"""


def test_the_latest_version_is_used_by_the_place_it_has_the_message(
    scope: Scope, registry: Register
) -> None:
    registry("t-value", MOVED_FILE)
    converter = scope(**LATEST)
    cells = write(converter, Column.of([{"title": "x", "pages": 1}], BOOK))
    assert cells == [b"\0\0\0\0\1\2\2\n\1x\x10\1"]
    assert read(converter, cells).values == [{"title": "x", "pages": 1, "year": 0}]


def test_a_latest_version_that_cannot_be_used_is_refused(scope: Scope, registry: Register) -> None:
    registry("t-value", TREE)
    books = Column.of([{"title": "x"}], BOOK)
    (error,) = errors_of_writing(scope(**LATEST), books).values()
    assert "latest.compatibility.strict=false" in error
    lenient = scope(**LATEST, latest__compatibility__strict="false")
    (error,) = errors_of_writing(lenient, books).values()
    assert error.endswith("The schema 1 has no message lib.Book")


def test_a_registry_that_answers_with_text_is_reported() -> None:
    with pytest.raises(DataError, match=r"\.proto text is not supported"):
        from_base64('syntax = "proto3"; message M {}')
