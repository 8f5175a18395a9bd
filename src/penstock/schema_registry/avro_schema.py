"""The Avro schema of a Connect schema (kafka-connect.md §9.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from penstock.convert.logical import TEMPORAL_WRITERS, not_decimal
from penstock.convert.shapes import Convert
from penstock.data.avro import schema as names
from penstock.data.avro.read import is_union
from penstock.data.avro.schema import Node
from penstock.data.logical import decimal_to_bytes
from penstock.data.schema import Logical, Schema, Type, Value, pairs
from penstock.errors import DataError


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The converter's settings that affect written schemas."""

    metadata: bool = True
    enhanced: bool = False
    shared_sum_types: bool = False
    ignore_default: bool = False
    scrub: bool = False
    discard_doc_default: bool = False
    optional_keys: bool = False

    @property
    def enum_parameter(self) -> str:
        """The parameter that makes a STRING an enum."""
        return names.SHARED_ENUM if self.shared_sum_types else names.ENUM

    def rename(self, name: str) -> str:
        """A simple name in Avro."""
        return names.scrub(name) if self.scrub else name

    def rename_full(self, name: str) -> str:
        """A full name in Avro."""
        return names.scrub_full(name) if self.scrub else name

    def is_enum(self, schema: Schema) -> bool:
        """Whether the schema is written as an enum."""
        return (
            schema.type is Type.STRING
            and (self.enhanced or self.shared_sum_types)
            and self.enum_parameter in (schema.parameters or {})
        )

    def is_string_map(self, schema: Schema) -> bool:
        """Whether a MAP is an Avro map; otherwise it is an array of entries."""
        key = schema.key_schema
        return (
            key is not None and key.type is Type.STRING and (not key.optional or self.optional_keys)
        )


def is_fixed(schema: Schema) -> bool:
    """Whether BYTES are an Avro fixed."""
    return (
        schema.type is Type.BYTES
        and schema.name is not None
        and names.FIXED_SIZE in (schema.parameters or {})
    )


def avro_schema(schema: Schema | None, settings: WriteSettings) -> Node:
    """The Avro schema of a Connect schema; `Anything` for None, data without a schema.

    A named type that occurs twice is the same object. Raises DataError if there is no Avro schema.
    """
    return _SchemaWriter(settings).of(schema)


_SIMPLE: Final[Mapping[Type, str]] = {
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
_LOGICAL_NAMES: Final[Mapping[Logical, str]] = {
    Logical.DECIMAL: "decimal",
    Logical.DATE: "date",
    Logical.TIME: "time-millis",
    Logical.TIMESTAMP: "timestamp-millis",
}


@dataclass(slots=True)
class _SchemaWriter:
    settings: WriteSettings
    unnamed: int = 0
    # Required schemas; an optional one is a union that contains its required form.
    written: dict[Schema, Node] = field(default_factory=dict)

    def of(self, schema: Schema | None, *, bare: bool = False) -> Node:
        """`bare` omits the null of an optional schema, for a branch of a union."""
        if schema is None:
            return names.ANYTHING_NODE
        union = schema.type is Type.STRUCT and is_union(schema)
        if not union and not schema.optional:
            known = self.written.get(schema)
            if known is not None:
                return known
        if schema.type is Type.STRUCT and (union or schema.optional):
            if union:
                branches = [
                    self.of(field.schema.as_required(), bare=True) for field in schema.fields
                ]
                return ["null", *branches] if schema.optional else branches
            return ["null", self.of(schema.as_required())]
        node = self._described(schema, self._plain(schema))
        if bare or not schema.optional:
            if not schema.optional:
                self.written[schema] = node
            return node
        return ["null", node] if schema.default is None else [node, "null"]

    def _plain(self, schema: Schema) -> dict[str, Any]:
        """The schema as an object, without Connect's properties."""
        match schema.type:
            case Type.STRING if self.settings.is_enum(schema):
                return self._enum(schema)
            case Type.BYTES:
                return self._bytes(schema)
            case Type.ARRAY:
                return {"type": "array", "items": self.of(schema.value_schema)}
            case Type.MAP if self.settings.is_string_map(schema):
                return {"type": "map", "values": self.of(schema.value_schema)}
            case Type.MAP:
                return {"type": "array", "items": self._map_entry(schema)}
            case Type.STRUCT:
                return self._record(schema)
            case _:
                return {"type": _SIMPLE[schema.type]}

    def _name(self, schema: Schema) -> str:
        if schema.name is not None:
            return self.settings.rename_full(schema.name)
        self.unnamed += 1
        return names.DEFAULT_NAME + (str(self.unnamed) if self.unnamed > 1 else "")

    def _enum(self, schema: Schema) -> dict[str, Any]:
        parameters = schema.parameters or {}
        enum = self.settings.enum_parameter
        simple = names.split_name(self._name(schema))[1]
        if self.settings.discard_doc_default:
            doc, default = parameters.get(names.OLD_ENUM_DOC), None
        else:
            doc = parameters.get(names.ENUM_DOC + simple)
            default = parameters.get(names.ENUM_DEFAULT + simple)
        prefix = enum + "."
        return {
            "type": "enum",
            "name": parameters[enum],
            **({"doc": doc} if doc is not None else {}),
            "symbols": [
                name.removeprefix(prefix) for name in parameters if name.startswith(prefix)
            ],
            **({"default": default} if default is not None else {}),
        }

    def _bytes(self, schema: Schema) -> dict[str, Any]:
        node: dict[str, Any] = {"type": "bytes"}
        if is_fixed(schema):
            size = (schema.parameters or {})[names.FIXED_SIZE]
            node = {"type": "fixed", "name": self._name(schema), "size": _number(size)}
        if schema.logical is Logical.DECIMAL:
            node["scale"] = schema.scale
            node["precision"] = _precision(schema)
        return node

    def _map_entry(self, schema: Schema) -> Node:
        own = {} if schema.name is None else {names.INTERNAL_TYPE_PROP: names.MAP_ENTRY}
        return {
            "type": "record",
            "name": names.MAP_ENTRY_NAME if schema.name is None else self._name(schema),
            "fields": [
                self._field("key", _required(schema.key_schema, "key"), None),
                self._field("value", schema.value_schema, None),
            ],
            **own,
        }

    def _record(self, schema: Schema) -> dict[str, Any]:
        parameters = schema.parameters or {}
        discard = self.settings.discard_doc_default
        name = self._name(schema)
        doc = parameters.get(names.OLD_RECORD_DOC if discard else names.RECORD_DOC)
        fields = [
            self._field(
                self.settings.rename(field.name),
                field.schema,
                field.schema.doc if discard else parameters.get(names.FIELD_DOC + field.name),
            )
            for field in schema.fields
        ]
        head = {"type": "record", "name": name}
        return {**head, **({"doc": doc} if doc is not None else {}), "fields": fields}

    def _field(self, name: str, schema: Schema | None, doc: str | None) -> dict[str, Any]:
        node = self.of(schema)
        out = {"name": name, "type": node}
        if doc is not None:
            out["doc"] = doc
        if schema is None:
            return out
        if schema.default is not None:
            default = self.json_default(schema, schema.default)
            if _is_default(node, default):
                out["default"] = default
        elif schema.optional:
            out["default"] = None
        return out

    def _described(self, schema: Schema, node: dict[str, Any]) -> Node:
        """The node with Connect's properties; a primitive without any is just its name."""
        parameters = dict(schema.parameters or {})
        flagged = not self.settings.discard_doc_default and names.FIELD_DEFAULT in parameters
        if self.settings.metadata:
            if schema.doc is not None:
                node[names.DOC_PROP] = schema.doc
            if schema.version is not None:
                node[names.VERSION_PROP] = schema.version
            shown = {
                name: text
                for name, text in parameters.items()
                if not (flagged and name == names.FIELD_DEFAULT)
            }
            if shown:
                node[names.PARAMETERS_PROP] = shown
            if schema.default is not None and not flagged:
                node[names.DEFAULT_PROP] = self.json_default(schema, schema.default)
            if schema.name is not None:
                node[names.NAME_PROP] = schema.name
            if schema.type in (Type.INT8, Type.INT16):
                node[names.TYPE_PROP] = schema.type.value.lower()
        if schema.logical is not None:
            node["logicalType"] = _LOGICAL_NAMES[schema.logical]
        for name, text in parameters.items():
            if name.startswith("avro"):
                node.setdefault(name, text)
        return node["type"] if len(node) == 1 else node

    def json_default(self, schema: Schema | None, value: Value) -> Any:
        """A default as JSON: bytes as characters 0–255, logical values as they are encoded."""
        if value is None:
            return None
        schema = _required(schema, "default")
        encode = TEMPORAL_WRITERS.get(schema.logical)
        if schema.logical is Logical.DECIMAL:
            return decimal_writer(schema)(value).decode("latin-1")
        if encode is not None:
            return encode(value)
        match schema.type:
            case Type.BYTES:
                return bytes(value).decode("latin-1")
            case Type.ARRAY:
                return [self.json_default(schema.value_schema, item) for item in value]
            case Type.MAP:
                entries = [
                    [self.json_default(schema.key_schema, key),
                     self.json_default(schema.value_schema, item)]
                    for key, item in pairs(value)
                ]  # fmt: skip
                return dict(entries) if self.settings.is_string_map(schema) else entries
            case Type.STRUCT:
                fields = {
                    self.settings.rename(field.name): self.json_default(
                        field.schema, value.get(field.name, field.schema.default)
                    )
                    for field in schema.fields
                }
                return next(iter(fields.values()), None) if is_union(schema) else fields
            case _:
                return value


def decimal_writer(schema: Schema, size: int | None = None) -> Convert:
    """The function that writes a Decimal as bytes, or as a fixed of `size` bytes."""
    scale = schema.scale

    def prepare(value: Value) -> Value:
        if not isinstance(value, Decimal):
            raise not_decimal(value)
        data = decimal_to_bytes(value, scale)
        if size is None:
            return data
        if len(data) > size:
            raise DataError(f"{value} does not fit the {size} bytes of {schema.name}")
        return (b"\xff" if data[0] & 0x80 else b"\0") * (size - len(data)) + data

    return prepare


def _required(schema: Schema | None, kind: str) -> Schema:
    if schema is None:
        raise DataError(f"A {kind} without a schema has no Avro schema")
    return schema


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as cause:
        raise DataError(f"'{text}' is not a number") from cause


def _precision(schema: Schema) -> int:
    text = (schema.parameters or {}).get(names.PRECISION)
    return names.DEFAULT_PRECISION if text is None else _number(text)


def _is_default(node: Node, value: Any) -> bool:
    """Whether Avro allows the JSON value as a default; for a union, of its first branch."""
    if isinstance(node, list):
        return bool(node) and _is_default(node[0], value)
    kind = node if isinstance(node, str) else node["type"]
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float" | "double":
            return isinstance(value, float) and abs(value) < float("inf")
        case "string" | "bytes" | "enum" | "fixed":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list) and all(_is_default(node["items"], v) for v in value)
        case "map":
            return isinstance(value, dict) and all(
                _is_default(node["values"], item) for item in value.values()
            )
        case "record":
            return isinstance(value, dict) and all(
                _is_default(field["type"], value.get(field["name"], field.get("default")))
                for field in node["fields"]
            )
    return False
