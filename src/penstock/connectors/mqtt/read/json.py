"""JSON documents as structs, like Lenses' JsonSimpleConverter: each document has its own schema.

>>> schema, value = schema_and_value({"id": 1, "tags": ["a"]})
>>> value, [field.name for field in schema.fields]
({'id': 1, 'tags': ['a']}, ['id', 'tags'])
"""

from __future__ import annotations

from typing import cast

from penstock.api import DataError
from penstock.api.schema import (
    BOOLEAN,
    FLOAT64,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Value,
    array,
    struct,
)

_MAX_INT = 2**63 - 1


def schema_and_value(document: object) -> tuple[Schema, Value]:
    """The schema and the value of a JSON document. All elements of an array need the schema of the
    first. Raises DataError if they differ, or if a number is too large."""
    match document:
        case None:
            return OPTIONAL_STRING, None
        case bool():
            return BOOLEAN, document
        case int():
            if not -_MAX_INT - 1 <= document <= _MAX_INT:
                raise DataError(f"{document} does not fit 64 bits")
            return INT64, document
        case float():
            return FLOAT64, document
        case str():
            return STRING, document
        case list():
            pairs = [schema_and_value(element) for element in document]
            element_schema = pairs[0][0] if pairs else OPTIONAL_STRING
            if any(schema != element_schema for schema, _ in pairs):
                raise DataError("the elements of an array are of different types")
            return array(element_schema), [value for _, value in pairs]
        case dict():
            members = {str(name): schema_and_value(member) for name, member in document.items()}
            schema = struct({name: member[0] for name, member in members.items()})
            return schema, {name: member[1] for name, member in members.items()}
    return cast("tuple[Schema, Value]", (STRING, str(document)))
