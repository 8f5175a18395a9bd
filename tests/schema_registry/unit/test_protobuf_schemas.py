"""Protobuf files of Connect schemas, and the names and paths in them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock.data import schema as s
from penstock.data.schema import Schema, Type
from penstock.errors import DataError
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
    TAG,
    TYPE,
    Options,
    entry_name,
    map_name,
    scrubbed,
)
from penstock.schema_registry.protobuf_schema import message_file

from .protobuf_examples import (
    BOOK,
    BOOK_FILE,
    CHOICE,
    COLOR,
    PLAIN,
    SINK,
    TREE,
    file_of,
    tagged,
)

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
    # The registered file is valid and has the message.
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
        (s.struct({"l": Schema(Type.ARRAY)}), "Protobuf cannot express that anything may be in l"),
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
