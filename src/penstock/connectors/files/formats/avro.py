"""Avro files: a header with the schema, and blocks of records.

fastavro encodes many records per call; this module writes the container, so that the same records
make the same file. Schemas are those of Confluent's AvroData: unnamed structs are `ConnectDefault`,
maps whose keys are not strings are arrays of `MapEntry`, and `connect.*` properties keep what Avro
cannot express. `AvroOptions` has the settings of AvroData that change them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import md5
from io import BytesIO
from typing import Any, Final

from penstock.api import Column, DataError, Failed
from penstock.api.avro import scrub_full
from penstock.api.schema import Logical, Schema, Type, Value, pairs
from penstock.connectors.files.formats.codecs import AVRO_CODECS
from penstock.connectors.files.formats.format import Encoder, Format, Out
from penstock.connectors.files.formats.scrub import scrubbed_column, scrubbed_schema
from penstock.connectors.files.formats.shape import Shape, same, struct_shape, with_default

_BLOCK_RECORDS: Final = 1000
_NAMESPACE: Final = "io.confluent.connect.avro"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENUM: Final = f"{_NAMESPACE}.Enum"
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


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """The settings of Confluent's AvroData that change schemas in files."""

    metadata: bool = True
    """Whether `connect.*` properties are written."""
    enums: bool = False
    """Whether strings that were enums in Avro are written as such."""
    scrub: bool = False
    """Whether characters that Avro's names cannot contain are replaced."""
    optional_keys: bool = False
    """Whether maps with optional strings as keys are maps in Avro."""


PLAIN: Final = AvroOptions()


class Avro(Format):
    """Avro object container files."""

    needs_schema = True

    def __init__(self, codec: str = "null", options: AvroOptions = PLAIN) -> None:
        self._codec = codec
        self._options = options

    @property
    def ending(self) -> str:
        return ".avro"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _AvroEncoder(self.require(schema, "Avro"), self._options, self._codec, out, seed)


Piece = tuple[int, bytes]
"""The number of records, and their encoding."""


class _AvroEncoder(Encoder[list[Piece]]):
    """Pieces end at the boundaries of blocks."""

    def __init__(
        self, schema: Schema, options: AvroOptions, codec: str, out: Out, seed: str
    ) -> None:
        from fastavro import schemaless_writer  # an optional dependency

        self._write = schemaless_writer
        self._scrubs = schema if options.scrub else None
        if options.scrub:
            schema = scrubbed_schema(schema)
        self._array_schema, declared = _parsed(schema, options)
        self._shape = _shape(schema, options.optional_keys)
        self._compress = AVRO_CODECS[codec]
        self._out = out
        self._sync = md5(seed.encode(), usedforsecurity=False).digest()
        self._block: list[bytes] = []
        self._count = 0
        meta = {"avro.schema": declared.encode(), "avro.codec": codec.encode()}
        pairs = [_sized(name.encode()) + _sized(value) for name, value in meta.items()]
        out.write(b"".join([b"Obj\x01", _long(len(pairs)), *pairs, b"\x00", self._sync]))

    def encode(self, column: Column) -> list[Piece] | Failed:
        if self._scrubs is not None:
            column = scrubbed_column(self._scrubs, column)
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
def _parsed(schema: Schema, options: AvroOptions) -> tuple[Any, str]:
    """The fastavro schema of arrays of such values, and the JSON of the schema."""
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException

    declared = avro_schema(schema, options)
    try:
        array_schema = parse_schema({"type": "array", "items": declared})
    except (SchemaParseException, ValueError) as error:
        raise DataError(f"The schema is not valid in Avro: {error}") from error
    return array_schema, json.dumps(declared, separators=(",", ":"))


def avro_schema(schema: Schema, options: AvroOptions = PLAIN) -> Any:
    """The Avro schema for a Connect schema, whose fields have been scrubbed if `options` say so.
    Raises DataError for names that Avro does not allow."""
    moved: set[str] = set()
    while True:
        declaring = _Declaring(options, moved)
        declared = declaring.declared(schema)
        if not declaring.unreachable:
            return declared
        moved |= declaring.unreachable


class _Declaring:
    """Declares one schema; each named type is declared once, and then referenced by name.

    A name without a namespace belongs to that of the type around it, if any. `moved` are those that
    get Confluent's namespace instead.
    """

    def __init__(self, options: AvroOptions, moved: set[str]) -> None:
        self._options = options
        self._moved = moved
        self._named: dict[str, tuple[Schema, str]] = {}
        """The declared types by their names, and by what others refer to them."""
        self._space = ""
        self._unnamed = 0
        self.unreachable: set[str] = set()
        """Types without a namespace that a type in one refers to, which Avro cannot express."""

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
            case Type.STRING if self._options.enums and _ENUM in (schema.parameters or {}):
                return self._enum(schema)
            case Type.MAP if _has_text_keys(schema, self._options.optional_keys):
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
        if schema.type in (Type.INT8, Type.INT16) and self._options.metadata:
            properties["connect.type"] = schema.type.name.lower()
        properties |= self._connect(schema)
        return {"type": kind, **properties} if properties else kind

    def _record(self, schema: Schema) -> Any:
        name = schema.name
        if name is None:
            self._unnamed += 1
            number = "" if self._unnamed == 1 else str(self._unnamed)
            name = f"{_NAMESPACE}.ConnectDefault{number}"
        name = self._full_name(name)
        if (known := self._known(name, replace(schema, optional=False, default=None))) is not None:
            return known
        with self._inside(name):
            fields = [
                {"name": _name(field.name), "type": self.declared(field.schema)}
                | _field_default(field.schema)
                for field in schema.fields
            ]
        return {"type": "record", "name": name, "fields": fields, **self._connect(schema)}

    def _enum(self, schema: Schema) -> Any:
        parameters = schema.parameters or {}
        name = self._full_name(parameters[_ENUM])
        plain = replace(schema, optional=False, default=None, doc=None)
        if (known := self._known(name, plain)) is not None:
            return known
        prefix = f"{_ENUM}."
        symbols = [key.removeprefix(prefix) for key in parameters if key.startswith(prefix)]
        return {"type": "enum", "name": name, "symbols": symbols, **self._connect(schema)}

    def _known(self, name: str, schema: Schema) -> str | None:
        """How to refer to a type that was declared before; None for a new one, which is known from
        now on. Raises DataError if another type has its name."""
        known = self._named.get(name)
        if known is None:
            self._named[name] = schema, self._in_space(name)
            return None
        declared, reference = known
        if declared != schema:
            raise DataError(f"Two different types have the name '{name}' in Avro")
        if self._space and "." not in reference:
            self.unreachable.add(name)
        return reference

    def _in_space(self, name: str) -> str:
        return name if "." in name or not self._space else f"{self._space}.{name}"

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        """Declares the fields of a record."""
        around, self._space = self._space, self._in_space(name).rpartition(".")[0]
        yield
        self._space = around

    def _full_name(self, name: str) -> str:
        if self._options.scrub:
            name = scrub_full(name)
        for part in name.split("."):
            _name(part, name)
        return f"{_NAMESPACE}.{name}" if name in self._moved else name

    def _connect(self, schema: Schema) -> dict[str, Any]:
        return _connect(schema) if self._options.metadata else {}

    def _entry(self, schema: Schema) -> Any:
        self._unnamed += 1
        name = f"{_NAMESPACE}.MapEntry{self._unnamed}"
        with self._inside(name):
            fields = [
                {"name": "key", "type": self.declared(schema.key_schema)},
                {"name": "value", "type": self.declared(schema.value_schema)},
            ]
        return {
            "type": "record",
            "name": name,
            "fields": fields,
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


def _name(name: str, full: str | None = None) -> str:
    if _NAME.fullmatch(name) is None:
        raise DataError(
            f"'{full or name}' is not a valid Avro name; use letters, digits and underscores"
        )
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


def _has_text_keys(schema: Schema, optional_keys: bool) -> bool:
    key = schema.key_schema
    return key is not None and key.type is Type.STRING and (optional_keys or not key.optional)


@lru_cache(maxsize=256)
def _shape(schema: Schema | None, optional_keys: bool) -> Shape | None:
    """Converts values to the form that fastavro writes: maps as arrays of entries, defaults instead
    of null. None: no conversion is needed."""
    if schema is None:
        return None
    make: Shape | None = None
    match schema.type:
        case Type.ARRAY:
            element = _shape(schema.value_schema, optional_keys)
            if element is not None:
                make = lambda value: [element(item) for item in value]  # noqa: E731
        case Type.MAP:
            make = _map_shape(schema, optional_keys)
        case Type.STRUCT:
            make = struct_shape(schema, lambda member: _shape(member, optional_keys))
    return with_default(make, schema.default)


def _map_shape(schema: Schema, optional_keys: bool) -> Shape | None:
    key = _shape(schema.key_schema, optional_keys) or same
    value = _shape(schema.value_schema, optional_keys) or same
    if _has_text_keys(schema, optional_keys):
        if value is same:
            return None
        return lambda map: {name: value(item) for name, item in map.items()}
    return lambda map: [{"key": key(name), "value": value(item)} for name, item in pairs(map)]
