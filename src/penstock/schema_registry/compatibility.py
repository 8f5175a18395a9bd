"""Whether data of one schema can be read with another, by the rules of its format.

Each function returns the obstacles between a reader and a writer, as texts. Avro's rules are those
of its specification. JSON Schema's and Protobuf's are conservative: they refuse a few pairs that a
Confluent registry accepts.
"""

from __future__ import annotations

import json
import warnings
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.name import Names
from avro.schema import Schema as AvroSchema
from avro.schema import make_avsc_object
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import DecodeError

from penstock.errors import DataError

Texts = Mapping[str, str]
"""Referenced schemas by name, each after those it refers to."""


class InvalidSchema(DataError):
    """The text is not a schema of its format."""


def parse_avro(text: str, built_on: Texts | None = None) -> AvroSchema:
    """The Avro schema; raises InvalidSchema."""
    names = Names(validate_names=True)
    with warnings.catch_warnings():
        # Unknown or invalid logical types: as in Java, the underlying type counts.
        warnings.simplefilter("ignore")
        try:
            for schema_text in (*(built_on or {}).values(), text):
                parsed: AvroSchema = make_avsc_object(json.loads(schema_text), names)
        except (ValueError, AvroException, TypeError, KeyError) as cause:
            raise InvalidSchema(f"Input schema is an invalid Avro schema: {cause}") from cause
    return parsed


def avro_obstacles(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Why data of `writer` cannot be read as `reader`."""
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    result = checker.get_compatibility(reader, writer)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    kinds = ", ".join(sorted({kind.name.upper() for kind in result.incompatibilities}))
    locations, messages = ", ".join(sorted(result.locations)), "; ".join(sorted(result.messages))
    return [f"{kinds} at {locations}: {messages}"]


Json = Any

_JSON_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_NOT_ABOVE: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_NOT_BELOW: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SAME: Final = ("pattern", "multipleOf", "uniqueItems", "not", "patternProperties", "contains")


def parse_json(text: str) -> Json:
    """The JSON Schema; raises InvalidSchema."""
    try:
        parsed = json.loads(text)
    except ValueError as cause:
        raise InvalidSchema(f"Input schema is an invalid JSON Schema: {cause}") from cause
    if not isinstance(parsed, dict | bool):
        raise InvalidSchema("Input schema is an invalid JSON Schema: neither object nor boolean")
    return parsed


def json_obstacles(
    reader: Json, writer: Json, built_on: tuple[Texts, Texts] = ({}, {})
) -> list[str]:
    """Why data of `writer` may not be valid for `reader`."""
    return list(_JsonRules(reader, writer, *built_on).compare(reader, writer, "#"))


class _JsonRules:
    def __init__(self, reader: Json, writer: Json, readers: Texts, writers: Texts) -> None:
        self._roots = (reader, writer)
        self._others = (readers, writers)
        # Pairs compared so far, by id; the schemas are referenced so that ids stay unique.
        self._begun: dict[tuple[int, int], tuple[Json, Json]] = {}

    def compare(self, reader: Json, writer: Json, path: str) -> Iterator[str]:
        reader, writer = self._resolved(reader, 0), self._resolved(writer, 1)
        pair = (id(reader), id(writer))
        if pair in self._begun:
            return
        self._begun[pair] = reader, writer
        if reader is True or reader == {} or writer is False or reader == writer:
            return
        if reader is False:
            yield f"SCHEMA_REMOVED at {path}: nothing is valid any longer"
            return
        writer = {} if writer is True else writer
        alternatives = next((key for key in ("oneOf", "anyOf") if key in writer), None)
        if alternatives is not None:
            others = {name: value for name, value in writer.items() if name != alternatives}
            for index, alternative in enumerate(writer[alternatives]):
                alternative = self._resolved(alternative, 1)
                combined = (
                    {**others, **alternative} if isinstance(alternative, dict) else alternative
                )
                yield from self.compare(reader, combined, f"{path}/{alternatives}/{index}")
            return
        for key in ("oneOf", "anyOf"):
            if key in reader and not any(
                not list(self._trying().compare(alternative, writer, path))
                for alternative in reader[key]
            ):
                yield f"SUM_TYPE_NARROWED at {path}/{key}: no alternative accepts what was written"
                return
        for alternative in reader.get("allOf", ()):
            yield from self.compare(alternative, writer, f"{path}/allOf")
        yield from self._values(reader, writer, path)
        if "object" in _types(writer) and "object" in _types(reader):
            yield from self._properties(reader, writer, path)
        if "array" in _types(writer) and "array" in _types(reader) and "items" in reader:
            yield from self._items(reader, writer, path)

    def _trying(self) -> _JsonRules:
        """Rules for an attempt: its pairs do not count as compared."""
        rules = _JsonRules(*self._roots, *self._others)
        rules._begun = dict(self._begun)
        return rules

    def _resolved(self, schema: Json, side: int) -> Json:
        """The target of a `$ref`; the reference itself if there is none."""
        for _ in range(64):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            name, _, pointer = schema["$ref"].partition("#")
            if name:
                text = self._others[side].get(name)
                if text is None:
                    return schema
                document: Json = json.loads(text)
            else:
                document = self._roots[side]
            for part in pointer.split("/")[1:]:
                part = part.replace("~1", "/").replace("~0", "~")
                if not isinstance(document, dict) or part not in document:
                    return schema
                document = document[part]
            schema = document
        return schema

    def _values(self, reader: Json, writer: Json, path: str) -> Iterator[str]:
        allowed, written = _types(reader), _types(writer)
        if missing := [name for name in _JSON_TYPES if name in written and name not in allowed]:
            yield f"TYPE_CHANGED at {path}: {', '.join(missing)} may have been written"
        values = _constants(reader)
        if values is not None:
            constants = _constants(writer)
            if constants is None or any(constant not in values for constant in constants):
                yield f"ENUM_ARRAY_NARROWED at {path}/enum: other values may have been written"
        for names, tighter in ((_NOT_ABOVE, -1), (_NOT_BELOW, 1)):
            for name in names:
                limit, old = reader.get(name), writer.get(name)
                if _is_number(limit) and (not _is_number(old) or (limit - old) * tighter > 0):
                    yield f"{name.upper()} at {path}/{name}: the limit is tighter"
        for name in _SAME:
            if reader.get(name) not in (None, False) and reader[name] != writer.get(name):
                yield f"{name.upper()} at {path}/{name}: it was added or changed"

    def _properties(self, reader: Json, writer: Json, path: str) -> Iterator[str]:
        ours, theirs = reader.get("properties", {}), writer.get("properties", {})
        more, their_more = (schema.get("additionalProperties", True) for schema in (reader, writer))
        their_required = set(writer.get("required", ()))
        for name in reader.get("required", ()):
            has_default = isinstance(ours.get(name), dict) and "default" in ours[name]
            if name not in their_required and not has_default:
                yield f"REQUIRED_ATTRIBUTE_ADDED at {path}/required: {name} may be missing"
        for name, schema in ours.items():
            at = f"{path}/properties/{name}"
            if name in theirs:
                yield from self.compare(schema, theirs[name], at)
            elif their_more is True and schema not in (True, {}):
                yield f"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {at}: anything may be there"
            elif their_more not in (True, False):
                yield from self.compare(schema, their_more, at)
        for name, schema in theirs.items():
            if name not in ours and more is not True:
                yield from self.compare(more, schema, f"{path}/properties/{name}")
        if more is not True and their_more is not False:
            yield from self.compare(more, their_more, f"{path}/additionalProperties")

    def _items(self, reader: Json, writer: Json, path: str) -> Iterator[str]:
        ours, theirs = reader["items"], writer.get("items", True)
        if isinstance(ours, list) or isinstance(theirs, list):
            if ours != theirs:
                yield f"ITEM_CHANGED at {path}/items: the positions differ"
            return
        yield from self.compare(ours, theirs, f"{path}/items")


def _types(schema: Json) -> set[str]:
    """The types that a schema allows; an integer is a number too."""
    if not isinstance(schema, dict):
        return set(_JSON_TYPES)
    stated = schema.get("type", list(_JSON_TYPES))
    types = {stated} if isinstance(stated, str) else set(stated)
    return types | {"integer"} if "number" in types else types


def _constants(schema: Json) -> list[Json] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_F: Final = FieldDescriptorProto
_SAME_ON_WIRE: Final[tuple[frozenset[int], ...]] = (
    frozenset((_F.TYPE_INT32, _F.TYPE_UINT32, _F.TYPE_INT64, _F.TYPE_UINT64, _F.TYPE_BOOL)),
    frozenset((_F.TYPE_SINT32, _F.TYPE_SINT64)),
    frozenset((_F.TYPE_STRING, _F.TYPE_BYTES)),
    frozenset((_F.TYPE_FIXED32, _F.TYPE_SFIXED32)),
    frozenset((_F.TYPE_FIXED64, _F.TYPE_SFIXED64)),
)


def parse_protobuf(text: str) -> FileDescriptorProto | None:
    """The descriptor in base64; None for other texts."""
    try:
        return FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None


def protobuf_obstacles(reader: FileDescriptorProto, writer: FileDescriptorProto) -> list[str]:
    """Why messages of `writer` cannot be read as `reader`."""
    return [
        *(["PACKAGE_CHANGED: " + writer.package] if reader.package != writer.package else []),
        *_message_obstacles(reader.message_type, writer.message_type, ""),
    ]


def _message_obstacles(
    reader: Sequence[DescriptorProto], writer: Sequence[DescriptorProto], path: str
) -> Iterator[str]:
    ours = {message.name: message for message in reader}
    for theirs in writer:
        at = f"{path}/{theirs.name}"
        message = ours.get(theirs.name)
        if message is None:
            yield f"MESSAGE_REMOVED at {at}"
            continue
        yield from _field_obstacles(message, theirs, at)
        yield from _message_obstacles(message.nested_type, theirs.nested_type, at)


def _field_obstacles(reader: DescriptorProto, writer: DescriptorProto, path: str) -> Iterator[str]:
    theirs = {field.number: field for field in writer.field}
    numbers = {field.number for field in reader.field}
    for field in reader.field:
        at, old = f"{path}/{field.number}", theirs.get(field.number)
        if old is None:
            if field.label == _F.LABEL_REQUIRED:
                yield f"REQUIRED_FIELD_ADDED at {at}: {field.name}"
            continue
        if not _same_on_wire(field, old):
            yield f"FIELD_KIND_CHANGED at {at}: {field.name}"
        if (field.label == _F.LABEL_REPEATED) != (old.label == _F.LABEL_REPEATED):
            yield f"FIELD_LABEL_CHANGED at {at}: {field.name}"
    for number, old in theirs.items():
        if number not in numbers and old.label == _F.LABEL_REQUIRED:
            yield f"REQUIRED_FIELD_REMOVED at {path}/{number}: {old.name}"
        if number not in numbers and _in_oneof(old):
            yield f"ONEOF_FIELD_REMOVED at {path}/{number}: {old.name}"
    for index, oneof in enumerate(reader.oneof_decl):
        moved = [
            field.name
            for field in reader.field
            if _in_oneof(field)
            and field.oneof_index == index
            and field.number in theirs
            and not _in_oneof(theirs[field.number])
        ]
        if len(moved) > 1:
            yield f"MULTIPLE_FIELDS_MOVED_TO_ONEOF at {path}/{oneof.name}: {', '.join(moved)}"


def _in_oneof(field: FieldDescriptorProto) -> bool:
    return bool(field.HasField("oneof_index") and not field.proto3_optional)


def _same_on_wire(one: FieldDescriptorProto, other: FieldDescriptorProto) -> bool:
    if one.type == other.type:
        return bool(one.type_name == other.type_name)
    return any(one.type in group and other.type in group for group in _SAME_ON_WIRE)
