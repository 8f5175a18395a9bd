"""Connect values to Avro data (kafka-connect.md §9.5).

A value passes two functions, both compiled once per schema: that of `_Preparer` checks it and
converts types that Avro represents differently, that of `avro_encode` encodes it.

Fields are matched by name with the schema that is written: the value's own, or the registry's
latest, which may have additional fields (with defaults) and lack others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.convert.logical import TEMPORAL_WRITERS
from penstock.convert.shapes import Convert, FieldWork, Shapes, convert_each
from penstock.data.avro import schema as names
from penstock.data.avro.read import is_union
from penstock.data.avro.schema import Node, Nodes, kind_of, resolved
from penstock.data.paths import at_key, each, raise_in
from penstock.data.schema import (
    INT_BITS,
    Field,
    Logical,
    Schema,
    Type,
    Value,
    int_range,
    invalid_type,
    java_class,
    pairs,
    within,
)
from penstock.errors import DataError
from penstock.schema_registry.avro_encode import Encode, encoder, is_direct
from penstock.schema_registry.avro_schema import WriteSettings, decimal_writer, is_fixed
from penstock.schema_registry.framed import WriteBytes


@dataclass(frozen=True, slots=True)
class AvroWriter:
    """Writes values of one Connect schema as data of one Avro schema, in two steps."""

    prepare: Convert
    encode: Encode
    may_be_absent: bool
    """Whether `prepare` may return None: for a union whose fields are all null."""

    def after(self, head: bytes) -> WriteBytes:
        """The function that writes messages that begin with `head`; values are not null. It raises
        DataError for values that are not of the schema."""
        prepare, encode = self.prepare, self.encode
        if not self.may_be_absent:
            return lambda value: head + encode(prepare(value))

        def write(value: Value) -> bytes | None:
            datum = prepare(value)
            return None if datum is None else head + encode(datum)

        return write


def writer(
    schema: Schema | None, target: Node, named: Nodes, settings: WriteSettings
) -> AvroWriter:
    """The writer of values of `schema` as data of the Avro schema `target`.

    BYTES at the top are written unchanged. Raises DataError if no value of `schema` can be written
    as `target`.
    """
    preparer = _Preparer(settings, named)
    if kind_of(target, named) == "bytes" and schema is not None:
        return AvroWriter(preparer.value(schema, target), bytes, may_be_absent=False)
    return AvroWriter(
        preparer.slot(schema, target), encoder(target, named), isinstance(target, list)
    )


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
"""The kinds of Avro schema that a type can be written as, the best first."""


class _Preparer:
    """Compiles functions that check values and convert them for `avro_encode`."""

    def __init__(self, settings: WriteSettings, named: Nodes) -> None:
        self._settings = settings
        self._named = named

    def slot(self, schema: Schema | None, node: Node, *, default: Value = None) -> Convert:
        """The conversion of values that may be null; `default` replaces null."""
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
        """The conversion, with the branch of the union beside its result."""
        if is_direct(union, self._named):
            return convert
        return lambda value: (index, convert(value))

    def _match(self, schema: Schema, union: Sequence[Node]) -> int:
        """The branch for values of `schema`."""
        kinds = [kind_of(node, self._named) for node in union]
        full = self._full_name(schema)
        for wanted_kind in self._kinds(schema):
            matching = [index for index, kind in enumerate(kinds) if kind == wanted_kind]
            for index in matching:
                node = resolved(union[index], self._named)
                if wanted_kind not in names.NAMED or (full and names.is_called(node, full)):
                    return index
            if len(matching) == 1:
                return matching[0]
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
        """A struct that is a union: the first field that is set determines the branch."""
        union = node if isinstance(node, list) else [node]
        living = [index for index, branch in enumerate(union) if branch != "null"]
        in_place = len(living) == len(schema.fields)
        choices: list[tuple[str, Convert, Value]] = []
        for position, field in enumerate(schema.fields):
            inner = field.schema.as_required()
            index = living[position] if in_place else self._match(inner, union)
            if kind_of(union[index], self._named) not in self._kinds(inner):
                index = self._match(inner, union)
            convert = self._plain(inner, union[index])
            if isinstance(node, list):
                convert = self._labelled(convert, node, index)
            default = None if self._settings.ignore_default else field.schema.default
            choices.append((field.name, convert, default))

        def prepare(value: Value) -> Value:
            if type(value) is not dict:
                raise invalid_type(schema, value)
            for name, convert, default in choices:
                chosen = value.get(name, default)
                if chosen is not None:
                    try:
                        return convert(chosen)
                    except DataError as cause:
                        raise_in(name, cause)
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
            return decimal_writer(schema, node["size"] if kind == "fixed" else None)
        logical = TEMPORAL_WRITERS.get(schema.logical)
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
                raise invalid_type(schema, value)
            return each(element, value)

        return prepare

    def _map(self, schema: Schema, node: Node) -> Convert:
        mapped = self.slot(schema.value_schema, node["values"])

        def prepare(value: Value) -> Value:
            if type(value) is not dict:
                raise invalid_type(schema, value)
            for key in value:
                if type(key) is not str:
                    raise DataError(f"Invalid type for STRING: {java_class(key)}")
            datum = {}
            for key, item in value.items():
                try:
                    datum[key] = mapped(item)
                except DataError as cause:
                    raise_in(at_key(key), cause)
            return datum

        return prepare

    def _entries(self, schema: Schema, node: Node) -> Convert:
        entry = resolved(node["items"], self._named)
        if entry["type"] != "record":
            raise DataError(f"MAP cannot be written as Avro array of {entry['type']}")
        types = {field["name"]: field["type"] for field in entry["fields"]}
        key = self.slot(schema.key_schema, types["key"])
        mapped = self.slot(schema.value_schema, types["value"])

        def prepare(value: Value) -> Value:
            if not isinstance(value, dict | list):
                raise invalid_type(schema, value)
            entries: list[Value] = []
            for name, item in pairs(value):
                try:
                    entries.append({"key": key(name), "value": mapped(item)})
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return entries

        return prepare

    def _struct(self, schema: Schema, node: Node) -> Convert:
        by_name: dict[str, Field] = {}
        for field in schema.fields:
            other = by_name.setdefault(self._settings.rename(field.name), field)
            if other is not field:
                raise DataError(
                    f"The fields '{other.name}' and '{field.name}' both become "
                    f"'{self._settings.rename(field.name)}' with scrub.invalid.names=true; rename "
                    "one of them, for example with ReplaceField"
                )
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
        fields = [item.name for item in work]
        known = frozenset(schema.field_names)
        shapes = Shapes(work)

        def prepare(value: Value) -> Value:
            if type(value) is not dict:
                raise invalid_type(schema, value)
            if list(value) != fields:
                if not known.issuperset(value):
                    raise DataError("Mismatching struct schema")
                value = {name: value.get(name) for name in fields}
            checks, conversions = shapes[tuple(map(type, value.values()))]
            for name, fits in checks:
                if not fits(value[name]):
                    return convert_each(work, value)
            if not conversions:
                return value
            datum = value.copy()
            name = ""
            try:
                for name, convert in conversions:
                    datum[name] = convert(value[name])
            except DataError as cause:
                raise_in(name, cause)
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
            inner = next((branch for branch in node if branch != "null"), "null")
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
            within(schema.type) if schema.type in INT_BITS else None,
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
        unions = {field["name"]: field["type"] for field in record["fields"]}
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
                    items = each(prepare, value)
                    return {"array": (array, items)}
                case dict():
                    inside = []
                    for key, item in value.items():
                        try:
                            inside.append({"key": prepare(key), "value": prepare(item)})
                        except DataError as cause:
                            raise_in(at_key(key), cause)
                    return {"map": (entries, inside)}
            raise DataError(f"Unknown Java type for schemaless data: {java_class(value)}")

        return prepare

    def _constant(self, node: Node, default: Any) -> Value:
        """The value of a field that is missing in the Connect schema: the default of `node`."""
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
                return [self._constant(node["items"], item) for item in default]
            case "map":
                return {k: self._constant(node["values"], item) for k, item in default.items()}
            case "record":
                return {
                    field["name"]: self._constant(
                        field["type"], default.get(field["name"], field.get("default"))
                    )
                    for field in node["fields"]
                }
            case "float" | "double":
                return float(default)
            case _:
                return default


def _natural_writer(schema: Schema) -> Convert:
    kind = _NATURAL[schema.type]
    fits = within(schema.type) if schema.type in INT_BITS else None

    def prepare(value: Value) -> Value:
        if type(value) is kind and (fits is None or fits(value)):
            return value
        raise invalid_type(schema, value)

    return prepare


def _bytes_writer(schema: Schema, size: int | None) -> Convert:
    def prepare(value: Value) -> Value:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise invalid_type(schema, value)
        data = bytes(value)
        if size is not None and len(data) != size:
            raise DataError(f"Fixed of {size} bytes given {len(data)} bytes")
        return data

    return prepare


def _enum_writer(schema: Schema, node: Node) -> Convert:
    symbols = frozenset(node["symbols"])

    def prepare(value: Value) -> Value:
        if type(value) is not str:
            raise invalid_type(schema, value)
        if value not in symbols:
            raise DataError(f"'{value}' is not a symbol of the enum {node['name']}")
        return value

    return prepare
