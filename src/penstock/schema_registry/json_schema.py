"""JSON whose schema is in a Schema Registry: the schema's id, then JSON (kafka-connect.md §9.5).

The schema of the values is read from, and written as, JSON Schema; see `json_schema_connect` and
`json_schema_schema`. Schemas are compiled once per topic and id, so that most messages cost one
comparison of their first five bytes, one `orjson` call and the work for their fields.

Only values with a schema can be written. NaN and the infinities are texts, as in Jackson, and a
text instead of a number reads as 0.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from jsonschema.exceptions import best_match

from penstock import VERSION
from penstock.api.converter import Use
from penstock.api.plugin import Plugin
from penstock.config.declare import choice, flag, ignored
from penstock.config.define import Config
from penstock.convert.json import DECIMAL_FORMAT
from penstock.convert.json_read import MISSING, Inexact, Read, parse
from penstock.convert.json_write import DecimalFormat, Write, dump
from penstock.data.schema import Schema, Value
from penstock.schema_registry import settings
from penstock.schema_registry.client import RegistrySchema
from penstock.schema_registry.compatibility import json_obstacles, parse_json
from penstock.schema_registry.framed import (
    ChosenSchema,
    FramedConverter,
    OwnSchema,
    ReadBytes,
    WriteBytes,
    with_schema,
)
from penstock.schema_registry.json_schema_connect import Document, connect_schema
from penstock.schema_registry.json_schema_names import ABSENT, Options
from penstock.schema_registry.json_schema_read import reader
from penstock.schema_registry.json_schema_schema import json_schema
from penstock.schema_registry.json_schema_write import writer
from penstock.schema_registry.wire import HEAD_SIZE, head

# fmt: off
ADDITIONAL_PROPERTIES: Final = flag("object.additional.properties", True,
    "Whether schemas that are written allow properties that they do not name.")
OPTIONAL_NONREQUIRED: Final = flag("use.optional.for.nonrequired", False,
    "Whether properties that a schema does not require are read as optional fields.")
FAIL_INVALID: Final = flag("json.fail.invalid.schema", False,
    "Whether every message is validated against its schema, when read and when written. This "
    "costs far more than the conversion.")
WRITE_ISO8601: Final = ignored("json.write.dates.iso8601", False,
    "it applies to Java objects of date classes, but converters write dates as numbers")
SPEC_VERSION: Final = choice(
    "json.schema.spec.version",
    "draft_7",
    ("draft_4", "draft_6", "draft_7", "draft_2019_09", "draft_2020_12"),
    "Ignored: it applies to schemas generated from Java classes. Those that a converter "
    "generates name no draft, and mean the same in all drafts.")
# fmt: on

JSON_SCHEMA_CONVERTER: Final = settings.REGISTRY.extended(
    ADDITIONAL_PROPERTIES,
    OPTIONAL_NONREQUIRED,
    DECIMAL_FORMAT,
    FAIL_INVALID,
    WRITE_ISO8601,
    SPEC_VERSION,
)


@dataclass(frozen=True, slots=True)
class _Work:
    """The schema and the function that writes values of one Connect schema, for all ids."""

    document: Document
    write: Write


class JsonSchemaConverter(FramedConverter[Document, _Work]):
    """Reads and writes JSON with JSON Schemas as Confluent's JsonSchemaConverter does."""

    plugin = Plugin(
        class_name="io.confluent.connect.json.JsonSchemaConverter",
        version=VERSION,
        config=JSON_SCHEMA_CONVERTER,
    )
    format_name = "JSON Schema"
    data_name = "Json"
    schema_type = "JSON"
    writes_null = True

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use)
        self._options = Options(
            generalized=config[settings.SUM_TYPES],
            ignore_default=config[settings.IGNORE_DEFAULT],
            additional_properties=config[ADDITIONAL_PROPERTIES],
            optional_nonrequired=config[OPTIONAL_NONREQUIRED],
            decimals=DecimalFormat(config[DECIMAL_FORMAT].upper()),
        )
        self._validating = config[FAIL_INVALID]

    def parse(self, text: str, built_on: Mapping[str, str]) -> Document:
        return Document.of(text, built_on)

    def record_name(self, parsed: Document, prefix: bytes) -> str | None:
        return parsed.title

    def reader(self, parsed: Document, prefix: bytes, version: int) -> tuple[Schema, ReadBytes]:
        schema = connect_schema(parsed, self._options, version)
        return schema, _bytes_reader(reader(schema), self._validator(parsed))

    def own(self, schema: Schema | None) -> OwnSchema[_Work]:
        schema = with_schema(schema)
        text = dump(json_schema(schema, self._options)).decode()
        document = Document.of(text)
        work = _Work(document, writer(schema, self._options))
        return OwnSchema(RegistrySchema(text, "JSON"), document.title, work)

    def has_message(self, value: Value, own: OwnSchema[_Work]) -> bool:
        return value is not None or own.work.write(None) is not ABSENT

    def writer(
        self, schema: Schema | None, own: OwnSchema[_Work], target: ChosenSchema[Document]
    ) -> WriteBytes:
        validator = self._validator(target.parsed or own.work.document)
        return _bytes_writer(head(target.id), own.work.write, validator)

    def obstacles(self, chosen: RegistrySchema, own: RegistrySchema) -> list[str]:
        built_on = {name: schema.text for name, schema in self.client.referenced(chosen).items()}
        return json_obstacles(parse_json(chosen.text), parse_json(own.text), (built_on, {}))

    def _validator(self, document: Document) -> Any:
        return document.validator() if self._validating else None


def _bytes_reader(read: Read, validator: Any) -> ReadBytes:
    loads = orjson.loads

    def from_bytes(cell: bytes) -> Value:
        try:
            return read(loads(cell[HEAD_SIZE:]))
        except (orjson.JSONDecodeError, Inexact):
            node = parse(cell[HEAD_SIZE:])
            return None if node is MISSING else read(node)

    if validator is None:
        return from_bytes

    def from_valid_bytes(cell: bytes) -> Value:
        _validate(validator, cell[HEAD_SIZE:])
        return from_bytes(cell)

    return from_valid_bytes


def _bytes_writer(start: bytes, write: Write, validator: Any) -> WriteBytes:
    def to_bytes(value: Value) -> bytes | None:
        node = write(value)
        return None if node is ABSENT else start + dump(node)

    if validator is None:
        return to_bytes

    def to_valid_bytes(value: Value) -> bytes | None:
        cell = to_bytes(value)
        if cell is not None:
            _validate(validator, cell[HEAD_SIZE:])
        return cell

    return to_valid_bytes


class JsonInvalid(ValueError):
    """A message is not valid for its schema (`json.fail.invalid.schema`)."""


def _validate(validator: Any, data: bytes) -> None:
    error = best_match(validator.iter_errors(json.loads(data)))
    if error is not None:
        raise JsonInvalid(f"JSON does not match the schema: {error.json_path}: {error.message}")
