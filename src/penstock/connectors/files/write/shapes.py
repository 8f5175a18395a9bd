"""What is written instead of a record's value: the output fields of Aiven's sinks
(connectors.md §13)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from penstock.api import Column, DataError, Failed, Records
from penstock.api.schema import (
    BYTES,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Type,
    Value,
    map_of,
    struct,
    text,
)
from penstock.connectors.files.boundaries.spans import Schemas
from penstock.connectors.files.formats.json import line, plain_of

FIELDS: Final = ("key", "value", "offset", "timestamp", "headers")
_JAVAS_ORDER: Final = ("headers", "offset", "value", "key", "timestamp")


class Shape(ABC):
    """The rows of files, as a column."""

    by_schema: ClassVar[bool]
    """Whether records of another schema need another file."""

    @abstractmethod
    def schema(self, schemas: Schemas) -> Schema:
        """The schema of the column for records of these schemas. Raises DataError."""

    @abstractmethod
    def column(self, records: Records, schemas: Schemas, failed: Failed) -> Column:
        """The column; rows that do not fit get an entry in `failed`."""


class CsvShape(Shape):
    """Unquoted fields between commas: keys and, with `base64`, values are base64, times are ms,
    headers `name:value;`, both base64."""

    by_schema = False

    def __init__(self, fields: Sequence[str], *, base64: bool) -> None:
        self._fields = fields
        self._base64 = base64

    def schema(self, schemas: Schemas) -> Schema:
        return BYTES

    def column(self, records: Records, schemas: Schemas, failed: Failed) -> Column:
        sides = [self._side(field, records) for field in self._fields]
        return _rows(len(records), failed, lambda row: b",".join([side(row) for side in sides]))

    def _side(self, field: str, records: Records) -> Callable[[int], bytes]:
        match field:
            case "key":
                keys = records.keys.values
                return lambda row: b64encode(_bytes("key", keys[row], texts=True))
            case "value":
                values = records.values.values
                if self._base64:
                    return lambda row: b64encode(_bytes("value", values[row]))
                return lambda row: _bytes("value", values[row])
            case "offset":
                return lambda row: b"%d" % records.offsets[row]
            case "timestamp":
                times = records.timestamps
                return lambda row: b"" if (time := times[row]) is None else b"%d" % time
        headers = records.headers or [()] * len(records)
        return lambda row: b"".join(
            b64encode(name.encode()) + b":" + b64encode(_bytes("header", value)) + b";"
            for name, value, _ in headers[row]
        )


class JsonShape(Shape):
    """A JSON object of the fields, as JsonConverter writes them without schemas; `envelope` False:
    the only field itself. Times are ISO 8601."""

    by_schema = False

    def __init__(self, fields: Sequence[str], *, envelope: bool) -> None:
        # The order of a HashMap, in which Aiven's connector keeps them.
        self._fields = [name for name in _JAVAS_ORDER if name in fields]
        self._envelope = envelope

    def schema(self, schemas: Schemas) -> Schema:
        return BYTES

    def column(self, records: Records, schemas: Schemas, failed: Failed) -> Column:
        sides = [(name, _plain_side(name, records)) for name in self._fields]
        if not self._envelope:
            (_, only), *_ = sides
            return _rows(len(records), failed, lambda row: line(only(row))[:-1])
        return _rows(
            len(records),
            failed,
            lambda row: line({name: side(row) for name, side in sides})[:-1],
        )


class StructShape(Shape):
    """A struct of the fields, for Avro and Parquet; `envelope` False: the value, if it is a struct.
    Headers are a map of texts."""

    by_schema = True

    def __init__(self, fields: Sequence[str], *, envelope: bool, name: str) -> None:
        self._fields = fields
        self._envelope = envelope
        self._name = name

    def schema(self, schemas: Schemas) -> Schema:
        if self._is_bare(schemas):
            assert schemas[0] is not None, "it is a struct"
            return schemas[0]
        return struct(
            {field: self._field(field, schemas) for field in self._fields}, name=self._name
        )

    def column(self, records: Records, schemas: Schemas, failed: Failed) -> Column:
        if self._is_bare(schemas):
            return records.values
        rows: list[Value] = []
        for row in range(len(records)):
            if records.timestamps[row] is None and "timestamp" in self._fields:
                failed[row] = DataError("The record has no timestamp to be written")
            rows.append({field: _cell(field, records, row) for field in self._fields})
        return Column.of(rows, self.schema(schemas))

    def _is_bare(self, schemas: Schemas) -> bool:
        value = schemas[0]
        return (
            not self._envelope
            and self._fields[0] == "value"
            and value is not None
            and value.type is Type.STRUCT
        )

    def _field(self, field: str, schemas: Schemas) -> Schema:
        value, key = schemas
        match field:
            case "offset" | "timestamp":
                return INT64
            case "headers":
                return map_of(STRING, OPTIONAL_STRING)
        schema = key if field == "key" else value
        if schema is None:
            raise DataError(
                f"Record {field} without schema: Avro and Parquet files need one; use a converter "
                "that provides one, or another format.output.type"
            )
        return schema


def _cell(field: str, records: Records, row: int) -> Value:
    match field:
        case "key":
            return records.keys.values[row]
        case "value":
            return records.values.values[row]
        case "offset":
            return records.offsets[row]
        case "timestamp":
            return records.timestamps[row]
    headers = records.headers[row] if records.headers else ()
    return {name: text(schema, value) for name, value, schema in headers}


def _rows(count: int, failed: Failed, make: Callable[[int], bytes]) -> Column:
    rows: list[Value] = []
    for row in range(count):
        try:
            rows.append(make(row))
        except DataError as error:
            failed[row] = error
            rows.append(b"")
        except Exception as error:
            failed[row] = DataError(f"The record cannot be written: {error}")
            rows.append(b"")
    return Column.of(rows, BYTES)


def _bytes(field: str, value: Value, *, texts: bool = False) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if texts and isinstance(value, str):
        return value.encode()
    raise DataError(
        f"format.output.type=csv writes bytes, but the {field} is {type(value).__name__}; use "
        "org.apache.kafka.connect.converters.ByteArrayConverter, or another format.output.type"
    )


def _plain_side(field: str, records: Records) -> Callable[[int], Any]:
    match field:
        case "key":
            return _plain_column(records.keys)
        case "value":
            return _plain_column(records.values)
        case "offset":
            return lambda row: records.offsets[row]
        case "timestamp":
            return lambda row: _instant(records.timestamps[row])
    headers = records.headers or [()] * len(records)
    return lambda row: [
        {"key": name, "value": _plain(schema, value)} for name, value, schema in headers[row]
    ]


def _plain_column(column: Column) -> Callable[[int], Any]:
    values, schemas = column.values, column.schemas()
    return lambda row: _plain(schemas[row], values[row])


def _plain(schema: Schema | None, value: Value) -> Any:
    if value is None:
        return None
    make = plain_of(schema, False)
    return value if make is None else make(value)


def _instant(time: int | None) -> str | None:
    """As Java's Instant prints it: with three digits of a fraction, if there is one."""
    if time is None:
        return None
    moment = datetime.fromtimestamp(time // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{time % 1000:03}Z" if time % 1000 else f"{moment}Z"
