"""ProtobufConverter: tables of files, schemas and values, and what the registry is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from penstock.api import Failed, Use
from penstock.data import schema as s
from penstock.data.records import Column
from penstock.data.schema import Schema, Type, Value
from penstock.errors import DataError
from penstock.schema_registry.protobuf import ProtobufConverter
from penstock.schema_registry.protobuf_connect import connect_schema
from penstock.schema_registry.protobuf_files import (
    decode_path,
    encode_path,
    field_params,
    from_base64,
    known_file,
    message_at,
    path_to,
    pool_of,
    to_base64,
)
from penstock.schema_registry.protobuf_names import (
    ENUM,
    GENERAL_ENUM,
    GENERAL_UNION,
    TAG,
    TYPE,
    UNION,
    Options,
    entry_name,
    map_name,
    scrubbed,
)
from penstock.schema_registry.protobuf_schema import message_file
from penstock.schema_registry.protobuf_values import reader
from penstock.schema_registry.transport import MockTransport

PLAIN = Options()
NOT_READ = "Converting byte[] to Kafka Connect data failed due to serialization error of topic t: "

BOOK = s.struct({"title": s.STRING, "pages": s.OPTIONAL_INT32}, name="lib.Book")
BOOK_FILE = """
    name: "default" package: "lib" syntax: "proto3"
    message_type {
      name: "Book"
      field { name: "title" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
      field { name: "pages" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
    }
"""
COLOR = Schema(
    Type.STRING, name="Color", parameters={ENUM: "Color", f"{ENUM}.RED": "1", f"{ENUM}.NO": "0"}
)
CHOICE = s.struct(
    {"a": replace(s.OPTIONAL_STRING, parameters={TAG: "3"}), "b": s.OPTIONAL_INT64},
    name=f"{UNION}.choice",
    optional=True,
)


def file_of(text: str) -> FileDescriptorProto:
    return text_format.Parse(text, FileDescriptorProto())


def tagged(schema: Schema, number: int) -> Schema:
    return replace(schema, parameters={**(schema.parameters or {}), TAG: str(number)})


# Connect schema, settings, the file that is registered for it.
WRITTEN: dict[str, tuple[Schema, Options, str]] = {
    "a struct": (BOOK, PLAIN, BOOK_FILE),
    "no name": (
        s.struct({"s": s.struct({"x": s.BOOLEAN}), "m": s.map_of(s.STRING, s.BYTES)}),
        PLAIN,
        """
        name: "default" syntax: "proto3"
        message_type {
          name: "ConnectDefault1"
          field { name: "s" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                  type_name: "ConnectDefault2" }
          field { name: "m" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE
                  type_name: "ConnectDefault3Entry" }
          nested_type {
            name: "ConnectDefault2"
            field { name: "x" number: 1 label: LABEL_OPTIONAL type: TYPE_BOOL }
          }
          nested_type {
            name: "ConnectDefault3Entry"
            field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
            field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
          }
        }
        """,
    ),
    "numbers and types by parameter": (
        s.struct(
            {
                "a": Schema(Type.INT64, parameters={TAG: "7", TYPE: "uint32"}),
                "b": Schema(Type.INT32, parameters={TAG: "2", TYPE: "sfixed32"}),
                "c": s.FLOAT32,
            },
            name="M",
        ),
        PLAIN,
        """
        name: "default" syntax: "proto3"
        message_type {
          name: "M"
          field { name: "a" number: 7 label: LABEL_OPTIONAL type: TYPE_UINT32 }
          field { name: "b" number: 2 label: LABEL_OPTIONAL type: TYPE_SFIXED32 }
          field { name: "c" number: 1 label: LABEL_OPTIONAL type: TYPE_FLOAT }
        }
        """,
    ),
    "an enum": (
        s.struct({"c": COLOR, "l": s.array(COLOR)}, name="M"),
        PLAIN,
        """
        name: "default" syntax: "proto3"
        message_type {
          name: "M"
          field { name: "c" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: "Color" }
          field { name: "l" number: 2 label: LABEL_REPEATED type: TYPE_ENUM type_name: "Color" }
          enum_type { name: "Color" value { name: "NO" number: 0 } value { name: "RED" number: 1 } }
        }
        """,
    ),
    "a oneof": (
        s.struct({"choice_0": CHOICE, "z": s.FLOAT64}, name="M"),
        PLAIN,
        """
        name: "default" syntax: "proto3"
        message_type {
          name: "M"
          field { name: "a" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
          field { name: "b" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 oneof_index: 0 }
          field { name: "z" number: 2 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
          oneof_decl { name: "choice" }
        }
        """,
    ),
    "optional fields": (
        s.struct({"o": s.OPTIONAL_STRING, "choice_0": CHOICE, "r": s.STRING}, name="M"),
        Options(optional_for_nullables=True),
        """
        name: "default" syntax: "proto3"
        message_type {
          name: "M"
          field { name: "o" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING
                  oneof_index: 1 proto3_optional: true }
          field { name: "a" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
          field { name: "b" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 oneof_index: 0 }
          field { name: "r" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING }
          oneof_decl { name: "choice" }
          oneof_decl { name: "_o" }
        }
        """,
    ),
    "wrappers": (
        s.struct({"o": s.OPTIONAL_STRING, "l": s.array(s.OPTIONAL_INT64)}, name="M"),
        Options(wrapper_for_nullables=True),
        """
        name: "default" syntax: "proto3" dependency: "google/protobuf/wrappers.proto"
        message_type {
          name: "M"
          field { name: "o" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                  type_name: "google.protobuf.StringValue" }
          field { name: "l" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE
                  type_name: "google.protobuf.Int64Value" }
        }
        """,
    ),
    "logical types": (
        s.struct({"d": s.DATE, "t": s.TIME, "at": s.TIMESTAMP}, name="M"),
        PLAIN,
        """
        name: "default" syntax: "proto3"
        dependency: "google/type/date.proto" dependency: "google/type/timeofday.proto"
        dependency: "google/protobuf/timestamp.proto"
        message_type {
          name: "M"
          field { name: "d" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                  type_name: "google.type.Date" }
          field { name: "t" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                  type_name: "google.type.TimeOfDay" }
          field { name: "at" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                  type_name: "google.protobuf.Timestamp" }
        }
        """,
    ),
    "names that are not allowed": (
        s.struct({"a-b": s.STRING}, name="x y.1M"),
        Options(scrub=True),
        """
        name: "default" package: "x_y" syntax: "proto3"
        message_type {
          name: "x1M"
          field { name: "a_b" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
        }
        """,
    ),
    "a field named as its message": (
        s.struct({"B": s.struct({}, name="B")}, name="M"),
        PLAIN,
        """
        name: "default" syntax: "proto3"
        message_type {
          name: "M"
          field { name: "B" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                  type_name: "BMessage" }
          nested_type { name: "BMessage" }
        }
        """,
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_schemas_are_written_as_files(case: str) -> None:
    schema, options, text = WRITTEN[case]
    made = message_file(schema, options)
    assert made.file == file_of(text)
    # What is registered is a valid file that has the message.
    pool = pool_of(from_base64(to_base64(made.file)))
    assert message_at(pool, "default", made.path).full_name == made.full_name


def test_small_integers_and_decimals_are_described_by_options() -> None:
    decimal = replace(s.decimal(2), parameters={"scale": "2", "connect.decimal.precision": "9"})
    schema = s.struct({"b": s.INT8, "s": s.INT16, "d": decimal}, name="M")
    file = message_file(schema, PLAIN).file
    assert list(file.dependency) == ["confluent/meta.proto", "confluent/type/decimal.proto"]
    assert [field_params(field) for field in file.message_type[0].field] == [
        {"connect.type": "int8"},
        {"connect.type": "int16"},
        {"precision": "9", "scale": "2"},
    ]
    back = connect_schema(message_at(pool_of(file), "default", [0]), PLAIN)
    assert back == s.struct(
        {
            "b": tagged(s.OPTIONAL_INT8, 1),
            "s": tagged(s.OPTIONAL_INT16, 2),
            "d": tagged(decimal.as_optional(), 3),
        },
        name="M",
    )


ROOTS = [
    (s.INT8, "Int32Value", 4),
    (s.INT64, "Int64Value", 2),
    (s.FLOAT32, "FloatValue", 1),
    (s.FLOAT64, "DoubleValue", 0),
    (s.BOOLEAN, "BoolValue", 6),
    (s.STRING, "StringValue", 7),
    (s.BYTES, "BytesValue", 8),
]


@pytest.mark.parametrize(("schema", "message", "index"), ROOTS)
def test_single_values_are_wrapper_messages(schema: Schema, message: str, index: int) -> None:
    made = message_file(schema, PLAIN)
    assert made.full_name == f"google.protobuf.{message}"
    assert made.path == [index]
    back = connect_schema(message_at(pool_of(made.file), made.file.name, made.path), PLAIN, 3)
    read_as = Type.INT32 if schema is s.INT8 else schema.type
    assert back == Schema(read_as, version=3)
    unwrapping = Options(wrapper_for_raw_primitives=False)
    message_type = message_at(pool_of(made.file), made.file.name, made.path)
    assert connect_schema(message_type, unwrapping).field_names == ("value",)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (s.array(s.STRING), "Unsupported root schema of type ARRAY"),
        (s.map_of(s.STRING, s.STRING), "Unsupported root schema of type MAP"),
        (s.struct({"l": s.array(s.array(s.INT8))}), "Array cannot be nested: l"),
        (s.struct({"l": s.array(s.map_of(s.STRING, s.INT8))}), "Array cannot be nested: l"),
        (s.struct({"l": Schema(Type.ARRAY)}), "Protobuf cannot say that anything may be in l"),
        (
            s.struct({"a": s.struct({"x": s.INT8}, name="A"), "b": s.struct({}, name="q.A")}),
            "Two different schemas named A",
        ),
        (
            s.struct({"c": replace(COLOR, parameters={ENUM: "C", f"{ENUM}.X": "1"})}),
            "The enum C has no symbol with number 0",
        ),
        (s.struct({"a": replace(s.INT8, parameters={TAG: "x"})}), 'For input string: "x"'),
    ],
)
def test_schemas_without_a_message_are_refused(schema: Schema, message: str) -> None:
    with pytest.raises(DataError, match=message):
        message_file(schema, PLAIN)


SINK = """
    name: "default" package: "shop" syntax: "proto3"
    dependency: "google/protobuf/wrappers.proto"
    dependency: "google/protobuf/timestamp.proto"
    message_type {
      name: "Order"
      field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_UINT64 }
      field { name: "small" number: 2 label: LABEL_OPTIONAL type: TYPE_FIXED32 }
      field { name: "note" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING
              oneof_index: 1 proto3_optional: true }
      field { name: "state" number: 4 label: LABEL_OPTIONAL type: TYPE_ENUM
              type_name: ".shop.State" }
      field { name: "tags" number: 5 label: LABEL_REPEATED type: TYPE_STRING }
      field { name: "prices" number: 6 label: LABEL_REPEATED type: TYPE_MESSAGE
              type_name: ".shop.Order.PricesEntry" }
      field { name: "card" number: 7 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
      field { name: "cash" number: 8 label: LABEL_OPTIONAL type: TYPE_MESSAGE
              type_name: ".shop.Money" oneof_index: 0 }
      field { name: "total" number: 9 label: LABEL_OPTIONAL type: TYPE_MESSAGE
              type_name: ".shop.Money" }
      field { name: "vip" number: 10 label: LABEL_OPTIONAL type: TYPE_MESSAGE
              type_name: ".google.protobuf.BoolValue" }
      field { name: "at" number: 11 label: LABEL_OPTIONAL type: TYPE_MESSAGE
              type_name: ".google.protobuf.Timestamp" }
      field { name: "lines" number: 12 label: LABEL_REPEATED type: TYPE_MESSAGE
              type_name: ".shop.Money" }
      nested_type {
        name: "PricesEntry" options { map_entry: true }
        field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
        field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
                type_name: ".shop.Money" }
      }
      nested_type {
        name: "Inner"
        field { name: "x" number: 1 label: LABEL_OPTIONAL type: TYPE_BOOL }
      }
      oneof_decl { name: "payment" }
      oneof_decl { name: "_note" }
    }
    message_type {
      name: "Money"
      field { name: "cents" number: 1 label: LABEL_OPTIONAL type: TYPE_SINT64 }
    }
    enum_type {
      name: "State" value { name: "OPEN" number: 0 } value { name: "SENT" number: 2 }
    }
"""
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


def order_type(text: str = SINK, path: Sequence[int] = (0,)) -> Any:
    return message_at(pool_of(file_of(text)), "default", path)


def read_order(options: Options = PLAIN, **fields: Any) -> Value:
    """What an order with these fields reads as."""
    made = order_type()
    return reader(made, options)(GetMessageClass(made)(**fields).SerializeToString())


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
    assert reader(made, PLAIN)(order.SerializeToString())["prices"] == {
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
    assert reader(old, PLAIN)(data) == {"o": None, "d": None, "r": 1}
    unsupported = Options(optional_for_proto2=False)
    assert reader(old, unsupported)(data) == {"o": 0, "d": 4, "r": 1}


TREE = """
    name: "default" syntax: "proto3"
    message_type {
      name: "Tree"
      field { name: "left" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Tree" }
    }
"""


def test_messages_that_contain_themselves_are_refused() -> None:
    with pytest.raises(DataError, match="The Protobuf message Tree contains itself"):
        connect_schema(message_at(pool_of(file_of(TREE)), "default", [0]), PLAIN)


PATHS = [
    ([0], b"\0"),
    ([1], b"\2\2"),
    ([0, 0], b"\4\0\0"),
    ([3, 200, 1], b"\6\6\x90\3\2"),
]


@pytest.mark.parametrize(("path", "data"), PATHS)
def test_paths_are_zig_zag_varints(path: list[int], data: bytes) -> None:
    assert encode_path(path) == data
    assert decode_path(b"head" + data + b"tail", 4) == (tuple(path), 4 + len(data))


@pytest.mark.parametrize("data", [b"", b"\2", b"\4\0", b"\x80" * 9, b"\1", b"\xc8\1\0"])
def test_paths_that_do_not_end_are_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="Invalid message indexes"):
        decode_path(data, 0)


def test_messages_are_found_by_path_and_name() -> None:
    file = file_of(SINK)
    pool = pool_of(file)
    for path, name in (([0], "shop.Order"), ([0, 1], "shop.Order.Inner"), ([1], "shop.Money")):
        assert message_at(pool, "default", path).full_name == name
        assert path_to(file, name) == path
    assert path_to(file, "shop.None") is None
    assert path_to(file, "Order") is None
    for bad in ([9], [0, 9], []):
        with pytest.raises(DataError, match="Invalid message indexes"):
            message_at(pool, "default", bad)


def test_the_files_of_confluent_are_theirs() -> None:
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2

    for module, path in (
        (meta_pb2, "confluent/meta.proto"),
        (decimal_pb2, "confluent/type/decimal.proto"),
    ):
        theirs = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        theirs.ClearField("options")
        assert known_file(path) == theirs


def test_names_are_scrubbed_as_in_the_jvm() -> None:
    names = {"a b": "a_b", "ü": "_C3_BC", "9": "x9", "_": "x_", "a*~b": "a__7Eb", "ok_1": "ok_1"}
    assert {name: scrubbed(name) for name in names} == names
    assert scrubbed("") == ""


@pytest.mark.parametrize(
    ("name", "entry", "back"),
    [("prices", "pricesEntry", "prices"), ("my_map", "MyMapEntry", "my_map")],
)
def test_maps_are_named_by_their_entries(name: str, entry: str, back: str) -> None:
    assert entry_name(name) == entry
    assert map_name(entry) == back


Scope = Callable[..., ProtobufConverter]
Register = Callable[..., int]

_numbers = count(1)


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a registry that nobody else uses."""
    name = f"protobuf-{next(_numbers)}"
    yield f"mock://{name}"
    MockTransport.forget(name)


@pytest.fixture
def way(url: str) -> MockTransport:
    """The way to that registry, past its clients."""
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


# schema of a field, value, the field's bytes, what it reads as if that is something else.
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


def test_what_was_read_is_written_as_it_was(scope: Scope, registry: Register) -> None:
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
    (s.INT8, 200, "Invalid type for INT8: class java.lang.Long"),
    (s.INT32, 2**31, "Invalid type for INT32: class java.lang.Long"),
    (s.INT32, "x", "Invalid type for INT32: class java.lang.String"),
    (s.INT32, True, "Invalid type for INT32: class java.lang.Boolean"),
    (s.STRING, 5, "Invalid type for STRING: class java.lang.Long"),
    (s.STRING, "\ud800", "Invalid value for the Protobuf schema: 'utf-8' codec can't encode"),
    (s.BYTES, 5, "Invalid type for BYTES: class java.lang.Long"),
    (s.BOOLEAN, "x", "Invalid type for BOOLEAN: class java.lang.String"),
    (s.array(s.INT32), {}, "Invalid type for ARRAY: class java.util.HashMap"),
    (s.array(s.INT32), [1, None], "Protobuf cannot have null in a repeated field"),
    (s.array(s.INT32), ["x"], "Invalid type for INT32: class java.lang.String"),
    (s.map_of(s.STRING, s.INT32), "x", "Invalid type for MAP: class java.lang.String"),
    (s.map_of(s.STRING, s.INT32), {"a": "x"}, "Invalid type for INT32: class java.lang.String"),
    (BOOK, 5, "Invalid type for STRUCT: class java.lang.Long"),
    (BOOK, {"nope": 1}, "Mismatching struct schema"),
    (s.DATE, 5, "Invalid type for Date, expected Date but was class java.lang.Long"),
    (s.decimal(1), 5, "Invalid type for Decimal, expected BigDecimal but was"),
    (CHOICE, {"a": None}, "Cannot find non-null field"),
    (COLOR, "BLUE", "'BLUE' is no symbol of the enum Color"),
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


def test_values_without_a_schema_cannot_be_written(scope: Scope) -> None:
    assert errors_of_writing(scope(), Column.of([{"a": 1}], None)) == {
        0: "A value without a schema cannot be written in the format of a registry"
    }


def test_bad_messages_are_refused_and_cost_no_neighbour(scope: Scope, registry: Register) -> None:
    registry("t-value", BOOK_FILE)
    start = b"\0\0\0\0\1\0"
    bad = {
        b"": "Unknown magic byte!",
        b"\0\0\0\0\1": "Invalid message indexes: a number does not end",
        b"\0\0\0\0\1\2\4": "Invalid message indexes: [2]",
        b"\0\0\0\0\x09\0": "Schema 9 not found; error code: 40403",
        start + b"\n\xff": "",
    }
    cells = [cell for each in bad for cell in (start + b"\n\1x", each)]
    errors = errors_of_reading(scope(), [*cells, start])
    assert list(errors) == [1, 3, 5, 7, 9]
    *of_registry, of_message = errors.values()
    assert of_registry == [f"{NOT_READ}{text}" for text in [*bad.values()][:-1]]
    assert of_message.startswith("Invalid Protobuf message: ")


@pytest.mark.parametrize(
    ("field", "data", "message"),
    [
        (s.DATE, "0a 00", "Invalid google.type.Date: 0-0-0"),
        (s.TIME, "0a 02 08 19", "Invalid google.type.TimeOfDay: hour must be in 0..23"),
        (s.decimal(0), "0a 00", "Zero length BigInteger"),
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


def test_references_are_fetched_from_the_registry(scope: Scope, registry: Register) -> None:
    registry("books", BOOK_FILE)
    reference = {"name": "lib/book.proto", "subject": "books", "version": 1}
    registry("t-value", SHELF_FILE, references=[reference])
    column = read(scope(), [b"\0\0\0\0\2\0\n\3\n\1x"])
    assert column.values == [{"books": [{"title": "x", "pages": 0}]}]


def test_a_missing_reference_is_refused(scope: Scope, registry: Register) -> None:
    registry("t-value", SHELF_FILE)
    (error,) = errors_of_reading(scope(), [b"\0\0\0\0\1\0"]).values()
    assert error.startswith(f"{NOT_READ}Invalid Protobuf schema: ")


STRATEGIES = "io.confluent.kafka.serializers.subject."


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicName", "t-value"), ("RecordName", "lib.Book"), ("TopicRecordName", "t-lib.Book")],
)
def test_subjects_are_named_by_topic_or_message(
    strategy: str, subject: str, scope: Scope, way: MockTransport
) -> None:
    converter = scope(value__subject__name__strategy=f"{STRATEGIES}{strategy}Strategy")
    cells = write(converter, Column.of([{"title": "x"}], BOOK))
    assert way.request("GET", "/subjects") == [subject]
    assert read(converter, cells).values == [{"title": "x", "pages": 0}]


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
    with pytest.raises(DataError, match=r"\.proto text cannot be read here"):
        from_base64('syntax = "proto3"; message M {}')
