"""Connect to Avro: a schema's Avro schema, and what writes its values (kafka-connect.md §9.5).

A value goes two ways: `_Preparer` compiles a function that checks it and converts what must be
converted (most values are what they should be), and `avro_encode` one that makes bytes of that.

Values are written by the names of fields, into the schema they are given for: their own, or the
registry's latest, which may have more fields (with defaults) and fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from penstock.convert.shapes import Convert, FieldWork, Shapes
from penstock.data.logical import date_to_days, decimal_to_bytes, time_to_ms, timestamp_to_ms
from penstock.data.schema import (
    INT_BITS,
    Logical,
    Schema,
    Type,
    Value,
    int_range,
    java_class,
    pairs,
)
from penstock.errors import DataError
from penstock.schema_registry import avro_schema as names
from penstock.schema_registry.avro_encode import encoder, is_direct
from penstock.schema_registry.avro_schema import Node, Nodes, kind_of, resolved

WriteBytes = Callable[[Value], bytes | None]
"""The bytes of a value that is not null; None where all that is set of it is null."""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """What the settings of the converter change about written schemas."""

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
        """A field's or a simple name as Avro has it."""
        return names.scrub(name) if self.scrub else name

    def rename_full(self, name: str) -> str:
        """A name with its namespace as Avro has it."""
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


def is_union(schema: Schema) -> bool:
    """Whether a STRUCT stands for an Avro union, one field per branch."""
    return schema.name == names.UNION or names.SHARED_UNION in (schema.parameters or {})


def is_fixed(schema: Schema) -> bool:
    """Whether BYTES are an Avro fixed."""
    return (
        schema.type is Type.BYTES
        and schema.name is not None
        and names.FIXED_SIZE in (schema.parameters or {})
    )


def avro_schema(schema: Schema | None, settings: WriteSettings) -> Node:
    """The Avro schema of a Connect schema; None, which is no schema, has `Anything`.

    Raises DataError for what has none. Named types that occur twice are the same object.
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
    # Required schemas that have been written; an optional one is a union around its like.
    written: dict[Schema, Node] = field(default_factory=dict)

    def of(self, schema: Schema | None, *, bare: bool = False) -> Node:
        """`bare` leaves the null of an optional schema out: it is a union's own branch."""
        if schema is None:
            return names.ANYTHING_NODE
        union = schema.type is Type.STRUCT and is_union(schema)
        if not union and not schema.optional:
            known = self.written.get(schema)
            if known is not None:
                return known
        if schema.type is Type.STRUCT and (union or schema.optional):
            if union:
                branches = [self.of(each.schema.as_required(), bare=True) for each in schema.fields]
                return ["null", *branches] if schema.optional else branches
            return ["null", self.of(schema.as_required())]
        node = self._described(schema, self._plain(schema))
        if bare or not schema.optional:
            if not schema.optional:
                self.written[schema] = node
            return node
        return ["null", node] if schema.default is None else [node, "null"]

    def _plain(self, schema: Schema) -> dict[str, Any]:
        """The schema as an object, without what Connect adds to it."""
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
                self.settings.rename(each.name),
                each.schema,
                each.schema.doc if discard else parameters.get(names.FIELD_DOC + each.name),
            )
            for each in schema.fields
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
        """The node with what Connect says beyond Avro; a bare primitive is just its name."""
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
        """A default as JSON: bytes as characters 0–255, logical values as what encodes them."""
        if value is None:
            return None
        schema = _required(schema, "default")
        encode = _LOGICAL_WRITERS.get(schema.logical)
        if schema.logical is Logical.DECIMAL:
            return _decimal_writer(schema)(value).decode("latin-1")
        if encode is not None:
            return encode(value)
        match schema.type:
            case Type.BYTES:
                return bytes(value).decode("latin-1")
            case Type.ARRAY:
                return [self.json_default(schema.value_schema, each) for each in value]
            case Type.MAP:
                entries = [
                    [self.json_default(schema.key_schema, key),
                     self.json_default(schema.value_schema, each)]
                    for key, each in pairs(value)
                ]  # fmt: skip
                return dict(entries) if self.settings.is_string_map(schema) else entries
            case Type.STRUCT:
                fields = {
                    self.settings.rename(each.name): self.json_default(
                        each.schema, value.get(each.name, each.schema.default)
                    )
                    for each in schema.fields
                }
                return next(iter(fields.values()), None) if is_union(schema) else fields
            case _:
                return value


def _required(schema: Schema | None, what: str) -> Schema:
    if schema is None:
        raise DataError(f"A {what} without a schema has no Avro schema")
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
    """Whether Avro allows the JSON value as a default; of a union the first branch counts."""
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
                _is_default(node["values"], each) for each in value.values()
            )
        case "record":
            return isinstance(value, dict) and all(
                _is_default(each["type"], value.get(each["name"], each.get("default")))
                for each in node["fields"]
            )
    return False


def writer(
    schema: Schema | None, target: Node, named: Nodes, settings: WriteSettings
) -> WriteBytes:
    """The function that writes a schema's values (not null) as data of the Avro schema `target`.

    It raises DataError for values the schema does not have. Bytes at the top are written bare.
    DataError when data of `schema` cannot be written as `target` at all.
    """
    preparer = _Preparer(settings, named)
    if kind_of(target, named) == "bytes" and schema is not None:
        convert = preparer.value(schema, target)
        return lambda value: bytes(convert(value))
    prepare = preparer.slot(schema, target)
    encode = encoder(target, named)
    if not isinstance(target, list):
        return lambda value: encode(prepare(value))

    def write_union(value: Value) -> bytes | None:
        datum = prepare(value)
        return None if datum is None else encode(datum)

    return write_union


_NATURAL: Final[Mapping[Type, type]] = {
    **dict.fromkeys(INT_BITS, int),
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
}
_KINDS: Final[Mapping[Type, tuple[str, ...]]] = {
    Type.INT8: ("int", "long", "float", "double"),
    Type.INT16: ("int", "long", "float", "double"),
    Type.INT32: ("int", "long", "float", "double"),
    Type.INT64: ("long", "float", "double"),
    Type.FLOAT32: ("float", "double"),
    Type.FLOAT64: ("double",),
    Type.BOOLEAN: ("boolean",),
    Type.STRING: ("string", "enum"),
    Type.BYTES: ("bytes", "fixed"),
    Type.ARRAY: ("array",),
    Type.MAP: ("map", "array"),
    Type.STRUCT: ("record",),
}
"""As which kinds of Avro a type can be written, the best first."""


class _Preparer:
    """Compiles checks and conversions into what `avro_encode` takes."""

    def __init__(self, settings: WriteSettings, named: Nodes) -> None:
        self._settings = settings
        self._named = named

    def slot(self, schema: Schema | None, node: Node, *, default: Value = None) -> Convert:
        """The conversion for a place that may hold null; `default` is written instead of it."""
        if schema is None:
            return self._anything(node)
        convert = self.value(schema, node)
        if default is not None:
            fallback = convert(default)
            return lambda value: fallback if value is None else convert(value)
        nullable = schema.optional and (
            kind_of(node, self._named) == "null" or (isinstance(node, list) and "null" in node)
        )

        def prepare(value: Value) -> Value:
            if value is not None:
                return convert(value)
            if nullable:
                return None
            raise DataError("Found null value for non-optional schema")

        return prepare

    def value(self, schema: Schema, node: Node) -> Convert:
        """The conversion of values that are not null."""
        if schema.type is Type.STRUCT and is_union(schema):
            return self._union(schema, node)
        if not isinstance(node, list):
            return self._plain(schema, node)
        index = self._match(schema, node)
        convert = self._plain(schema, node[index])
        return self._labelled(convert, node, index)

    def _labelled(self, convert: Convert, union: list[Node], index: int) -> Convert:
        """The same conversion, saying which branch of the union its result is of."""
        if is_direct(union, self._named):
            return convert
        return lambda value: (index, convert(value))

    def _match(self, schema: Schema, union: Sequence[Node]) -> int:
        """Which branch is meant for values of `schema`."""
        kinds = [kind_of(node, self._named) for node in union]
        full = self._full_name(schema)
        for wanted in self._kinds(schema):
            found = [index for index, kind in enumerate(kinds) if kind == wanted]
            for index in found:
                node = resolved(union[index], self._named)
                if wanted not in names.NAMED or node["name"] == full:
                    return index
            if len(found) == 1:
                return found[0]
        raise DataError(f"{schema.type.name} {full or ''} is not in union {union}")

    def _full_name(self, schema: Schema) -> str | None:
        if self._settings.is_enum(schema):
            return (schema.parameters or {})[self._settings.enum_parameter]
        return None if schema.name is None else self._settings.rename_full(schema.name)

    def _kinds(self, schema: Schema) -> tuple[str, ...]:
        kinds = _KINDS[schema.type]
        if self._settings.is_enum(schema) or is_fixed(schema):
            return kinds[::-1]
        if schema.type is Type.MAP and not self._settings.is_string_map(schema):
            return ("array",)
        return kinds

    def _union(self, schema: Schema, node: Node) -> Convert:
        """A struct that is a union: the first field that is set says which branch."""
        union = node if isinstance(node, list) else [node]
        living = [index for index, each in enumerate(union) if each != "null"]
        in_place = len(living) == len(schema.fields)
        choices: list[tuple[str, Convert, Value]] = []
        for position, each in enumerate(schema.fields):
            inner = each.schema.as_required()
            index = living[position] if in_place else self._match(inner, union)
            if kind_of(union[index], self._named) not in self._kinds(inner):
                index = self._match(inner, union)
            convert = self._plain(inner, union[index])
            if isinstance(node, list):
                convert = self._labelled(convert, node, index)
            default = None if self._settings.ignore_default else each.schema.default
            choices.append((each.name, convert, default))

        def prepare(value: Value) -> Value:
            if type(value) is not dict:
                raise _invalid(schema, value)
            for name, convert, default in choices:
                chosen = value.get(name, default)
                if chosen is not None:
                    return convert(chosen)
            if schema.optional:
                return None
            raise DataError("Found null value for non-optional schema")

        return prepare

    def _plain(self, schema: Schema, node: Node) -> Convert:
        """The conversion into a node that is not a union."""
        node = resolved(node, self._named)
        kind = kind_of(node, self._named)
        if kind not in self._kinds(schema):
            raise DataError(f"{schema.type.name} cannot be written as Avro {kind}")
        if schema.logical is Logical.DECIMAL:
            return _decimal_writer(schema, node["size"] if kind == "fixed" else None)
        logical = _LOGICAL_WRITERS.get(schema.logical)
        if logical is not None:
            return logical
        match schema.type:
            case Type.ARRAY:
                return self._array(schema, node)
            case Type.MAP:
                return self._map(schema, node) if kind == "map" else self._entries(schema, node)
            case Type.STRUCT:
                return self._struct(schema, node)
            case Type.BYTES:
                return _bytes_writer(schema, node["size"] if kind == "fixed" else None)
            case Type.STRING if kind == "enum":
                return _enum_writer(schema, node)
            case _:
                return _natural_writer(schema)

    def _array(self, schema: Schema, node: Node) -> Convert:
        element = self.slot(schema.value_schema, node["items"])

        def prepare(value: Value) -> Value:
            if type(value) is not list:
                raise _invalid(schema, value)
            return [element(each) for each in value]

        return prepare

    def _map(self, schema: Schema, node: Node) -> Convert:
        mapped = self.slot(schema.value_schema, node["values"])

        def prepare(value: Value) -> Value:
            if type(value) is not dict:
                raise _invalid(schema, value)
            for key in value:
                if type(key) is not str:
                    raise DataError(f"Invalid type for STRING: {java_class(key)}")
            return {key: mapped(each) for key, each in value.items()}

        return prepare

    def _entries(self, schema: Schema, node: Node) -> Convert:
        entry = resolved(node["items"], self._named)
        if entry["type"] != "record":
            raise DataError(f"MAP cannot be written as Avro array of {entry['type']}")
        types = {each["name"]: each["type"] for each in entry["fields"]}
        key = self.slot(schema.key_schema, types["key"])
        mapped = self.slot(schema.value_schema, types["value"])

        def prepare(value: Value) -> Value:
            if not isinstance(value, dict | list):
                raise _invalid(schema, value)
            return [{"key": key(name), "value": mapped(each)} for name, each in pairs(value)]

        return prepare

    def _struct(self, schema: Schema, node: Node) -> Convert:
        by_name = {self._settings.rename(each.name): each for each in schema.fields}
        work: list[FieldWork] = []
        renamed: list[tuple[str, str]] = []
        constants: dict[str, Value] = {}
        for target in node["fields"]:
            name = target["name"]
            source = by_name.get(name)
            if source is None:
                if "default" not in target:
                    raise DataError(f"Field {name} of {node['name']} has no value and no default")
                constants[name] = self._constant(target["type"], target["default"])
                continue
            work.append(self._field(source.name, source.schema, target["type"]))
            if source.name != name:
                renamed.append((source.name, name))
        fields = [each.name for each in work]
        known = frozenset(schema.field_names)
        shapes = Shapes(work)

        def prepare(value: Value) -> Value:
            if type(value) is not dict:
                raise _invalid(schema, value)
            if list(value) != fields:
                if not known.issuperset(value):
                    raise DataError("Mismatching struct schema")
                value = {name: value.get(name) for name in fields}
            checks, conversions = shapes[tuple(map(type, value.values()))]
            for name, fits in checks:
                if not fits(value[name]):
                    return {each.name: each.convert(value[each.name]) for each in work}
            if not conversions:
                return value
            datum = value.copy()
            for name, convert in conversions:
                datum[name] = convert(value[name])
            return datum

        if not renamed and not constants:
            return prepare

        def prepare_renamed(value: Value) -> Value:
            datum = {**prepare(value), **constants}
            for source, target in renamed:
                datum[target] = datum[source]
            return datum

        return prepare_renamed

    def _field(self, name: str, schema: Schema, node: Node) -> FieldWork:
        default = None if self._settings.ignore_default else schema.default
        inner = node
        direct = True
        if isinstance(node, list):
            direct = len(node) == 2 and "null" in node
            inner = next((each for each in node if each != "null"), "null")
        plain = (
            direct
            and schema.logical is None
            and schema.type in _NATURAL
            and kind_of(inner, self._named) not in names.NAMED
        )
        return FieldWork(
            name,
            self.slot(schema, node, default=default),
            _NATURAL[schema.type] if plain else None,
            _within(schema.type) if schema.type in INT_BITS else None,
            null_stays=schema.optional
            and default is None
            and isinstance(node, list)
            and "null" in node,
        )

    def _anything(self, node: Node) -> Convert:
        """The conversion of values without a schema, null included, into `Anything`."""
        record = resolved(node, self._named)
        if not isinstance(record, dict) or record.get("name") != names.ANYTHING:
            raise DataError(f"Data without a schema cannot be written as {node}")
        unions = {each["name"]: each["type"] for each in record["fields"]}
        array, entries = (1 - unions[name].index("null") for name in ("array", "map"))
        low, high = int_range(Type.INT64)

        def prepare(value: Value) -> Value:
            match value:
                case None:
                    return {}
                case bool():
                    return {"boolean": value}
                case int() if low <= value <= high:
                    return {"long": value}
                case float():
                    return {"double": value}
                case str():
                    return {"string": value}
                case bytes() | bytearray() | memoryview():
                    return {"bytes": bytes(value)}
                case list():
                    return {"array": (array, [prepare(each) for each in value])}
                case dict():
                    inside = [
                        {"key": prepare(key), "value": prepare(each)} for key, each in value.items()
                    ]
                    return {"map": (entries, inside)}
            raise DataError(f"Unknown Java type for schemaless data: {java_class(value)}")

        return prepare

    def _constant(self, node: Node, default: Any) -> Value:
        """What is written for a field the value does not have: the default of `node`."""
        if isinstance(node, list):
            index = 0 if not (default is None and "null" in node) else node.index("null")
            if node[index] == "null":
                return None
            value = self._constant(node[index], default)
            return self._labelled(lambda same: same, node, index)(value)
        node = resolved(node, self._named)
        match kind_of(node, self._named):
            case "bytes" | "fixed":
                return str(default).encode("latin-1")
            case "array":
                return [self._constant(node["items"], each) for each in default]
            case "map":
                return {k: self._constant(node["values"], each) for k, each in default.items()}
            case "record":
                return {
                    each["name"]: self._constant(
                        each["type"], default.get(each["name"], each.get("default"))
                    )
                    for each in node["fields"]
                }
            case "float" | "double":
                return float(default)
            case _:
                return default


def _invalid(schema: Schema, value: Value) -> DataError:
    return DataError(f"Invalid type for {schema.type.name}: {java_class(value)}")


def _within(type: Type) -> Callable[[Value], bool]:
    low, high = int_range(type)
    return range(low, high + 1).__contains__


def _natural_writer(schema: Schema) -> Convert:
    kind = _NATURAL[schema.type]
    fits = _within(schema.type) if schema.type in INT_BITS else None

    def prepare(value: Value) -> Value:
        if type(value) is kind and (fits is None or fits(value)):
            return value
        raise _invalid(schema, value)

    return prepare


def _bytes_writer(schema: Schema, size: int | None) -> Convert:
    def prepare(value: Value) -> Value:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _invalid(schema, value)
        data = bytes(value)
        if size is not None and len(data) != size:
            raise DataError(f"Fixed of {size} bytes given {len(data)} bytes")
        return data

    return prepare


def _enum_writer(schema: Schema, node: Node) -> Convert:
    symbols = frozenset(node["symbols"])

    def prepare(value: Value) -> Value:
        if type(value) is not str:
            raise _invalid(schema, value)
        if value not in symbols:
            raise DataError(f"'{value}' is not a symbol of the enum {node['name']}")
        return value

    return prepare


def _decimal_writer(schema: Schema, size: int | None = None) -> Convert:
    scale = schema.scale

    def prepare(value: Value) -> Value:
        if not isinstance(value, Decimal):
            raise DataError(
                f"Invalid type for Decimal, expected BigDecimal but was {java_class(value)}"
            )
        data = decimal_to_bytes(value, scale)
        if size is None:
            return data
        if len(data) > size:
            raise DataError(f"{value} does not fit the {size} bytes of {schema.name}")
        return (b"\xff" if data[0] & 0x80 else b"\0") * (size - len(data)) + data

    return prepare


def _prepare_date(value: Value) -> Value:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _not_date("Date", value)
    return date_to_days(value)


def _prepare_time(value: Value) -> Value:
    if not isinstance(value, time):
        raise _not_date("Time", value)
    return time_to_ms(value)


def _prepare_timestamp(value: Value) -> Value:
    if not isinstance(value, datetime):
        raise _not_date("Timestamp", value)
    return timestamp_to_ms(value)


def _not_date(logical: str, value: Value) -> DataError:
    return DataError(f"Invalid type for {logical}, expected Date but was {java_class(value)}")


_LOGICAL_WRITERS: Final[Mapping[Logical | None, Convert]] = {
    Logical.DATE: _prepare_date,
    Logical.TIME: _prepare_time,
    Logical.TIMESTAMP: _prepare_timestamp,
}
