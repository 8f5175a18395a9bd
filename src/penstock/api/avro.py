"""Avro data as Connect values, by the rules of Confluent's converter (kafka-connect.md §9.5).

>>> data = reads('{"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}')
>>> data.schema.name, data.schema.field_names
('P', ('x',))
>>> data.decode(bytes([14, 16]), 1)
({'x': 8}, 2)
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.data.avro.decode import Decode
from penstock.data.avro.read import ReadSettings, connect_schema, decoder
from penstock.data.avro.schema import parse, scrub, scrub_full
from penstock.data.schema import Schema
from penstock.errors import DataError

__all__ = ["AvroData", "Decode", "reads", "scrub", "scrub_full"]


@dataclass(frozen=True, slots=True)
class AvroData:
    """How data of an Avro schema is read."""

    schema: Schema | None
    """None: values without a schema (Confluent's `Anything`)."""
    decode: Decode
    """Takes bytes and a position; returns the value and the position after it. Raises various
    exceptions for malformed data."""


def reads(text: str) -> AvroData:
    """The reader of an Avro schema in JSON. Times in µs or ns, and local ones, are truncated to ms.
    Raises DataError for schemas that are invalid or that Connect cannot express."""
    settings = ReadSettings(all_moments=True)
    node, named = parse(text)
    try:
        return AvroData(connect_schema(node, named, settings, None), decoder(node, named, settings))
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise DataError(f"Invalid schema {text} ({cause!r})") from cause
