"""JSON whose schema is in a Schema Registry: the schema's id, then JSON (kafka-connect.md §9.5).

The schema of the values is read from, and written as, JSON Schema; see `json_schema_read` and
`json_schema_write`. Schemas are compiled once per topic and id, so that most messages cost one
comparison of their first five bytes, one `orjson` call and the work for their fields.

Only values with a schema can be written. NaN and the infinities are texts, as in Jackson, and a
text instead of a number reads as 0.0.
"""

from __future__ import annotations

import json
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
from penstock.errors import DataError
from penstock.schema_registry import settings
from penstock.schema_registry.client import (
    Lookups,
    RegistryClient,
    RegistrySchema,
)
from penstock.schema_registry.compatibility import json_obstacles, parse_json
from penstock.schema_registry.framed import FramedConverter, ReadBytes, Reading, WriteBytes
from penstock.schema_registry.json_schema_names import Options
from penstock.schema_registry.json_schema_read import Document, connect_schema
from penstock.schema_registry.json_schema_values import ABSENT, reader, writer
from penstock.schema_registry.json_schema_write import json_schema
from penstock.schema_registry.wire import HEAD_SIZE, head, schema_id

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
class _Written:
    """The schema and the function that writes values of one Connect schema, for all ids."""

    schema: RegistrySchema
    document: Document
    write: Write


class JsonSchemaConverter(FramedConverter[_Written]):
    """Reads and writes JSON with JSON Schemas as Confluent's JsonSchemaConverter does."""

    plugin = Plugin(
        class_name="io.confluent.connect.json.JsonSchemaConverter",
        version=VERSION,
        config=JSON_SCHEMA_CONVERTER,
    )
    format_name = "JSON Schema"
    data_name = "Json"

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use, RegistryClient(config))
        self._options = Options(
            generalized=config[settings.SUM_TYPES],
            ignore_default=config[settings.IGNORE_DEFAULT],
            additional_properties=config[ADDITIONAL_PROPERTIES],
            optional_nonrequired=config[OPTIONAL_NONREQUIRED],
            decimals=DecimalFormat(config[DECIMAL_FORMAT].upper()),
        )
        self._validating = config[FAIL_INVALID]

    def reading(self, topic: str, cell: bytes, lookups: Lookups) -> Reading:
        with self.asking_to_read(topic):
            id = schema_id(cell)
        key = (topic, cell[:HEAD_SIZE])
        known = self.readings.get(key)
        if known is not None:
            return known
        reading = lookups.once(("reading", key), lambda: self._new_reading(topic, id, lookups))
        return self.readings.put(key, reading)

    def _new_reading(self, topic: str, id: int, lookups: Lookups) -> Reading:
        with self.asking_to_read(topic):
            document, version = self.stored(
                topic,
                id,
                lookups,
                parse=lambda stored: self._document(stored, lookups),
                record=lambda document: document.title,
            )
        schema = connect_schema(document, self._options, version)
        validator = document.validator() if self._validating else None
        return Reading(head(id), schema, _bytes_reader(reader(schema), validator))

    def _document(self, stored: RegistrySchema, lookups: Lookups) -> Document:
        if stored.type != "JSON":
            raise DataError(f"The schema is of type {stored.type}, not JSON")
        schemas = lookups.of(("built on", stored), lambda: self.client.referenced(stored))
        return Document.of(stored.text, {name: schema.text for name, schema in schemas.items()})

    def has_no_bytes(self, value: Value, written: _Written) -> bool:
        return value is None and written.write(None) is ABSENT

    def new_writing(
        self, topic: str, schema: Schema, written: _Written, lookups: Lookups
    ) -> WriteBytes:
        with self.asking_to_write(topic):
            title = written.document.title
            id, chosen = self.chosen(topic, schema, written.schema, title, lookups)
            document = written.document
            if self._validating and chosen is not written.schema:
                document = self._document(chosen, lookups)
        validator = document.validator() if self._validating else None
        return _bytes_writer(head(id), written.write, validator)

    def written(self, schema: Schema) -> _Written:
        text = dump(json_schema(schema, self._options)).decode()
        return _Written(
            RegistrySchema(text, "JSON"), Document.of(text), writer(schema, self._options)
        )

    def incompatible(self, chosen: RegistrySchema, own: RegistrySchema) -> str | None:
        if chosen.type != "JSON":
            return f"it is of type {chosen.type}"
        built_on = {name: schema.text for name, schema in self.client.referenced(chosen).items()}
        obstacles = json_obstacles(parse_json(chosen.text), parse_json(own.text), (built_on, {}))
        return "; ".join(obstacles) or None


def _bytes_reader(read: Read, validator: Any) -> ReadBytes:
    loads = orjson.loads

    def from_bytes(data: bytes) -> Value:
        try:
            return read(loads(data))
        except (orjson.JSONDecodeError, Inexact):
            node = parse(data)
            return None if node is MISSING else read(node)

    if validator is None:
        return from_bytes

    def from_valid_bytes(data: bytes) -> Value:
        _validate(validator, data)
        return from_bytes(data)

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


class _Invalid(ValueError):
    """A message is not valid for its schema (`json.fail.invalid.schema`)."""


def _validate(validator: Any, data: bytes) -> None:
    error = best_match(validator.iter_errors(json.loads(data)))
    if error is not None:
        raise _Invalid(f"JSON does not match the schema: {error.json_path}: {error.message}")
