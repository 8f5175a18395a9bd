"""Connect schemas and values of Protobuf messages that others have written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from penstock.data import schema as s
from penstock.data.schema import Schema, Type, Value
from penstock.schema_registry.protobuf_connect import connect_schema
from penstock.schema_registry.protobuf_files import (
    message_at,
    pool_of,
)
from penstock.schema_registry.protobuf_names import (
    ENUM,
    GENERAL_ENUM,
    GENERAL_UNION,
    TAG,
    TYPE,
    UNION,
    Options,
)
from penstock.schema_registry.protobuf_read import reader
from penstock.schema_registry.protobuf_schema import message_file

from .protobuf_examples import (
    PLAIN,
    file_of,
    order_type,
    tagged,
)

MONEY = s.struct(
    {"cents": Schema(Type.INT64, optional=True, parameters={TYPE: "sint64", TAG: "1"})},
    name="Money",
    optional=True,
)
STATE = Schema(
    Type.STRING,
    optional=True,
    name="State",
    parameters={ENUM: "State", f"{ENUM}.OPEN": "0", f"{ENUM}.SENT": "2", TAG: "4"},
)
PAYMENT = s.struct(
    {"card": tagged(s.OPTIONAL_STRING, 7), "cash": tagged(MONEY, 8)},
    name=f"{UNION}.payment",
    optional=True,
)
ORDER = s.struct(
    {
        "payment_0": PAYMENT,
        "id": Schema(Type.INT64, optional=True, parameters={TYPE: "uint64", TAG: "1"}),
        "small": Schema(Type.INT64, optional=True, parameters={TYPE: "fixed32", TAG: "2"}),
        "note": tagged(s.OPTIONAL_STRING, 3),
        "state": STATE,
        "tags": tagged(s.array(s.OPTIONAL_STRING, optional=True), 5),
        "prices": Schema(
            Type.MAP,
            optional=True,
            name="prices",
            parameters={TAG: "6"},
            key_schema=tagged(s.OPTIONAL_STRING, 1),
            value_schema=tagged(MONEY, 2),
        ),
        "total": tagged(MONEY, 9),
        "vip": tagged(s.OPTIONAL_BOOLEAN, 10),
        "at": tagged(s.TIMESTAMP.as_optional(), 11),
        "lines": tagged(s.array(MONEY, optional=True), 12),
    },
    name="Order",
)
NOTHING = {
    "payment_0": None,
    "id": 0,
    "small": 0,
    "note": None,
    "state": "OPEN",
    "tags": [],
    "prices": {},
    "total": None,
    "vip": None,
    "at": None,
    "lines": [],
}


def read_order(options: Options = PLAIN, **fields: Any) -> Value:
    """What an order with these fields reads as."""
    made = order_type()
    return reader(made, options, 0)(GetMessageClass(made)(**fields).SerializeToString())


def test_messages_of_others_have_schemas() -> None:
    assert connect_schema(order_type(), PLAIN) == ORDER
    assert connect_schema(order_type(), PLAIN, 5) == replace(ORDER, version=5)


# Fields that are set, what they read as.
ORDERS: list[tuple[dict[str, Any], dict[str, Value]]] = [
    ({}, {}),
    ({"id": 2**64 - 1, "small": 2**32 - 1}, {"id": -1, "small": 2**32 - 1}),
    ({"id": 2**63}, {"id": -(2**63)}),
    ({"note": ""}, {"note": ""}),
    ({"state": 2}, {"state": "SENT"}),
    ({"state": 7}, {"state": "UNKNOWN_ENUM_VALUE_State_7"}),
    ({"tags": ["a", ""]}, {"tags": ["a", ""]}),
    ({"card": ""}, {"payment_0": {"card": "", "cash": None}}),
    ({"cash": {"cents": -5}}, {"payment_0": {"card": None, "cash": {"cents": -5}}}),
    ({"total": {}}, {"total": {"cents": 0}}),
    ({"vip": {}}, {"vip": False}),
    ({"vip": {"value": True}}, {"vip": True}),
    (
        {"at": {"seconds": -1, "nanos": 999_999_999}},
        {"at": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)},
    ),
    ({"lines": [{"cents": 1}, {}]}, {"lines": [{"cents": 1}, {"cents": 0}]}),
]


@pytest.mark.parametrize(("fields", "values"), ORDERS)
def test_messages_of_others_are_read(fields: dict[str, Any], values: dict[str, Value]) -> None:
    assert read_order(**fields) == NOTHING | values


def test_maps_of_others_are_read() -> None:
    made = order_type()
    order = GetMessageClass(made)()
    order.prices["a"].cents = 4
    order.prices["b"].SetInParent()
    assert reader(made, PLAIN, 0)(order.SerializeToString())["prices"] == {
        "a": {"cents": 4},
        "b": {"cents": 0},
    }


def field_of(options: Options, name: str) -> Schema:
    found = connect_schema(order_type(), options).field(name)
    assert found is not None
    return found.schema


def test_names_can_keep_their_package() -> None:
    options = Options(enhanced=True)
    assert connect_schema(order_type(), options).name == "shop.Order"
    assert field_of(options, "state").name == "shop.State"
    assert field_of(options, "payment_0").name == f"{UNION}.shop.Order.payment"
    assert field_of(options, "total").name == "shop.Money"


def test_enums_can_be_numbers() -> None:
    options = Options(int_for_enums=True)
    assert field_of(options, "state").type is Type.INT32
    assert read_order(options, state=2)["state"] == 2


def test_only_what_is_declared_optional_can_be_optional() -> None:
    options = Options(optional_for_nullables=True)
    optional = {
        name: field_of(options, name).optional for name in ("id", "note", "tags", "total", "state")
    }
    assert optional == {"id": False, "note": True, "tags": True, "total": True, "state": True}


def test_only_wrappers_and_messages_can_be_optional() -> None:
    options = Options(wrapper_for_nullables=True)
    optional = {name: field_of(options, name).optional for name in ("id", "note", "vip", "total")}
    assert optional == {"id": False, "note": False, "vip": True, "total": True}


def test_wrappers_can_stay_messages() -> None:
    options = Options(wrapper_for_raw_primitives=False)
    assert field_of(options, "vip").field_names == ("value",)
    assert read_order(options, vip={"value": True})["vip"] == {"value": True}


def test_absent_messages_can_be_structs_of_nothing() -> None:
    read = read_order(Options(struct_for_nulls=True))
    assert read == NOTHING | {"total": {"cents": 0}}


def test_unions_can_do_without_their_number() -> None:
    options = Options(index_for_unions=False)
    assert field_of(options, "payment") == PAYMENT
    assert read_order(options, card="x")["payment"] == {"card": "x", "cash": None}


def test_unions_can_be_flat() -> None:
    options = Options(flatten_unions=True)
    assert field_of(options, "card") == tagged(s.OPTIONAL_STRING, 7)
    assert field_of(options, "cash") == tagged(MONEY, 8)
    expected = {name: value for name, value in NOTHING.items() if name != "payment_0"}
    assert read_order(options) == {"card": None, "cash": None} | expected
    assert read_order(options, cash={}) == {"card": None, "cash": {"cents": 0}} | expected


def test_generalized_sum_types_have_the_common_representation() -> None:
    options = Options(generalized=True)
    union = field_of(options, "payment_0")
    assert (union.name, union.parameters) == ("payment", {GENERAL_UNION: "payment"})
    assert field_of(options, "state").parameters == {
        GENERAL_ENUM: "State",
        f"{GENERAL_ENUM}.OPEN": "0",
        f"{GENERAL_ENUM}.SENT": "2",
        TAG: "4",
    }
    file = message_file(connect_schema(order_type(), options), options).file
    (payment,) = (each for each in file.message_type[0].oneof_decl if each.name[0] != "_")
    assert payment.name == "payment"


PROTO2 = """
    name: "default" syntax: "proto2"
    message_type {
      name: "Old"
      field { name: "o" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
      field { name: "d" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "4" }
      field { name: "r" number: 3 label: LABEL_REQUIRED type: TYPE_INT32 }
    }
"""


def test_optional_fields_of_proto2_are_null_or_their_default() -> None:
    old = message_at(pool_of(file_of(PROTO2)), "default", [0])
    data = GetMessageClass(old)(r=1).SerializeToString()
    assert reader(old, PLAIN, 0)(data) == {"o": None, "d": None, "r": 1}
    unsupported = Options(optional_for_proto2=False)
    assert reader(old, unsupported, 0)(data) == {"o": 0, "d": 4, "r": 1}
