"""Connect schemas, and the Python values for their values.

    type            Python value
    INT8 … INT64    int within the Java range of the type
    FLOAT32         float that a 32-bit float can hold (see `float32`)
    FLOAT64         float
    BOOLEAN         bool
    STRING          str
    BYTES           bytes
    ARRAY           list
    MAP             dict; a list of `(key, value)` tuples when the key type is ARRAY, MAP or STRUCT
    STRUCT          dict keyed by field name; a missing field is null

Logical types are recognised by the schema's name alone (kafka-connect.md §9.1): `Decimal` is a
`decimal.Decimal` with exactly the schema's scale, `Date` a `datetime.date`, `Time` a
`datetime.time` and `Timestamp` an aware `datetime.datetime` in UTC, both with ms resolution.

Schemas are values: equal when every attribute is equal, hashable, and never modified, nor are the
`default` and `parameters` inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ctypes import c_float
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from penstock.errors import DataError

Value = Any
"""A Connect value: None, bool, int, float, str, bytes, list, dict (map or struct), or a logical
type's value (`Decimal`, `date`, `time`, `datetime`); the schema of its run says which."""


class Type(Enum):
    """The types of the Connect data model, named as Kafka Connect names them."""

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"

    @property
    def is_primitive(self) -> bool:
        """Whether values of this type contain no others."""
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)


class Logical(Enum):
    """The logical types, by the schema names that identify them."""

    DECIMAL = "org.apache.kafka.connect.data.Decimal"
    DATE = "org.apache.kafka.connect.data.Date"
    TIME = "org.apache.kafka.connect.data.Time"
    TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


_LOGICAL: Final[Mapping[str | None, Logical]] = {kind.value: kind for kind in Logical}

SCALE: Final = "scale"
"""The parameter of a Decimal schema that holds its scale."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """The schema of a column, field, element or key.

    `value_schema` is set for ARRAY and MAP, `key_schema` for MAP, `fields` for STRUCT. An element,
    key or value schema of None allows any value (kafka-connect.md §9.4). A `default` is a Connect
    value of this schema; None means there is none.
    """

    type: Type
    optional: bool = False
    default: Value = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    fields: tuple[Field, ...] = ()
    _by_name: Mapping[str, Field] = field(init=False)
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        by_name = {field.name: field for field in self.fields}
        if len(by_name) != len(self.fields):
            names = [field.name for field in self.fields]
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"Cannot create field because of field name duplication {twice}")
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(
            self,
            "_hash",
            hash(
                (
                    self.type.value,
                    self.optional,
                    self.name,
                    self.version,
                    self.key_schema,
                    self.value_schema,
                    self.fields,
                )
            ),
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return self._hash == other._hash and self._attributes() == other._attributes()

    def __repr__(self) -> str:
        attributes = [
            f"{name}={value!r}"
            for name, value in zip(_ATTRIBUTES, self._attributes(), strict=True)
            if value is not None and value != () and (name != "optional" or value)
        ]
        return f"Schema({', '.join(attributes)})"

    def __reduce__(self) -> tuple[object, ...]:
        return Schema, self._attributes()  # hashes of str differ between processes

    def _attributes(self) -> tuple[Value, ...]:
        return tuple(getattr(self, name) for name in _ATTRIBUTES)

    def field(self, name: str) -> Field | None:
        """The field of that name, or None."""
        return self._by_name.get(name)

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields of a STRUCT, in order."""
        return tuple(self._by_name)

    @property
    def logical(self) -> Logical | None:
        """The logical type by the schema's name, or None."""
        return _LOGICAL.get(self.name)

    @property
    def scale(self) -> int:
        """The scale of a Decimal schema. Raises DataError if it is missing or not a number."""
        text = None if self.parameters is None else self.parameters.get(SCALE)
        if text is None:
            raise DataError("Invalid Decimal schema: scale parameter not found.")
        try:
            return int(text)
        except ValueError as cause:
            raise DataError("Invalid scale parameter found in Decimal schema: ") from cause

    def as_optional(self) -> Schema:
        """This schema, accepting null."""
        return self if self.optional else replace(self, optional=True)

    def as_required(self) -> Schema:
        """This schema, refusing null."""
        return replace(self, optional=False) if self.optional else self


_ATTRIBUTES: Final = (
    *("type", "optional", "default", "name", "version", "doc", "parameters"),
    *("key_schema", "value_schema", "fields"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a STRUCT schema; `index` is its place among the fields, from 0."""

    name: str
    index: int
    schema: Schema


INT8: Final = Schema(Type.INT8)
INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT32: Final = Schema(Type.FLOAT32)
FLOAT64: Final = Schema(Type.FLOAT64)
BOOLEAN: Final = Schema(Type.BOOLEAN)
STRING: Final = Schema(Type.STRING)
BYTES: Final = Schema(Type.BYTES)

OPTIONAL_INT8: Final = INT8.as_optional()
OPTIONAL_INT16: Final = INT16.as_optional()
OPTIONAL_INT32: Final = INT32.as_optional()
OPTIONAL_INT64: Final = INT64.as_optional()
OPTIONAL_FLOAT32: Final = FLOAT32.as_optional()
OPTIONAL_FLOAT64: Final = FLOAT64.as_optional()
OPTIONAL_BOOLEAN: Final = BOOLEAN.as_optional()
OPTIONAL_STRING: Final = STRING.as_optional()
OPTIONAL_BYTES: Final = BYTES.as_optional()

DATE: Final = Schema(Type.INT32, name=Logical.DATE.value, version=1)
TIME: Final = Schema(Type.INT32, name=Logical.TIME.value, version=1)
TIMESTAMP: Final = Schema(Type.INT64, name=Logical.TIMESTAMP.value, version=1)


def decimal(scale: int, *, optional: bool = False) -> Schema:
    """The Decimal schema with a scale."""
    return Schema(
        Type.BYTES,
        optional=optional,
        name=Logical.DECIMAL.value,
        version=1,
        parameters={SCALE: str(scale)},
    )


def array(value: Schema, *, optional: bool = False) -> Schema:
    """The schema of lists of `value`."""
    return Schema(Type.ARRAY, optional=optional, value_schema=value)


def map_of(key: Schema, value: Schema, *, optional: bool = False) -> Schema:
    """The schema of maps from `key` to `value`."""
    return Schema(Type.MAP, optional=optional, key_schema=key, value_schema=value)


def struct(
    fields: Mapping[str, Schema],
    *,
    name: str | None = None,
    version: int | None = None,
    optional: bool = False,
) -> Schema:
    """The schema of structs with these fields, in this order."""
    return Schema(
        Type.STRUCT, optional=optional, name=name, version=version, fields=fields_of(fields)
    )


def fields_of(schemas: Mapping[str, Schema]) -> tuple[Field, ...]:
    """The fields of a STRUCT schema from their names and schemas, numbered in order."""
    return tuple(Field(name, index, schema) for index, (name, schema) in enumerate(schemas.items()))


INT_BITS: Final[Mapping[Type, int]] = {
    Type.INT8: 8,
    Type.INT16: 16,
    Type.INT32: 32,
    Type.INT64: 64,
}


def int_range(type: Type) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    half = 1 << (INT_BITS[type] - 1)
    return -half, half - 1


def within(type: Type) -> Callable[[Value], bool]:
    """The function that checks whether an int is in the range of an integer type."""
    low, high = int_range(type)
    return range(low, high + 1).__contains__


def wrap_int(value: int, type: Type) -> int:
    """`value` narrowed as in Java: the low bits of the integer type, as a signed number.

    >>> wrap_int(300, Type.INT8)
    44
    """
    bits = INT_BITS[type]
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def float32(value: float) -> float:
    """The nearest value a 32-bit float can hold; infinite beyond its range, as in Java."""
    return c_float(value).value


def java_class(value: Value) -> str:
    """The Java class of a value, as `Object.getClass()` prints it."""
    if isinstance(value, bool):
        return "class java.lang.Boolean"
    if isinstance(value, int):
        low, high = int_range(Type.INT64)
        return "class java.lang.Long" if low <= value <= high else "class java.math.BigInteger"
    for python, java in _JAVA_CLASSES:
        if isinstance(value, python):
            return f"class {java}"
    return f"class {type(value).__qualname__}"


def invalid_type(schema: Schema, value: Value) -> DataError:
    """Kafka Connect's error for a value that is not of its schema's type."""
    return DataError(f"Invalid type for {schema.type.name}: {java_class(value)}")


_JAVA_CLASSES: Final[tuple[tuple[type, str], ...]] = (
    (float, "java.lang.Double"),
    (str, "java.lang.String"),
    (bytes, "[B"),
    (list, "java.util.ArrayList"),
    (dict, "java.util.HashMap"),
    (Decimal, "java.math.BigDecimal"),
    (date, "java.util.Date"),
    (time, "java.util.Date"),
)

_CLASSES: Final[Mapping[Type, type]] = {
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: list,
    Type.STRUCT: dict,
}


def _fits(schema: Schema, value: Value) -> bool:
    """Whether the value is of the schema's type, apart from its content."""
    match schema.logical:
        case Logical.DECIMAL:
            return isinstance(value, Decimal) and value.is_finite()
        case Logical.DATE:
            return isinstance(value, date) and not isinstance(value, datetime)
        case Logical.TIME:
            return isinstance(value, time)
        case Logical.TIMESTAMP:
            return isinstance(value, datetime) and value.tzinfo is not None
    if schema.type is Type.MAP:
        key = schema.key_schema
        return isinstance(value, dict if key is None or key.type.is_primitive else list)
    if schema.type in INT_BITS:
        low, high = int_range(schema.type)
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    return isinstance(value, _CLASSES[schema.type])


def check(schema: Schema, value: Value, location: str = "value") -> None:
    """Raises DataError unless `value` and its content are of the schema.

    Worded as Kafka Connect's `ConnectSchema.validateValue`; `location` says where the value was
    found, such as `field: "id"`. An integer out of its type's range is reported as the Long it
    would be in Java. A struct may omit fields that are optional or have a default; a field that its
    schema lacks is an error.
    """
    if value is None:
        if not schema.optional:
            raise DataError(
                f"Invalid value: null used for required {location}, schema type: {schema.type.name}"
            )
        return
    if not _fits(schema, value):
        named = "" if schema.name is None else f' "{schema.name}"'
        raise DataError(
            f"Invalid Java object for schema{named} with type {schema.type.name}: "
            f"{java_class(value)} for {location}"
        )
    if schema.logical is not None:
        return
    match schema.type:
        case Type.ARRAY:
            inside = f"element of array {location}"
            element = _defined(schema.value_schema, inside)
            for item in value:
                check(element, item, inside)
        case Type.MAP:
            of_key, of_value = f"key of map {location}", f"value of map {location}"
            key, mapped = (
                _defined(schema.key_schema, of_key),
                _defined(schema.value_schema, of_value),
            )
            for name, item in pairs(value):
                check(key, name, of_key)
                check(mapped, item, of_value)
        case Type.STRUCT:
            for name in value:
                if schema.field(name) is None:
                    raise DataError(f"{name} is not a valid field name")
            for member in schema.fields:
                inner = value.get(member.name)
                if inner is not None or member.schema.default is None:
                    check(member.schema, inner, f'field: "{member.name}"')


def _defined(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    return schema


def pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    """Keys and values of a map in either of its two forms."""
    return value.items() if isinstance(value, dict) else value
