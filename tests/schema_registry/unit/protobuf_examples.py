"""Schemas and files that tests of the Protobuf converter share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock.data import schema as s
from penstock.data.schema import Schema, Type
from penstock.schema_registry.protobuf_files import (
    message_at,
    pool_of,
)
from penstock.schema_registry.protobuf_names import (
    ENUM,
    TAG,
    UNION,
    Options,
)

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


def order_type(text: str = SINK, path: Sequence[int] = (0,)) -> Any:
    return message_at(pool_of(file_of(text)), "default", path)


TREE = """
    name: "default" syntax: "proto3"
    message_type {
      name: "Tree"
      field { name: "left" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Tree" }
    }
"""
