"""JSON Schema, drafts 4 to 2020-12, as Connect schemas (kafka-connect.md §9.5).

Only the keywords that determine a type are read; the others are for validation. As in the JVM's
library, one object may have several meanings (`enum` beside `type`, `allOf` beside `properties`);
then all of them count, in the order enum, combinations, `not`, `const`, type:

    allOf           one struct of all properties in it; without any: the combination in it, the
                    number or string beside a `const`, the enum of a string, the reference
    anyOf, oneOf    of null and another: that one, optional; otherwise a union
    type: [a, b]    as anyOf

As in the JVM, `title`, `description` and `default` of a combination are lost, unless it is a union.
Recursive schemas are refused, as a Connect schema is a finite value here; the JVM has schema
objects that refer to themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from urllib.parse import urljoin

from jsonschema import validators
from referencing import Registry, Resource
from referencing._core import Resolver  # a type that is returned but not exported
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, SchemaRegistry

from penstock.convert.json_read import Malformed, parse
from penstock.data.schema import STRING, Schema, Type, Value, fields_of, wrap_int
from penstock.errors import DataError
from penstock.schema_registry.json_schema_names import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    GENERAL_ENUM,
    KEY,
    MAP,
    NULL_SYMBOL,
    ONE_OF,
    ONE_OF_FIELD,
    UNION,
    UNION_FIELD,
    UNION_NAME,
    VALUE,
    Options,
)
from penstock.schema_registry.json_schema_read import reader

Node = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed JSON Schema, and the documents it refers to by name."""

    root: Value
    registry: SchemaRegistry
    resolver: Resolver[Value]

    @classmethod
    def of(cls, text: str, references: Mapping[str, str] | None = None) -> Document:
        """From the texts of the schema and its references. Raises DataError if they are not
        JSON."""
        root = _parsed(text)
        base = _id(root)
        registry: SchemaRegistry = Registry()
        for name, referred in (references or {}).items():
            resource = Resource.from_contents(_parsed(referred), default_specification=DRAFT7)
            for uri in {name, urljoin(base, name)}:
                registry = registry.with_resource(uri, resource)
        resource = Resource.from_contents(root, default_specification=DRAFT7)
        registry = registry.with_resource(base, resource)
        return cls(root, registry, registry.resolver(base))

    @property
    def title(self) -> str | None:
        """The schema's title; subjects may be named after it."""
        return _text_or_none(self.root.get("title")) if isinstance(self.root, dict) else None

    def validator(self) -> Any:
        """The validator for JSON values, in the schema's dialect (default: draft 7)."""
        dialect = validators.validator_for(self.root, default=validators.Draft7Validator)
        return dialect(self.root, registry=self.registry)


def _parsed(text: str) -> Value:
    try:
        return _plain(parse(text.encode()))
    except Malformed as cause:
        raise DataError(f"Invalid JSON Schema: {cause}") from cause


def _plain(node: Value) -> Value:
    """Without Decimals, which are not numbers to `jsonschema`; defaults have few digits."""
    if isinstance(node, Decimal):
        return float(node)
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if isinstance(node, dict):
        return {name: _plain(member) for name, member in node.items()}
    return node


def _id(root: Value) -> str:
    id = (root.get("$id") or root.get("id")) if isinstance(root, dict) else None
    return id if isinstance(id, str) else ""


def connect_schema(document: Document, options: Options, version: int | None = None) -> Schema:
    """The Connect schema of a JSON Schema. Raises DataError if it has none.

    `version` is the schema's version in its subject, which `connect.version` overrides.
    """
    return _Reader(options).read(_view(document.root, document.resolver), version)


class _Kind(Enum):
    """A meaning of a JSON Schema object; the value is its name in the JVM's library."""

    BOOLEAN = "BooleanSchema"
    NUMBER = "NumberSchema"
    STRING = "StringSchema"
    NULL = "NullSchema"
    ENUM = "EnumSchema"
    CONST = "ConstSchema"
    NOT = "NotSchema"
    CONDITIONAL = "ConditionalSchema"
    ARRAY = "ArraySchema"
    OBJECT = "ObjectSchema"
    REFERENCE = "ReferenceSchema"
    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"
    EMPTY = "EmptySchema"
    FALSE = "FalseSchema"


_COMBINED: Final = {_Kind.ALL, _Kind.ANY, _Kind.ONE}


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """One meaning of a JSON Schema object.

    `node` has the members that describe it, empty for a part of a combination that has none;
    `own` has those that determine the type.
    """

    kind: _Kind
    node: Node
    own: Node
    resolver: Resolver[Value]
    parts: tuple[_View, ...] = ()

    @property
    def index(self) -> int | None:
        index = self.node.get(CONNECT_INDEX)
        return index if isinstance(index, int) and not isinstance(index, bool) else None

    @property
    def connect_type(self) -> str | None:
        connect_type = self.node.get(CONNECT_TYPE)
        return connect_type if isinstance(connect_type, str) else None

    def sub(self, node: Value) -> _View:
        """The view of a schema inside this one."""
        return _view(node, self.resolver)

    def referred(self) -> _View:
        """The target of a reference."""
        target = self.own["$ref"]
        try:
            target_schema = self.resolver.lookup(target)
        except (Unresolvable, AttributeError, TypeError) as cause:  # or not a schema at all
            raise DataError(f"Could not resolve reference {target} of the JSON Schema") from cause
        return _view(target_schema.contents, target_schema.resolver)


_TYPES: Final[Mapping[str, _Kind]] = {
    "boolean": _Kind.BOOLEAN,
    "number": _Kind.NUMBER,
    "integer": _Kind.NUMBER,
    "string": _Kind.STRING,
    "null": _Kind.NULL,
    "array": _Kind.ARRAY,
    "object": _Kind.OBJECT,
}
_TELLING: Final[Mapping[_Kind, frozenset[str]]] = {
    _Kind.ARRAY: frozenset(
        ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains")
    ),
    _Kind.NUMBER: frozenset(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    ),
    _Kind.STRING: frozenset(("minLength", "maxLength", "pattern", "format")),
    _Kind.OBJECT: frozenset(
        (
            *("properties", "required", "minProperties", "maxProperties", "dependencies"),
            *("patternProperties", "additionalProperties", "propertyNames"),
        )
    ),
    _Kind.CONDITIONAL: frozenset(("if", "then", "else")),
}
"""Keywords that imply a type."""

_NOTHING: Final[Node] = {}


def _view(node: Value, resolver: Resolver[Value]) -> _View:
    """The view of a JSON Schema, an object or a boolean."""
    if not isinstance(node, dict):
        kind = _Kind.FALSE if node is False else _Kind.EMPTY
        return _View(kind, _NOTHING, _NOTHING, resolver)
    if isinstance(node.get("$id"), str):
        resolver = resolver.in_subresource(
            Resource.from_contents(node, default_specification=DRAFT7)
        )
    parts = list(_parts(node, resolver))
    if len(parts) == 1:
        return replace(parts[0], node=node)
    if not parts:
        return _View(_Kind.EMPTY, node, node, resolver)
    return _combination(_Kind.ALL, node, resolver, parts)


def _combination(
    kind: _Kind, node: Node, resolver: Resolver[Value], parts: Iterable[_View]
) -> _View:
    # As in the JVM's library: combinations first, otherwise in the given order.
    ordered = sorted(parts, key=lambda part: part.kind not in _COMBINED)
    return _View(kind, node, node, resolver, tuple(ordered))


def _parts(node: Node, resolver: Resolver[Value]) -> Iterator[_View]:
    """All meanings of one object."""
    if isinstance(node.get("$ref"), str):
        yield _View(_Kind.REFERENCE, _NOTHING, node, resolver)
        return  # keywords beside a reference are ignored, as in drafts up to 7
    if "enum" in node:
        yield _View(_Kind.ENUM, _NOTHING, node, resolver)
    for kind in (_Kind.ALL, _Kind.ANY, _Kind.ONE):
        if isinstance(parts := node.get(kind.value), list):
            yield _combination(kind, _NOTHING, resolver, [_view(part, resolver) for part in parts])
    if "not" in node:
        yield _View(_Kind.NOT, _NOTHING, node, resolver)
    if "const" in node:
        yield _View(_Kind.CONST, _NOTHING, node, resolver)
    types = node.get("type")
    if isinstance(types, str):
        yield _typed(types, node, resolver)
    elif isinstance(types, list):
        yield _combination(
            _Kind.ANY, _NOTHING, resolver, [_typed(type, node, resolver) for type in types]
        )
    else:
        for kind, words in _TELLING.items():
            if not words.isdisjoint(node):
                yield _View(kind, _NOTHING, node, resolver)


def _typed(name: Value, node: Node, resolver: Resolver[Value]) -> _View:
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise DataError(f"unknown type: [{name}]")
    own = {**node, "type": name}
    return _View(kind, _NOTHING, own, resolver)


class _Reader:
    """Reads one document. `_open` has the identities of the root and of every reference that is
    being read: one that occurs again is recursive."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._unions = 0
        self._open: list[int] = []

    def read(self, root: _View, version: int | None) -> Schema:
        with self._inside(root):
            return self.connect(root, version, optional=False)

    def connect(self, view: _View, version: int | None, *, optional: bool) -> Schema:
        """The Connect schema of a view; `optional` makes it optional."""
        match view.kind:
            case _Kind.REFERENCE:
                return self._referred(view, version, optional)
            case _Kind.ALL:
                return self._all_of(view, version, optional)
            case _Kind.ANY | _Kind.ONE:
                others = [part for part in view.parts if part.kind is not _Kind.NULL]
                if len(view.parts) == 2 and len(others) == 1:
                    return self.connect(others[0], version, optional=True)
                schema = self._union(view, others)
            case _Kind.BOOLEAN:
                schema = Schema(Type.BOOLEAN)
            case _Kind.NUMBER:
                schema = Schema(_number_type(view))
            case _Kind.STRING:
                is_bytes = view.connect_type == "bytes"
                schema = Schema(Type.BYTES if is_bytes else Type.STRING)
            case _Kind.ENUM:
                schema = Schema(Type.STRING, parameters=self._symbols(view))
            case _Kind.ARRAY:
                schema = self._array(view)
            case _Kind.OBJECT:
                schema = self._object(view)
            case _:
                raise DataError(f"Unsupported schema type org.everit.json.schema.{view.kind.value}")
        return _described(schema, view.node, version, optional)

    def _referred(self, view: _View, version: int | None, optional: bool) -> Schema:
        target = view.referred()
        with self._inside(target):
            return self.connect(target, version, optional=optional)

    @contextmanager
    def _inside(self, view: _View) -> Iterator[None]:
        if id(view.node) in self._open:
            raise DataError(
                f"The JSON Schema {view.node.get('title') or ''} contains itself, which a Connect "
                "schema cannot express here"
            )
        self._open.append(id(view.node))
        try:
            yield
        finally:
            self._open.pop()

    def _array(self, view: _View) -> Schema:
        items = view.own.get("items")
        # Several schemas, or one for all; only the latter determines the elements.
        if not isinstance(items, dict | bool) or "prefixItems" in view.own:
            raise DataError("Array schema did not specify the items type")
        inner = view.sub(items)
        if view.connect_type == MAP and inner.kind is _Kind.OBJECT:
            entry = _properties(inner)
            if not {KEY, VALUE} <= entry.keys():
                raise DataError("Map schema did not specify the key and value type")
            return Schema(
                Type.MAP,
                key_schema=self.connect(entry[KEY], None, optional=False),
                value_schema=self.connect(entry[VALUE], None, optional=False),
            )
        return Schema(Type.ARRAY, value_schema=self.connect(inner, None, optional=False))

    def _object(self, view: _View) -> Schema:
        if view.connect_type == MAP:
            values = view.own.get("additionalProperties")
            if not isinstance(values, dict):
                raise DataError("Map schema did not specify the value type")
            inner = self.connect(view.sub(values), None, optional=False)
            return Schema(Type.MAP, key_schema=STRING, value_schema=inner)
        properties = _properties(view)
        # The default index is the place among the properties.
        places = {
            name: (place if part.index is None else part.index, place)
            for place, (name, part) in enumerate(properties.items())
        }
        ordered = sorted(properties.items(), key=lambda item: places[item[0]])
        return self._struct(ordered, _required(view))

    def _struct(self, properties: Iterable[tuple[str, _View]], required: set[str]) -> Schema:
        lenient = self._options.optional_nonrequired
        fields = {
            name: self.connect(part, None, optional=lenient and name not in required)
            for name, part in properties
        }
        return Schema(Type.STRUCT, fields=fields_of(fields))

    def _union(self, view: _View, others: list[_View]) -> Schema:
        if self._options.generalized:
            name = f"{UNION_NAME}{self._unions}"
            self._unions += 1
            prefix, parameters = UNION_FIELD, {UNION: name}
        else:
            name, prefix, parameters = ONE_OF, ONE_OF_FIELD, None
        fields = {
            f"{prefix}{index}": self.connect(part, None, optional=True)
            for index, part in enumerate(others)
        }
        return Schema(
            Type.STRUCT,
            optional=len(others) < len(view.parts),
            name=name,
            parameters=parameters,
            fields=fields_of(fields),
        )

    def _symbols(self, view: _View) -> Mapping[str, str]:
        """The parameters that make a STRING an enum; JSON enums have no name."""
        values = view.own["enum"]
        symbols = [_symbol(symbol) for symbol in (values if isinstance(values, list) else ())]
        if self._options.generalized:
            numbered = enumerate(symbols)
            return {GENERAL_ENUM: ""} | {f"{GENERAL_ENUM}.{sym}": str(at) for at, sym in numbered}
        return {ENUM: ""} | {f"{ENUM}.{symbol}": symbol for symbol in symbols}

    def _all_of(self, view: _View, version: int | None, optional: bool) -> Schema:
        properties: dict[str, _View] = {}
        required: set[str] = set()
        for part in view.parts:
            self._collect(part, properties, required)
        if properties:
            return replace(self._struct(properties.items(), required), optional=optional)
        chosen = _chosen(view)
        if chosen is None:
            raise DataError("Unsupported criterion allOf for a JSON Schema without properties")
        return self.connect(chosen, version, optional=optional)

    def _collect(self, view: _View, properties: dict[str, _View], required: set[str]) -> None:
        """Adds the properties of all parts of an allOf."""
        match view.kind:
            case _Kind.ALL:
                for part in view.parts:
                    self._collect(part, properties, required)
            case _Kind.OBJECT:
                needed = _required(view)
                for name, part in _properties(view).items():
                    properties[name] = part
                    required.discard(name)
                    if name in needed:
                        required.add(name)
            case _Kind.REFERENCE:
                target = view.referred()
                with self._inside(target):
                    self._collect(target, properties, required)


def _described(schema: Schema, node: Node, version: int | None, optional: bool) -> Schema:
    """The schema with the JSON's name, version, doc, parameters and default."""
    parameters = dict(schema.parameters or {})
    stored = node.get(CONNECT_PARAMETERS)
    if isinstance(stored, dict):
        parameters |= {name: _text(value) for name, value in stored.items()}
    own_version = node.get(CONNECT_VERSION)
    schema = replace(
        schema,
        name=schema.name or _text_or_none(node.get("title")),
        version=wrap_int(own_version, Type.INT32) if type(own_version) is int else version,
        doc=_text_or_none(node.get("description")),
        parameters=parameters or None,
    )
    default = node.get("default")
    if default is not None:
        schema = replace(schema, default=reader(schema)(default))
    return schema.as_optional() if optional else schema


def _number_type(view: _View) -> Type:
    connect_type = view.connect_type
    if connect_type is None:
        return Type.INT64 if view.own.get("type") == "integer" else Type.FLOAT64
    number_type = _NUMBERS.get(connect_type)
    if number_type is None:
        raise DataError(f"Unsupported type {connect_type}")
    return number_type


_NUMBERS: Final[Mapping[str, Type]] = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "bytes": Type.BYTES,
}


def _chosen(view: _View) -> _View | None:
    """The part of an allOf without properties that determines the type, if any."""
    by_kind = {part.kind: part for part in view.parts}
    combined = [part for part in view.parts if part.kind in _COMBINED]
    if combined:
        return combined[-1]
    string, number = by_kind.get(_Kind.STRING), by_kind.get(_Kind.NUMBER)
    if _Kind.CONST in by_kind:
        return string or number
    if enum := by_kind.get(_Kind.ENUM):
        return enum if string else number
    # A number beside a string is a number with a `format`.
    return number if string and number else string or by_kind.get(_Kind.REFERENCE)


def _properties(view: _View) -> dict[str, _View]:
    properties = view.own.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: view.sub(part) for name, part in properties.items()}


def _required(view: _View) -> set[str]:
    names = view.own.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _symbol(value: Value) -> str:
    return NULL_SYMBOL if value is None else _text(value)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text_or_none(value: Value) -> str | None:
    return value if isinstance(value, str) else None
