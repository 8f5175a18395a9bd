"""Avro files: a header with the schema, and blocks of records.

fastavro encodes many records per call; this module writes the container, so that the same records
make the same file. Schemas are those of Confluent's AvroData: unnamed structs are `ConnectDefault`,
maps whose keys are not strings are arrays of `MapEntry`, and `connect.*` properties keep what Avro
cannot express.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import md5
from io import BytesIO
from typing import Any, Final

from penstock.api import Column, DataError, Failed
from penstock.api.schema import Logical, Schema, Type, Value, pairs
from penstock.connectors.files.formats.codecs import AVRO_CODECS
from penstock.connectors.files.formats.format import Encoder, Format, Out
from penstock.connectors.files.formats.shape import Shape, same, struct_shape, with_default

_BLOCK_RECORDS: Final = 1000
_NAMESPACE: Final = "io.confluent.connect.avro"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_PRIMITIVES: Final[Mapping[Type, str]] = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_LOGICAL: Final[Mapping[Logical, str]] = {
    Logical.DATE: "date",
    Logical.TIME: "time-millis",
    Logical.TIMESTAMP: "timestamp-millis",
}
_PRECISION: Final = "connect.decimal.precision"


class Avro(Format):
    """Avro object container files."""

    needs_schema = True

    def __init__(self, codec: str = "null") -> None:
        self._codec = codec

    @property
    def ending(self) -> str:
        return ".avro"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _AvroEncoder(self.require(schema, "Avro"), self._codec, out, seed)


Piece = tuple[int, bytes]
"""The number of records, and their encoding."""


class _AvroEncoder(Encoder[list[Piece]]):
    """Pieces end at the boundaries of blocks."""

    def __init__(self, schema: Schema, codec: str, out: Out, seed: str) -> None:
        from fastavro import schemaless_writer  # an optional dependency

        self._write = schemaless_writer
        self._array_schema, declared = _parsed(schema)
        self._shape = _shape(schema)
        self._compress = AVRO_CODECS[codec]
        self._out = out
        self._sync = md5(seed.encode(), usedforsecurity=False).digest()
        self._block: list[bytes] = []
        self._count = 0
        meta = {"avro.schema": declared.encode(), "avro.codec": codec.encode()}
        pairs = [_sized(name.encode()) + _sized(value) for name, value in meta.items()]
        out.write(b"".join([b"Obj\x01", _long(len(pairs)), *pairs, b"\x00", self._sync]))

    def encode(self, column: Column) -> list[Piece] | Failed:
        values = column.values
        pieces: list[Piece] = []
        try:
            start, room = 0, _BLOCK_RECORDS - self._count
            while start < len(values):
                rows = values[start : start + room]
                pieces.append((len(rows), self._encode(rows)))
                start, room = start + room, _BLOCK_RECORDS
        except Exception:
            failed = self._refused(values)
            if not failed:
                raise
            return failed
        return pieces

    def append(self, encoded: list[Piece]) -> None:
        for count, data in encoded:
            self._block.append(data)
            self._count += count
            if self._count >= _BLOCK_RECORDS:
                self._write_block()

    def finish(self) -> None:
        if self._count:
            self._write_block()

    def _encode(self, values: list[Value]) -> bytes:
        if self._shape is not None:
            values = [self._shape(value) for value in values]
        target = BytesIO()
        self._write(target, self._array_schema, values)
        # An array is encoded as its length, its elements and 0.
        return target.getvalue()[len(_long(len(values))) : -1]

    def _refused(self, values: list[Value]) -> Failed:
        failed: Failed = {}
        for row, value in enumerate(values):
            try:
                self._encode([value])
            except Exception as error:
                failed[row] = DataError(f"The value cannot be written as Avro: {error}")
        return failed

    def _write_block(self) -> None:
        data = self._compress(b"".join(self._block))
        head = _long(self._count) + _long(len(data))
        self._out.write(b"".join([head, data, self._sync]))
        self._block = []
        self._count = 0


def _long(value: int) -> bytes:
    """The Avro encoding of a non-negative number."""
    value <<= 1
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _sized(data: bytes) -> bytes:
    return _long(len(data)) + data


@lru_cache(maxsize=256)
def _parsed(schema: Schema) -> tuple[Any, str]:
    """The fastavro schema of arrays of such values, and the JSON of the schema."""
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException

    declared = avro_schema(schema)
    try:
        array_schema = parse_schema({"type": "array", "items": declared})
    except (SchemaParseException, ValueError) as error:
        raise DataError(f"The schema is not valid in Avro: {error}") from error
    return array_schema, json.dumps(declared, separators=(",", ":"))


def avro_schema(schema: Schema) -> Any:
    """The Avro schema for a Connect schema. Raises DataError for names that Avro does not allow."""
    return _Declaring().declared(schema)


class _Declaring:
    """Declares one schema; each named type is declared once, and then referenced by name."""

    def __init__(self) -> None:
        self._named: dict[str, Schema] = {}
        self._unnamed = 0

    def declared(self, schema: Schema | None) -> Any:
        if schema is None:
            raise DataError("Avro files need schemas for the elements of arrays and maps")
        plain = self._plain(schema)
        if not schema.optional:
            return plain
        return [plain, "null"] if _default(schema) is not None else ["null", plain]

    def _plain(self, schema: Schema) -> Any:
        match schema.type:
            case Type.STRUCT:
                return self._record(schema)
            case Type.ARRAY:
                return {"type": "array", "items": self.declared(schema.value_schema)}
            case Type.MAP if _has_text_keys(schema):
                return {"type": "map", "values": self.declared(schema.value_schema)}
            case Type.MAP:
                return {"type": "array", "items": self._entry(schema)}
        kind = _PRIMITIVES[schema.type]
        properties: dict[str, Any] = {}
        if schema.logical is Logical.DECIMAL:
            precision = int((schema.parameters or {}).get(_PRECISION, 64))
            properties = {"scale": schema.scale, "precision": precision, "logicalType": "decimal"}
        elif schema.logical is not None:
            properties = {"logicalType": _LOGICAL[schema.logical]}
        if schema.type in (Type.INT8, Type.INT16):
            properties["connect.type"] = schema.type.name.lower()
        properties |= _connect(schema)
        return {"type": kind, **properties} if properties else kind

    def _record(self, schema: Schema) -> Any:
        name = schema.name
        if name is None:
            self._unnamed += 1
            number = "" if self._unnamed == 1 else str(self._unnamed)
            name = f"{_NAMESPACE}.ConnectDefault{number}"
        if self._named.get(name) == schema:
            return name
        if name in self._named:
            raise DataError(f"Two different structs have the name '{name}'")
        self._named[name] = schema
        fields = [
            {"name": _name(field.name), "type": self.declared(field.schema)}
            | _field_default(field.schema)
            for field in schema.fields
        ]
        return {"type": "record", "name": _name(name), "fields": fields, **_connect(schema)}

    def _entry(self, schema: Schema) -> Any:
        self._unnamed += 1
        return {
            "type": "record",
            "name": f"{_NAMESPACE}.MapEntry{self._unnamed}",
            "fields": [
                {"name": "key", "type": self.declared(schema.key_schema)},
                {"name": "value", "type": self.declared(schema.value_schema)},
            ],
            "connect.internal.type": "MapEntry",
        }


def _connect(schema: Schema) -> dict[str, Any]:
    """Properties from which Kafka Connect restores the schema beyond its type."""
    properties: dict[str, Any] = {}
    if schema.version is not None:
        properties["connect.version"] = schema.version
    if schema.parameters:
        properties["connect.parameters"] = dict(schema.parameters)
    if schema.doc is not None:
        properties["connect.doc"] = schema.doc
    if schema.name is not None:
        properties["connect.name"] = schema.name
    return properties


def _name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise DataError(f"'{name}' is not a valid Avro name; use letters, digits and underscores")
    return name


def _default(schema: Schema) -> Any:
    """The default, if Avro writes it like JSON."""
    simple = schema.logical is None and schema.type.is_primitive and schema.type is not Type.BYTES
    return schema.default if simple else None


def _field_default(schema: Schema) -> dict[str, Any]:
    default = _default(schema)
    if default is not None:
        return {"default": default}
    return {"default": None} if schema.optional else {}


def _has_text_keys(schema: Schema) -> bool:
    key = schema.key_schema
    return key is not None and key.type is Type.STRING and not key.optional


@lru_cache(maxsize=256)
def _shape(schema: Schema | None) -> Shape | None:
    """Converts values to the form that fastavro writes: maps as arrays of entries, defaults instead
    of null. None: no conversion is needed."""
    if schema is None:
        return None
    make: Shape | None = None
    match schema.type:
        case Type.ARRAY:
            element = _shape(schema.value_schema)
            if element is not None:
                make = lambda value: [element(item) for item in value]  # noqa: E731
        case Type.MAP:
            make = _map_shape(schema)
        case Type.STRUCT:
            make = struct_shape(schema, _shape)
    return with_default(make, schema.default)


def _map_shape(schema: Schema) -> Shape | None:
    key = _shape(schema.key_schema) or same
    value = _shape(schema.value_schema) or same
    if _has_text_keys(schema):
        if value is same:
            return None
        return lambda map: {name: value(item) for name, item in map.items()}
    return lambda map: [{"key": key(name), "value": value(item)} for name, item in pairs(map)]
