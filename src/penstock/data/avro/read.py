"""Avro to Connect: converts a schema, and makes the reader of its data (kafka-connect.md §9.5).

Functions from `decode` decode the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.data import schema as connect
from penstock.data.avro import decode
from penstock.data.avro import schema as names
from penstock.data.avro.decode import Decode
from penstock.data.avro.schema import Node, Nodes, kind_of, resolved
from penstock.data.avro.source import path_of
from penstock.data.json_text import compact
from penstock.data.logical import (
    bytes_to_decimal,
    days_to_date,
    ms_to_time,
    ms_to_timestamp,
)
from penstock.data.paths import Misfit, joined
from penstock.data.schema import Logical, Schema, Type, Value, check, fields_of, wrap_int
from penstock.errors import DataError

ReadBytes = Callable[[bytes], Value]


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The converter's settings for reading schemas."""

    metadata: bool = True
    enhanced: bool = False
    shared_sum_types: bool = False
    discard_doc_default: bool = False
    flatten_singletons: bool = True
    all_moments: bool = False
    """Whether times in µs or ns, and local ones, become Time and Timestamp too, truncated to ms;
    Confluent's converter reads them as INT64."""


def connect_schema(
    node: Node, named: Nodes, settings: ReadSettings, version: int | None
) -> Schema | None:
    """The Connect schema of an Avro schema; None for `Anything`, data without a schema.

    `version` is the default for schemas without one. Raises DataError for a null type, types that
    contain themselves, and contradictory properties.
    """
    if _is_anything(node, named):
        return None
    return _SchemaReader(named, settings).of(node, version=version)


def _is_anything(node: Node, named: Nodes) -> bool:
    node = resolved(node, named)
    return isinstance(node, dict) and node.get("name") == names.ANYTHING


_LOGICAL: Final[Mapping[tuple[str, str], Schema]] = {
    ("int", "date"): connect.DATE,
    ("int", "time-millis"): connect.TIME,
    ("long", "timestamp-millis"): connect.TIMESTAMP,
}
_MOMENTS: Final[Mapping[tuple[str, str], Schema]] = {
    moment: connect.TIME if moment[1] == "time-micros" else connect.TIMESTAMP
    for moment in decode.MOMENTS
}
_PRIMITIVES: Final[Mapping[str, Schema]] = {
    "boolean": connect.BOOLEAN,
    "int": connect.INT32,
    "long": connect.INT64,
    "float": connect.FLOAT32,
    "double": connect.FLOAT64,
    "bytes": connect.BYTES,
    "fixed": connect.BYTES,
    "string": connect.STRING,
    "enum": connect.STRING,
}
_SMALL: Final[Mapping[object, Schema]] = {"int8": connect.INT8, "int16": connect.INT16}

_NOTHING: Final = object()


@dataclass(slots=True)
class _SchemaReader:
    named: Nodes
    settings: ReadSettings
    unions: int = 0
    inside: list[str] = field(default_factory=list)

    def of(
        self,
        node: Node,
        *,
        optional: bool = False,
        default: Any = _NOTHING,
        doc: str | None = None,
        version: int | None = None,
    ) -> Schema:
        """`default` and `doc` are those of the field."""
        if isinstance(node, list):
            return self._union(node, optional, default, doc, version)
        node = resolved(node, self.named)
        properties: Mapping[str, Any] = node if isinstance(node, dict) else {}
        kind = kind_of(node, self.named)
        schema = self._base(kind, properties)
        return self._finished(schema, node, kind, properties, optional, default, doc, version)

    def _base(self, kind: str, node: Mapping[str, Any]) -> Schema:
        match kind:
            case "null":
                raise DataError("Standalone null schemas are not supported by this converter")
            case "array" if names.is_map_entry(node["items"], self.named):
                return self._entries(resolved(node["items"], self.named))
            case "array":
                return Schema(Type.ARRAY, value_schema=self._element(node["items"]))
            case "map":
                mapped = self._element(node["values"])
                return Schema(Type.MAP, key_schema=connect.STRING, value_schema=mapped)
            case "record":
                return self._record(node)
            case "enum":
                return self._enum(node)
            case "bytes" | "fixed":
                return self._bytes(kind, node)
            case "int" if "logicalType" not in node and names.TYPE_PROP in node:
                small = _SMALL.get(node[names.TYPE_PROP])
                if small is None:
                    raise DataError("Connect type annotation for Avro int field is null")
                return small
            case _ if kind in _PRIMITIVES:
                logical = str(node.get("logicalType", "")).lower()
                schema = _LOGICAL.get((kind, logical))
                if schema is None and self.settings.all_moments:
                    schema = _MOMENTS.get((kind, logical))
                return schema or _PRIMITIVES[kind]
        raise DataError(f"Couldn't translate unsupported schema type {kind}.")

    def _element(self, node: Node) -> Schema | None:
        # Kafka Connect reads a recursive struct; here data without a schema.
        return None if _is_anything(node, self.named) else self.of(node)

    def _entries(self, entry: Mapping[str, Any]) -> Schema:
        types = {field["name"]: field["type"] for field in entry["fields"]}
        if types.keys() != {"key", "value"}:
            raise DataError(
                "Found map encoded as array of key-value pairs, but array elements do not match "
                "the expected format."
            )
        return Schema(
            Type.MAP,
            key_schema=self._element(types["key"]),
            value_schema=self._element(types["value"]),
        )

    def _bytes(self, kind: str, node: Mapping[str, Any]) -> Schema:
        schema = connect.BYTES
        if str(node.get("logicalType", "")).lower() == "decimal":
            scale, precision = node.get("scale"), node.get("precision")
            schema = connect.decimal(scale if isinstance(scale, int) else 0)
            if precision is not None and not isinstance(precision, int | float):
                raise DataError("precision property must be a JSON Integer.")
            if precision is not None and precision != names.DEFAULT_PRECISION:
                schema = _with(schema, {names.PRECISION: str(int(precision))})
        if kind == "fixed":
            schema = _with(schema, {names.FIXED_SIZE: str(node["size"])})
        return schema

    def _enum(self, node: Mapping[str, Any]) -> Schema:
        simple = names.split_name(node["name"])[1]
        discard, shared = self.settings.discard_doc_default, self.settings.shared_sum_types
        parameters: dict[str, str] = {}
        if self.settings.metadata and node.get("doc") is not None:
            parameters[names.OLD_ENUM_DOC if discard else names.ENUM_DOC + simple] = node["doc"]
        if self.settings.metadata and not discard and node.get("default") is not None:
            parameters[names.ENUM_DEFAULT + simple] = node["default"]
        enum = names.SHARED_ENUM if shared else names.ENUM
        parameters[enum] = node["name"]
        for index, symbol in enumerate(node["symbols"]):
            parameters[f"{enum}.{symbol}"] = str(index) if shared else symbol
        return _with(connect.STRING, parameters)

    def _record(self, node: Mapping[str, Any]) -> Schema:
        name = node["name"]
        if name in self.inside:
            raise DataError(f"Record {name} contains itself, which a Connect schema cannot express")
        self.inside.append(name)
        with_docs = not self.settings.discard_doc_default and self.settings.metadata
        parameters: dict[str, str] = {}
        if with_docs and node.get("doc") is not None:
            parameters[names.RECORD_DOC] = node["doc"]
        fields: dict[str, Schema] = {}
        for entry in node["fields"]:
            doc = entry.get("doc")
            if with_docs and doc is not None:
                parameters[names.FIELD_DOC + entry["name"]] = doc
            default = entry.get("default", _NOTHING)
            if default is not _NOTHING and not _is_valid(entry["type"], default, self.named):
                default = _NOTHING
            fields[entry["name"]] = self.of(entry["type"], default=default, doc=doc)
        self.inside.pop()
        return Schema(Type.STRUCT, fields=fields_of(fields), parameters=parameters or None)

    def _union(
        self,
        node: list[Node],
        optional: bool,
        default: Any,
        doc: str | None,
        version: int | None,
    ) -> Schema:
        if len(node) == 1 and self.settings.flatten_singletons:
            return self.of(node[0], doc=doc)
        if len(node) == 2 and "null" in node:
            inner = next((branch for branch in node if branch != "null"), "null")
            return self.of(inner, optional=True, doc=doc)
        fields: dict[str, Schema] = {}
        shared = self.settings.shared_sum_types
        name = f"{names.SHARED_UNION_PREFIX}{self.unions}" if shared else names.UNION
        self.unions += 1
        for label, branch in zip(union_fields(node, self.named, self.settings), node, strict=True):
            if branch == "null":
                continue
            if label in fields:
                raise DataError("Multiple union schemas map to the Connect union field name")
            fields[label] = self.of(branch, optional=True)
        schema = Schema(
            Type.STRUCT,
            optional="null" in node,
            name=name,
            fields=fields_of(fields),
            parameters={names.SHARED_UNION: name} if shared else None,
        )
        # A union has no properties; it records only that the field has a default.
        if default is not _NOTHING and not self.settings.discard_doc_default:
            schema = _with(schema, {names.FIELD_DEFAULT: "true"} if self.settings.metadata else {})
        if doc is not None and self.settings.discard_doc_default:
            schema = replace(schema, doc=doc)
        if version is not None:
            schema = replace(schema, version=version)
        return schema.as_optional() if optional else schema

    def _finished(
        self,
        schema: Schema,
        node: Node,
        kind: str,
        properties: Mapping[str, Any],
        optional: bool,
        default: Any,
        doc: str | None,
        version: int | None,
    ) -> Schema:
        """The schema with doc, version, parameters, default and name."""
        schema = replace(
            schema,
            doc=self._doc(kind, properties, doc),
            version=_version(schema, properties, version),
        )
        if self.settings.discard_doc_default and self.settings.metadata and _doc(kind, properties):
            schema = _with(schema, {names.OLD_RECORD_DOC: properties["doc"]})
        if self.settings.metadata:
            schema = _with(schema, _parameters(properties))
        schema = _with(
            schema,
            {key: _shown(value) for key, value in properties.items() if key.startswith("avro")},
        )
        own_default = properties.get(names.DEFAULT_PROP)
        if default is _NOTHING:
            default = own_default
        elif (
            own_default is None and self.settings.metadata and not self.settings.discard_doc_default
        ):
            schema = _with(schema, {names.FIELD_DEFAULT: "true"})
        name = _name(kind, properties)
        if name is not None and schema.name is None:
            schema = replace(schema, name=name)
        elif name is not None and schema.name != name and kind != "fixed":
            raise DataError(
                f"Mismatched names: name already added to SchemaBuilder ({schema.name}) differs "
                f"from name in source schema ({name})"
            )
        if default is not None:
            schema = replace(schema, default=_read_default(schema, node, default, self.named))
        return schema.as_optional() if optional else schema

    def _doc(self, kind: str, properties: Mapping[str, Any], doc: str | None) -> str | None:
        own = properties.get(names.DOC_PROP)
        if not self.settings.discard_doc_default:
            return own if self.settings.metadata and isinstance(own, str) else None
        return doc or _doc(kind, properties) or own


def _doc(kind: str, properties: Mapping[str, Any]) -> str | None:
    return properties.get("doc") if kind in names.NAMED else None


def _with(schema: Schema, parameters: Mapping[str, str]) -> Schema:
    if not parameters:
        return schema
    return replace(schema, parameters={**(schema.parameters or {}), **parameters})


def _version(schema: Schema, properties: Mapping[str, Any], version: int | None) -> int | None:
    stated = properties.get(names.VERSION_PROP)
    if stated is None:
        # A logical type has its own version; Java fails if the registry's differs.
        return version if schema.version is None else schema.version
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        raise DataError(f"Invalid Connect version found: {stated}")
    if schema.version is not None and schema.version != int(stated):
        raise DataError(
            "Mismatched versions: version already added to SchemaBuilder "
            f"({schema.version}) differs from version in source schema ({int(stated)})"
        )
    return int(stated) if stated >= 0 else schema.version


def _parameters(properties: Mapping[str, Any]) -> dict[str, str]:
    parameters = properties.get(names.PARAMETERS_PROP)
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise DataError(f"Expected JSON object for schema parameters but found: {parameters}")
    for text in parameters.values():
        if not isinstance(text, str):
            raise DataError(f"Expected schema parameter values to be strings but found: {text}")
    return parameters


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _name(kind: str, properties: Mapping[str, Any]) -> str | None:
    name = properties.get(names.NAME_PROP)
    if name is None:
        name = properties["name"] if kind in names.NAMED else None
    elif not isinstance(name, str):
        raise DataError(f"Invalid schema name: {name}")
    return None if name is None or name.startswith(names.DEFAULT_NAME) else name


def union_fields(node: list[Node], named: Nodes, settings: ReadSettings) -> list[str]:
    """The names of the fields for the branches of a union."""
    labels = []
    for index, branch in enumerate(node):
        kind = kind_of(branch, named)
        if settings.shared_sum_types:
            labels.append(f"{names.SHARED_UNION_FIELD}{index}")
        elif kind not in names.NAMED:
            labels.append(kind)
        else:
            name = resolved(branch, named)["name"]
            labels.append(name if settings.enhanced else names.split_name(name)[1])
    return labels


def _is_valid(node: Node, default: Any, named: Nodes) -> bool:
    """Whether JSON is valid as a default, by Java's check; an invalid one is ignored."""
    if isinstance(node, list):
        return any(_is_valid(branch, default, named) for branch in node)
    expected: Mapping[str, tuple[type, ...]] = {
        "null": (type(None),),
        "boolean": (bool,),
        "int": (int,),
        "long": (int,),
        "float": (int, float),
        "double": (int, float),
        "array": (list,),
        "map": (dict,),
        "record": (dict,),
    }
    allowed = expected.get(kind_of(node, named), (str,))
    return isinstance(default, allowed) and (bool in allowed or not isinstance(default, bool))


def _read_default(schema: Schema, node: Node, default: Any, named: Nodes) -> Value:
    """A default in JSON as a Connect value; None if it is invalid, as in Java."""
    try:
        value = _from_json(schema, node, default, named)
        check(replace(schema, default=None, optional=True), value)
    except (DataError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return value


def _from_json(schema: Schema | None, node: Node, value: Any, named: Nodes) -> Value:
    if value is None:
        return None
    if schema is None:
        raise DataError("A default without a schema")
    if isinstance(node, list):
        living = [branch for branch in node if branch != "null"]
        if len(living) != 1 or is_union(schema):
            raise DataError("A union has no default")
        return _from_json(schema, living[0], value, named)
    node = resolved(node, named)
    match schema.logical:
        case Logical.DECIMAL:
            return bytes_to_decimal(value.encode("latin-1"), schema.scale)
        case Logical.DATE:
            return days_to_date(value)
        case Logical.TIME | Logical.TIMESTAMP:
            logical = node.get("logicalType") if isinstance(node, dict) else None
            other = decode.MOMENTS.get((kind_of(node, named), str(logical).lower()))
            if other is not None:
                return other(value)
            return ms_to_time(value) if schema.logical is Logical.TIME else ms_to_timestamp(value)
    match schema.type:
        case Type.INT8 | Type.INT16:
            return wrap_int(value, schema.type)
        case Type.FLOAT32:
            return connect.float32(float(value))
        case Type.FLOAT64:
            return float(value)
        case Type.BYTES:
            return value.encode("latin-1")
        case Type.ARRAY:
            return [_from_json(schema.value_schema, node["items"], item, named) for item in value]
        case Type.MAP if isinstance(value, dict):
            return {
                key: _from_json(schema.value_schema, node["values"], item, named)
                for key, item in value.items()
            }
        case Type.MAP:
            types = {
                field["name"]: field["type"] for field in resolved(node["items"], named)["fields"]
            }
            entries = [
                (
                    _from_json(schema.key_schema, types["key"], key, named),
                    _from_json(schema.value_schema, types["value"], item, named),
                )
                for key, item in value
            ]
            primitive = schema.key_schema is not None and schema.key_schema.type.is_primitive
            return dict(entries) if primitive else entries
        case Type.STRUCT:
            types = {field["name"]: field["type"] for field in node["fields"]}
            return {
                field.name: _from_json(
                    field.schema, types[field.name], value.get(field.name), named
                )
                for field in schema.fields
            }
        case _:
            return value


def is_union(schema: Schema) -> bool:
    """Whether a STRUCT is an Avro union, with a field for each branch."""
    return schema.name == names.UNION or names.SHARED_UNION in (schema.parameters or {})


def decoder(node: Node, named: Nodes, settings: ReadSettings) -> Decode:
    """The function that decodes data of an Avro schema into values of its Connect schema. It raises
    various exceptions for malformed data."""

    def labels(union: list[Node]) -> list[str] | None:
        single = len(union) == 1 and settings.flatten_singletons
        optional = len(union) == 2 and "null" in union
        return None if single or optional else union_fields(union, named, settings)

    def simple_key(key: Node) -> bool:
        schema = connect_schema(key, named, settings, None)
        return schema is None or schema.type.is_primitive

    return decode.decoder(node, named, labels, simple_key, settings.all_moments)


def reader(node: Node, named: Nodes, settings: ReadSettings, head: int) -> ReadBytes:
    """The function that reads messages of an Avro schema as values of its Connect schema.

    The function takes the whole message, whose data begin after `head` bytes, and ignores bytes
    after them. BYTES at the top are the rest of the message. It raises various exceptions for
    malformed data.
    """
    if kind_of(node, named) == "bytes":
        schema = connect_schema(node, named, settings, None)
        if schema is not None and schema.logical is Logical.DECIMAL:
            scale = schema.scale
            return lambda cell: bytes_to_decimal(cell[head:], scale)
        return lambda cell: cell[head:]
    decode_at = decoder(node, named, settings)

    def read(cell: bytes) -> Value:
        try:
            return decode_at(cell, head)[0]
        except Exception as cause:
            path = joined(path_of(cause))
            if not path:
                raise
            if isinstance(cause, DataError):
                raise Misfit(path, str(cause)) from cause
            # The bytes, rather than the value, do not fit.
            shown = str(cause) if isinstance(cause, decode.Malformed) else repr(cause)
            raise decode.Malformed(f"field '{path}': {shown}") from cause

    return read
