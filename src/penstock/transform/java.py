"""Names of the JVM's exceptions and classes, for messages and dead letter headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.data.schema import Field, Logical, Schema, Type, Value, java_class
from penstock.errors import DataError


class IllegalArgument(DataError):
    """A record does not have what the configuration requires."""

    java_name = "java.lang.IllegalArgumentException"


class NullPointer(DataError):
    """Something that Kafka Connect expects is missing; Java throws a NullPointerException."""

    java_name = "java.lang.NullPointerException"


class IndexOutOfBounds(DataError):
    """The regular expression does not have the group."""

    java_name = "java.lang.IndexOutOfBoundsException"


class NumberFormat(IllegalArgument):
    """A text is not a number of the type."""

    java_name = "java.lang.NumberFormatException"


class ConnectError(DataError):
    """A record cannot be changed; in Kafka Connect, its most general exception."""

    java_name = "org.apache.kafka.connect.errors.ConnectException"


class SchemaBuilderError(DataError):
    """The changed schema would be invalid."""

    java_name = "org.apache.kafka.connect.errors.SchemaBuilderException"


_CLASSES: Final = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.INT64: "java.lang.Long",
    Type.FLOAT32: "java.lang.Float",
    Type.FLOAT64: "java.lang.Double",
    Type.ARRAY: "java.util.ArrayList",
    Type.MAP: "java.util.HashMap",
    Type.STRUCT: "org.apache.kafka.connect.data.Struct",
}


def class_name(schema: Schema | None, value: Value) -> str:
    """The Java class of a value of a schema, `null` for null."""
    if value is None:
        return "null"
    if schema is not None and schema.logical is None and schema.type in _CLASSES:
        return _CLASSES[schema.type]
    return java_class(value).removeprefix("class ")


def not_a_map(value: Value, purpose: str) -> DataError:
    """The error for a value without a schema that is not a map."""
    return DataError(
        f"Only Map objects supported in absence of schema for [{purpose}], "
        f"found: {class_name(None, value)}"
    )


def not_a_struct(schema: Schema | None, value: Value, purpose: str) -> DataError:
    """The error for a value with a schema that is not a struct."""
    return DataError(
        f"Only Struct objects supported for [{purpose}], found: {class_name(schema, value)}"
    )


def null_in_field(name: str, schema: Schema) -> DataError:
    """The error for null if the field's schema does not allow it."""
    return DataError(
        f'Invalid value: null used for required field: "{name}", schema type: {schema.type.name}'
    )


def named_fields(schemas: Sequence[tuple[str, Schema]]) -> tuple[Field, ...]:
    """The fields of a new STRUCT schema. Raises SchemaBuilderError for invalid names."""
    names: set[str] = set()
    for name, _ in schemas:
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if name in names:
            raise SchemaBuilderError(
                f"Cannot create field because of field name duplication {name}"
            )
        names.add(name)
    return tuple(Field(name, index, schema) for index, (name, schema) in enumerate(schemas))


LOGICAL_DATES: Final = (Logical.DATE, Logical.TIME, Logical.TIMESTAMP)


def schema_text(schema: Schema | None) -> str:
    """A schema as Java's `toString` shows it."""
    if schema is None:
        return "null"
    named = "" if schema.name is None else f"{schema.name}:"
    return f"Schema{{{named}{schema.type.name}}}"
