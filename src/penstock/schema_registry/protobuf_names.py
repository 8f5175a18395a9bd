"""The names in Confluent's mapping between Connect schemas and Protobuf (kafka-connect.md §9.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from penstock.data.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.protobuf"
TAG: Final = f"{NAMESPACE}.Tag"
"""Parameter with the number of a field."""
TYPE: Final = f"{NAMESPACE}.Type"
"""Parameter with the Protobuf type, if the Connect type does not determine it (uint32,
sfixed64)."""
ENUM: Final = f"{NAMESPACE}.Enum"
"""Parameter with the name of an enum; `….Enum.⟨symbol⟩` has the number of each symbol."""
UNION: Final = f"{NAMESPACE}.Union"
"""Prefix of the names of STRUCTs that are oneofs."""

GENERAL_UNION: Final = "org.apache.kafka.connect.data.Union"
GENERAL_ENUM: Final = "org.apache.kafka.connect.data.Enum"
PRECISION: Final = "connect.decimal.precision"
CONNECT_TYPE: Final = "connect.type"

DEFAULT_NAME: Final = "ConnectDefault"
ENTRY: Final = "Entry"
KEY: Final = "key"
VALUE: Final = "value"

DECIMAL: Final = "confluent.type.Decimal"
DATE: Final = "google.type.Date"
TIME: Final = "google.type.TimeOfDay"
TIMESTAMP: Final = "google.protobuf.Timestamp"

WRAPPERS: Final = {
    "google.protobuf.DoubleValue": Type.FLOAT64,
    "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN,
    "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}
"""Messages that hold one value, so that it can be absent, and the Connect type of that value."""


@dataclass(frozen=True, slots=True)
class Options:
    """The converter's settings for the mapping."""

    generalized: bool = False
    ignore_default: bool = False
    enhanced: bool = False
    scrub: bool = False
    int_for_enums: bool = False
    optional_for_nullables: bool = False
    optional_for_proto2: bool = True
    wrapper_for_nullables: bool = False
    wrapper_for_raw_primitives: bool = True
    struct_for_nulls: bool = False
    index_for_unions: bool = True
    flatten_unions: bool = False

    def name(self, name: str) -> str:
        """The name in Protobuf."""
        return scrubbed(name) if self.scrub else name


def is_union(schema: Schema) -> bool:
    """Whether the schema is a STRUCT that represents a oneof."""
    return schema.type is Type.STRUCT and (
        (schema.name or "").startswith(UNION) or GENERAL_UNION in (schema.parameters or {})
    )


def enum_mark(schema: Schema, *, generalized: bool) -> str | None:
    """The parameter with the name of a schema's enum; None if it is not an enum."""
    if schema.type not in (Type.STRING, Type.INT32):
        return None
    marks = (GENERAL_ENUM, ENUM) if generalized else (ENUM, GENERAL_ENUM)
    return next((mark for mark in marks if mark in (schema.parameters or {})), None)


def scrubbed(name: str) -> str:
    """A valid Protobuf name: percent-encoded, with `_` for everything but letters and digits.

    >>> scrubbed("a b-ü"), scrubbed("1st"), scrubbed("_x")
    ('a_b__C3_BC', 'x1st', 'x_x')
    """
    if not name:
        return name
    # Unlike Python, Java's URLEncoder keeps these four and encodes "~".
    encoded = quote_plus(name, safe="*").replace("~", "%7E")
    if encoded[0].isdigit() or encoded[0] == "_":
        encoded = f"x{encoded}"
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in encoded)


def entry_name(map_name: str) -> str:
    """The name of the message of a map's entries.

    >>> entry_name("some_map"), entry_name("ConnectDefault2")
    ('SomeMapEntry', 'ConnectDefault2Entry')
    """
    if "_" in map_name:
        map_name = "".join(word.capitalize() for word in map_name.split("_"))
    return map_name + ENTRY


def map_name(entry: str) -> str:
    """The name of the map whose entry a message is.

    >>> map_name("SomeMapEntry"), map_name("a.B.MEntry")
    ('some_map', 'a._b._m')
    """
    if not entry.endswith(ENTRY):
        return entry
    # Guava's UPPER_CAMEL to LOWER_UNDERSCORE: a word begins at each capital but the first letter.
    stem = entry.removesuffix(ENTRY)
    words = [f"_{char.lower()}" if "A" <= char <= "Z" else char for char in stem]
    return "".join(words).removeprefix("_") if stem[:1].isupper() else "".join(words)
