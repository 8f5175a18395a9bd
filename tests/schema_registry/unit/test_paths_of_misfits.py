"""Errors of the converters say which field, element or entry does not fit, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count

import pytest

from penstock.api import Converter, Failed, Use
from penstock.convert.json import JsonConverter
from penstock.data import schema as s
from penstock.data.records import Column
from penstock.data.schema import Schema, Value
from penstock.schema_registry.avro import AvroConverter
from penstock.schema_registry.json_schema import JsonSchemaConverter
from penstock.schema_registry.protobuf import ProtobufConverter
from penstock.schema_registry.transport import MockTransport

_numbers = count(1)
Make = Callable[[type[Converter]], Converter]


def line(name: str) -> Schema:
    return s.struct({"price": s.decimal(2), "on": s.DATE.as_optional()}, name=name)


ORDER = s.struct(
    {
        "id": s.INT32,
        "lines": s.array(line("Line")),
        "by_day": s.map_of(s.STRING, line("OfDay")),
        "by_number": s.map_of(s.INT32, line("OfNumber")),
        "buyer": s.struct({"address": s.struct({"zip": s.STRING}, name="Address")}, name="Buyer"),
        "scores": s.array(s.FLOAT32),
    },
    name="Order",
)
GOOD = {"price": Decimal("1.00"), "on": None}
BAD = {"price": "dear", "on": None}
NOT_DECIMAL = "Invalid type for Decimal, expected BigDecimal but was class java.lang.String"


def order(**changed: Value) -> Value:
    return {
        "id": 1,
        "lines": [],
        "by_day": {},
        "by_number": {},
        "buyer": {"address": {"zip": "1"}},
        "scores": [],
    } | changed


@pytest.fixture
def make() -> Iterator[Make]:
    name = f"paths-{next(_numbers)}"

    def made(kind: type[Converter]) -> Converter:
        props = {} if kind is JsonConverter else {"schema.registry.url": f"mock://{name}"}
        return kind(kind.plugin.config.parse(props), Use.VALUE)

    yield made
    MockTransport.forget(name)


def write(
    converter: Converter, value: Value, schema: Schema = ORDER
) -> tuple[list[bytes | None], Failed]:
    failed: Failed = {}
    return converter.from_connect(["t"], Column.of([value], schema), failed), failed


def error_of_reading(converter: Converter, cell: bytes) -> str:
    failed: Failed = {}
    converter.to_connect(["t"], [cell], failed)
    return str(failed[0])


ALL = (JsonConverter, AvroConverter, ProtobufConverter, JsonSchemaConverter)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (order(id="x"), "id", "Invalid type for INT32: class java.lang.String"),
        (order(lines=5), "lines", "Invalid type for ARRAY: class java.lang.Long"),
        (order(lines=[GOOD, BAD]), "lines[1].price", NOT_DECIMAL),
        (order(by_day={"mon": GOOD, "tue": BAD}), 'by_day["tue"].price', NOT_DECIMAL),
        (order(by_number={7: BAD}), "by_number[7].price", NOT_DECIMAL),
        (
            order(buyer={"address": {"zip": 8050}}),
            "buyer.address.zip",
            "Invalid type for STRING: class java.lang.Long",
        ),
    ],
)
def test_a_value_that_cannot_be_written_is_named(
    kind: type[Converter], value: Value, path: str, reason: str, make: Make
) -> None:
    _, failed = write(make(kind), value)
    assert str(failed[0]) == f"Field '{path}': {reason}"


def test_a_number_that_needs_a_double_is_named(make: Make) -> None:
    _, failed = write(make(AvroConverter), order(scores=[1.0, 1e300]))
    assert str(failed[0]).startswith("Field 'scores[1]': float too large")


def test_json_that_cannot_be_read_is_named(make: Make) -> None:
    converter = make(JsonConverter)
    (cell,), _ = write(
        converter, order(lines=[GOOD, GOOD], by_day={"d": GOOD}, by_number={7: GOOD})
    )
    assert cell is not None
    price = b'"price":"ZA=="'
    assert cell.count(price) == 4
    before, *between, after = cell.split(price)
    for wrong, path in enumerate(
        ("lines[0].price", "lines[1].price", 'by_day["d"].price', "by_number[7].price")
    ):
        prices = [b'"price":true' if at == wrong else price for at in range(4)]
        pieces = [before, *(prices[at] + rest for at, rest in enumerate([*between, after]))]
        assert error_of_reading(converter, b"".join(pieces)) == (
            f"Field '{path}': Invalid type for Decimal, underlying representation should be "
            "numeric or bytes but was BOOLEAN"
        )


def test_json_of_a_json_schema_that_cannot_be_read_is_named(make: Make) -> None:
    converter = make(JsonSchemaConverter)
    write(converter, order())
    for json, path in (
        (b'{"lines":[{"price":true}]}', "lines[0].price"),
        (b'{"by_day":{"d":{"price":true}}}', 'by_day["d"].price'),
        (b'{"by_number":[{"key":7,"value":{"price":true}}]}', "by_number[7].price"),
    ):
        assert error_of_reading(converter, b"\0\0\0\0\1" + json).startswith(f"Field '{path}': ")


FAR = s.struct(
    {
        "first": s.INT32,
        "days": s.array(s.struct({"on": s.DATE}, name="Day")),
        "named": s.map_of(s.STRING, s.DATE),
        "more": s.struct({"on": s.DATE.as_optional()}, name="More"),
    },
    name="Far",
)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ("02 02 fe ff ff ff 0f 00 00 00", "days[0].on"),
        ("02 04 00 fe ff ff ff 0f 00 00 00", "days[1].on"),
        ("02 00 02 02 61 fe ff ff ff 0f 00 00", 'named["a"]'),
        ("02 00 00 02 fe ff ff ff 0f", "more.on"),
    ],
)
def test_avro_that_cannot_be_read_is_named(data: str, path: str, make: Make) -> None:
    converter = make(AvroConverter)
    write(converter, {"first": 1, "days": [], "named": {}, "more": {"on": None}}, FAR)
    error = error_of_reading(converter, b"\0\0\0\0\1" + bytes.fromhex(data))
    assert error == f"Field '{path}': Date 2147483647 is outside the years 1 to 9999"


def test_avro_that_ends_too_early_is_named(make: Make) -> None:
    converter = make(AvroConverter)
    write(converter, order())
    error = error_of_reading(converter, b"\0\0\0\0\1" + bytes.fromhex("02 02 0a 31"))
    assert error.endswith("(Malformed: field 'lines[0].price': the data ends too early)")


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ("12 02 0a 00", "days[0].on"),
        ("12 0b 0a 09 08 e8 0f 10 01 18 01 00 00", ""),
        ("1a 05 0a 01 61 12 00", 'named["a"]'),
        ("22 02 0a 00", "more.on"),
    ],
)
def test_protobuf_that_cannot_be_read_is_named(data: str, path: str, make: Make) -> None:
    converter = make(ProtobufConverter)
    write(converter, {"first": 1, "days": [], "named": {}, "more": {"on": None}}, FAR)
    error = error_of_reading(converter, b"\0\0\0\0\1\0" + bytes.fromhex(data))
    named = f"Field '{path}': Invalid google.type.Date" if path else "Invalid Protobuf message"
    assert error.startswith(named)
