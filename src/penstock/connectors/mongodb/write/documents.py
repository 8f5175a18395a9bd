"""Keys and values of records as documents (connectors.md §6.2).

    INT8, INT16, INT32      int32             Decimal      Decimal128
    INT64                   int64             Date         date, at midnight UTC
    FLOAT32, FLOAT64        double            Time         date, on 1970-01-01
    BOOLEAN, STRING         boolean, string   Timestamp    date
    BYTES                   binary            ARRAY        array
    MAP, STRUCT             document          null         null

A field that is null takes the default of its schema, if any. Values without a schema are documents
if they are maps; their whole numbers are int64. Texts are documents in JSON, bytes are BSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import bson
from bson import Decimal128, Int64
from bson.errors import BSONError

from penstock.api import Column, DataError, Failed, Fields
from penstock.api.schema import Logical, Schema, Type, Value, map_order, structs_of
from penstock.connectors.mongodb.client.codec import OPTIONS
from penstock.connectors.mongodb.text.shell import TextInvalid, parse

Document = dict[str, Any]
"""A document as `bson` encodes it."""

Convert = Callable[[Any], Any]

_EPOCH_DAY: Final = date(1970, 1, 1)
_SIMPLE: Final = frozenset({str, float, bool, bytes, type(None)})
_INT64: Final = 1 << 63


def converter(schema: Schema | None) -> Convert:
    """Converts keys or values with that schema into documents. It raises DataError."""
    if schema is None:
        return _schemaless
    match schema.type:
        case Type.STRUCT:
            return _struct(schema)
        case Type.STRING:
            return _of_text
        case Type.BYTES if schema.logical is None:
            return _of_bytes
        case Type.MAP:
            return _map(schema)
    kind = schema.type.value
    return lambda value: _no_document(kind)


def columns(column: Column, failed: Failed) -> list[Document | None]:
    """The documents of a column; rows that do not convert get an entry in `failed`."""
    if isinstance(column, Fields):
        return [*_fields(column)]
    documents: list[Document | None] = []
    for schema, start, stop in column.slices():
        convert = converter(schema)
        for row in range(start, stop):
            value = column.values[row]
            try:
                documents.append(None if value is None else convert(value))
            except (DataError, ValueError, ArithmeticError, BSONError) as error:
                failed[row] = DataError(f"Could not convert value into a document: {error}")
                documents.append(None)
    return documents


def key_document(schema: Schema | None, value: Value) -> Document:
    """The document of a key. Members of a map without a schema are in the order of Java's maps:
    documents are equal only if their members' order is, and the JVM's connector has written this
    one. Raises DataError."""
    try:
        if schema is None and isinstance(value, Mapping):
            return plain(in_java_order(value))  # type: ignore[no-any-return]
        return converter(schema)(value)  # type: ignore[no-any-return]
    except (DataError, ValueError, ArithmeticError, BSONError) as error:
        raise DataError(f"Could not convert key into a document: {error}") from error


def in_java_order(value: Any) -> Any:
    """Maps in the iteration order of Java's `HashMap`."""
    if isinstance(value, Mapping):
        return {name: in_java_order(value[name]) for name in map_order(tuple(value))}
    if isinstance(value, list):
        return [in_java_order(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """A value without a schema, for BSON."""
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is int:
        return _long(value)
    if kind is dict:
        return {
            name if type(name) is str else _name(name): (
                member if type(member) in _SIMPLE else plain(member)
            )
            for name, member in value.items()
        }
    if kind is list:
        return [plain(item) for item in value]
    return _other(value)


def _other(value: Any) -> Any:
    match value:
        case Mapping():
            return {_name(name): plain(member) for name, member in value.items()}
        case datetime():
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        case date():
            return _date(value)
        case time():
            return _time(value)
        case Decimal():
            return _decimal(value)
    return value


def _long(value: int) -> Int64:
    if not -_INT64 <= value < _INT64:
        raise DataError(f"{value} has more than 64 bits")
    return Int64(value)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise DataError(f"field names must be strings, not {name!r}")
    return name


def _schemaless(value: Any) -> Document:
    if type(value) is dict:  # the most common case; checking an abstract class is slower
        return plain(value)  # type: ignore[no-any-return]
    match value:
        case Mapping():
            return plain(value)  # type: ignore[no-any-return]
        case str():
            return _of_text(value)
        case bytes():
            return _of_bytes(value)
    return _no_document(type(value).__name__)


def _no_document(kind: str) -> Document:
    raise DataError(f"No converter present due to unexpected object type: {kind}")


def _of_text(value: str) -> Document:
    try:
        document = parse(value)
    except TextInvalid as error:
        raise DataError(f"the string is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DataError("the string is JSON, but not a document")
    return document


def _of_bytes(value: bytes) -> Document:
    try:
        return bson.decode(value, OPTIONS)
    except (BSONError, ValueError) as error:
        raise DataError(f"the bytes are not BSON: {error}") from error


def _struct(schema: Schema) -> Convert:
    fields = tuple(
        (field.name, _member(field.schema), _default(field.schema)) for field in schema.fields
    )

    def convert(value: Mapping[str, Any]) -> Document:
        get = value.get
        document: Document = {}
        for name, inner, default in fields:
            cell = get(name)
            if cell is None:
                document[name] = default
            else:
                document[name] = cell if inner is None else inner(cell)
        return document

    return convert


def _default(schema: Schema) -> Any:
    """The value of a field that is null: its default, as in `Struct.get`."""
    if schema.default is None:
        return None
    inner = _member(schema)
    return schema.default if inner is None else inner(schema.default)


def _member(schema: Schema | None) -> Convert | None:
    """Converts a member; None if it stays unchanged. It is not called for null."""
    if schema is None:
        return plain
    match schema.logical:
        case Logical.DECIMAL:
            return _decimal
        case Logical.DATE:
            return _date
        case Logical.TIME:
            return _time
        case Logical.TIMESTAMP:
            return None
    match schema.type:
        case Type.INT64:
            return Int64
        case Type.STRUCT:
            return _struct(schema)
        case Type.MAP:
            return _map(schema)
        case Type.ARRAY:
            inner = _member(schema.value_schema)
            if inner is None:
                return list
            return lambda items: [None if item is None else inner(item) for item in items]
    return None


def _map(schema: Schema) -> Convert:
    inner = _member(schema.value_schema)
    key = schema.key_schema
    texts = key is None or key.type is Type.STRING
    default = None if schema.value_schema is None else _default(schema.value_schema)

    def convert(value: Any) -> Document:
        if not texts or not isinstance(value, Mapping):
            raise DataError("field names must be strings: a map with other keys is not a document")
        return {
            _name(name): default if member is None else member if inner is None else inner(member)
            for name, member in value.items()
        }

    return convert


def _decimal(value: Decimal) -> Decimal128:
    try:
        return Decimal128(value)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise DataError(
            f"{value} does not fit a Decimal128: more than 34 digits, or too large an exponent"
        ) from error


def _date(value: date) -> datetime:
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _time(value: time) -> datetime:
    return datetime.combine(_EPOCH_DAY, value, UTC)


def _fields(column: Fields) -> Iterator[Document]:
    """Documents of maps or structs that are held a member at a time."""
    if not column.members:
        return iter([{} for _ in range(len(column))])
    schemas = {} if column.schema is None else {field.name: field for field in column.schema.fields}
    cells: list[Sequence[Any]] = []
    for name, array in column.members.items():
        values: list[Any] = array.to_pylist()
        member = schemas[name].schema if name in schemas else None
        longs = (
            str(array.type) == "int64"
            if column.schema is None
            else (member is not None and member.type is Type.INT64 and member.logical is None)
        )
        if longs:
            values = (
                [cell if cell is None else Int64(cell) for cell in values]
                if (array.null_count)
                else [*map(Int64, values)]
            )
        if array.null_count and member is not None and member.default is not None:
            default = _default(member)
            values = [default if cell is None else cell for cell in values]
        cells.append(values)
    return iter(structs_of(tuple(column.members))(cells))
