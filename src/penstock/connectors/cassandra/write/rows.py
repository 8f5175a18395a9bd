"""Rows for statements: the fields of keys, values and headers of records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import orjson

from penstock.api import DataError, Header, Records, TopicPartition
from penstock.api.schema import Schema, Type
from penstock.connectors.cassandra.text.mapping import NOW, Entry
from penstock.connectors.cassandra.text.names import shown
from penstock.connectors.cassandra.text.values import UNITS
from penstock.connectors.cassandra.write.times import RecordTimes
from penstock.connectors.common.paths import MISSING, member

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(slots=True)
class Part:
    """A key or a value, and its fields. Strings with a JSON object have fields, too."""

    fields: Mapping[Any, Any]
    whole: Any


@dataclass(slots=True)
class Row:
    """One record. `write_us`: its write time in microseconds, if it has one."""

    key: Part
    value: Part
    headers: Sequence[Header]
    write_us: int | None = None

    def get(self, entry: Entry) -> Any:
        """The field of a mapping entry. Fields of a null value are null. Raises DataError for a
        missing field."""
        match entry.part:
            case "":
                assert entry.field == NOW
                return uuid.uuid1()
            case "header":
                for header in self.headers:
                    if header.name == entry.field:
                        return header.value
                value = MISSING
            case part:
                source = self.key if part == "key" else self.value
                if not entry.field:
                    return source.whole
                value = source.fields.get(entry.field, MISSING)
                if value is MISSING and "." in entry.field:
                    value = member(source.fields, entry.field.split("."))
                if value is MISSING and part == "value" and source.whole is None:
                    return None
        if value is MISSING:
            raise DataError(
                f"Required field '{entry.shown}' (mapped to column {shown(entry.column)}) was "
                "missing from record (or may refer to an invalid function). Please remove it from "
                "the mapping."
            )
        return value


def rows_of(records: Records, times: RecordTimes, *, exact: bool) -> Iterator[Row]:
    """The rows of a batch; `exact`: parse JSON numbers as decimals, which is slower."""
    times.begin()
    keys, values = records.keys.values, records.values.values
    key_schemas, value_schemas = records.keys.schemas(), records.values.schemas()
    headers = records.headers
    topics, partitions = records.topics, records.partitions
    timestamps, offsets = records.timestamps, records.offsets
    for at in range(len(records)):
        yield Row(
            part_of(keys[at], key_schemas[at], exact=exact),
            part_of(values[at], value_schemas[at], exact=exact),
            headers[at] if headers else (),
            times.of(TopicPartition(topics[at], partitions[at] or 0), offsets[at], timestamps[at]),
        )


def part_of(value: Any, schema: Schema | None, *, exact: bool) -> Part:
    """A key or a value with its fields."""
    if isinstance(value, dict) and (schema is None or schema.type in (Type.STRUCT, Type.MAP)):
        return Part(value, value)
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            parsed = json.loads(value, parse_float=Decimal) if exact else orjson.loads(value)
        except ValueError:
            return Part(_NOTHING, value)
        return Part(parsed, value)
    return Part(_NOTHING, value)


def ttl_s(value: Any, entry: Entry, unit: str) -> int:
    """A time to live in seconds; 0 if it is negative. Raises DataError."""
    return max(_scaled(value, entry, unit, UNITS["SECONDS"], "TTL"), 0)


def micros(value: Any, entry: Entry, unit: str) -> int:
    """A write time in microseconds. Raises DataError."""
    return _scaled(value, entry, unit, UNITS["MICROSECONDS"], "Timestamp")


def _scaled(value: Any, entry: Entry, unit: str, target_ns: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        shown_value = "null" if value is None else value
        raise DataError(
            f"The value: {shown_value} for field: {entry.shown} used as a {name} is not a Number "
            "but should be."
        )
    scaled = int(value) * UNITS[unit]
    return -(-scaled // target_ns) if scaled < 0 else scaled // target_ns


@dataclass(slots=True)
class Bound:
    """A statement with its values. Statements with equal `key` may share a request, unless it is
    None. `write_us`: the write time of one that is sent alone, unless the statement says its
    own."""

    row: int
    prepared: Any
    values: list[Any]
    key: Any = None
    size: int = field(default=0)
    write_us: int | None = None
