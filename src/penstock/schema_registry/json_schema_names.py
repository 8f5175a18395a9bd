"""The names in Confluent's mapping of Connect schemas to JSON Schema (kafka-connect.md §9.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.convert.json_write import DecimalFormat
from penstock.data.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
"""Parameter of a STRING that is an enum; each symbol has a parameter, `….Enum.⟨symbol⟩`."""
ONE_OF: Final = f"{NAMESPACE}.OneOf"
"""Name of a STRUCT that is a union: one optional field per alternative, at most one of them set."""
ONE_OF_FIELD: Final = f"{ONE_OF}.field."

UNION: Final = "org.apache.kafka.connect.data.Union"
"""Parameter of a STRUCT that is a union, in every format (`generalized.sum.type.support`)."""
GENERAL_ENUM: Final = "org.apache.kafka.connect.data.Enum"
UNION_NAME: Final = "connect_union_"
UNION_FIELD: Final = f"{UNION_NAME}field_"
NULL_SYMBOL: Final = "<NULL>"
"""Represents null among the symbols of an enum."""


class _Absent:
    """The class of `ABSENT`."""

    def __str__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()
"""The node of a missing property, as opposed to null."""

CONNECT_TYPE: Final = "connect.type"
CONNECT_VERSION: Final = "connect.version"
CONNECT_PARAMETERS: Final = "connect.parameters"
CONNECT_INDEX: Final = "connect.index"
MAP: Final = "map"
KEY: Final = "key"
VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Options:
    """The converter's settings for the mapping."""

    generalized: bool = False  # unions and enums as in every format
    ignore_default: bool = False  # null is kept despite a default
    additional_properties: bool = True
    optional_nonrequired: bool = False  # properties that are not `required` are optional
    decimals: DecimalFormat = DecimalFormat.BASE64


def is_union(schema: Schema) -> bool:
    """Whether the schema is a STRUCT that represents a union."""
    return schema.type is Type.STRUCT and (
        schema.name == ONE_OF or UNION in (schema.parameters or {})
    )


def is_text_key(key: Schema | None) -> bool:
    """Whether maps with such keys are JSON objects; all others are lists of `{key, value}`."""
    return key is not None and key.type is Type.STRING and not key.optional
