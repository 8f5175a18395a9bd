"""The records of a file: its values, with keys, headers, timestamps and partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Final

import orjson

from penstock.api import Column, DataError, Failed, Header, Records, Run
from penstock.api.schema import (
    EPOCH,
    INT64,
    OPTIONAL_BYTES,
    STRING,
    TIMESTAMP,
    Schema,
    Type,
    Value,
    struct,
)
from penstock.connectors.files.read.scan import Work

_MS: Final = timedelta(milliseconds=1)


class Time(Enum):
    """The source of the timestamps of records."""

    NONE = "PROCESS_TIME"
    FILE = "FILE_TIME"
    FIELD = "FIELD"


@dataclass(frozen=True, slots=True)
class KeyOf:
    """The keys of records that have none: the path of the file, or fields of the value."""

    is_path: bool = False
    fields: tuple[str, ...] = ()
    name: str | None = None
    """The name of the struct of the fields."""
    schema: Schema | None = None
    """The schema of the path or the struct; without one, a struct has the schemas of the fields."""


@dataclass(frozen=True, slots=True)
class Dress:
    """The parts of records besides their value."""

    key: KeyOf | None = None
    about_file: bool = False
    """Whether headers describe the file."""
    first: int = 1
    """The `file.offset` of the first record."""
    root: str = ""
    """The folder that `file.relative.path` is relative to; "" for none."""
    time: Time = Time.NONE
    time_field: str = ""
    as_text: bool = False
    """Whether values become JSON strings."""
    value_name: str | None = None
    """The name for structs without a name."""


@dataclass(slots=True)
class Side:
    """The keys and headers of the same rows, from their own files."""

    keys: Column | None = None
    headers: list[Sequence[Header]] | None = None


BYTES_KEY: Final = KeyOf(is_path=True)
OPTIONAL_BYTES_KEY: Final = KeyOf(is_path=True, schema=OPTIONAL_BYTES)


def dressed(
    dress: Dress, work: Work, first: int, values: Column, side: Side, failed: Failed
) -> Records:
    """The records of values, which start at record number `first` of the file. Rows that cannot be
    records get an entry in `failed`."""
    count = len(values)
    target, found = work.target, work.found
    keys = side.keys
    if target.tombstones:
        keys, values = values, Column.of([None] * count, None)
    if keys is None:
        keys = _keys(dress.key, found.path, values, failed)
    times = _timestamps(dress, work, values, failed)
    values = _formatted(dress, values)
    headers = side.headers
    if dress.about_file:
        file_headers = _file_headers(dress, work)
        at = next(at for at, header in enumerate(file_headers) if header.name == "file.offset")
        before, after = file_headers[:at], file_headers[at + 1 :]
        headers = [
            (*before, Header("file.offset", first + row + dress.first, INT64), *after)
            for row in range(count)
        ]
    return Records(
        topics=[target.topic] * count,
        partitions=[target.partition] * count,
        timestamps=times,
        keys=keys,
        values=values,
        headers=headers or [],
    )


def _formatted(dress: Dress, values: Column) -> Column:
    if dress.as_text:
        return Column.of([orjson.dumps(value).decode() for value in values.values], STRING)
    if dress.value_name is None or not len(values):
        return values
    runs = [Run(run.stop, _named(run.schema, dress.value_name)) for run in values.runs]
    return Column(values.values, runs)


@lru_cache(maxsize=64)
def _named(schema: Schema | None, name: str) -> Schema | None:
    if schema is None or schema.name is not None:
        return schema
    return replace(schema, name=name)


def _keys(key: KeyOf | None, path: str, values: Column, failed: Failed) -> Column:
    count = len(values)
    if key is None:
        return Column.of([None] * count, None)
    if key.is_path:
        return Column.of([path.encode()] * count, key.schema)
    cells: list[Value] = []
    schemas: list[Schema | None] = []
    key_schemas: dict[int, Schema | None] = {}  # by the id of the value schema
    for schema, start, stop in values.slices():
        if id(schema) not in key_schemas:
            key_schemas[id(schema)] = _key_schema(key, schema)
        schemas += [key_schemas[id(schema)]] * (stop - start)
        for row in range(start, stop):
            value = values.values[row]
            if not isinstance(value, Mapping):
                if row not in failed:
                    failed[row] = DataError(
                        "the key needs fields of the value, but the value has none"
                    )
                cells.append(None)
            else:
                cells.append({name: value.get(name) for name in key.fields})
    return Column.gather(cells, schemas)


def _key_schema(key: KeyOf, schema: Schema | None) -> Schema | None:
    if key.schema is not None or schema is None or schema.type is not Type.STRUCT:
        return key.schema
    fields = {}
    for name in key.fields:
        field = schema.field(name)
        if field is None:
            raise DataError(
                f"schema.generation.key.fields contains '{name}', which values do not have"
            )
        fields[name] = field.schema
    return struct(fields, name=key.name)


def _file_headers(dress: Dress, work: Work) -> list[Header]:
    path = work.found.path
    folder, _, name = path.rpartition("/")
    stem, dot, _ = name.rpartition(".")
    headers = [
        Header("file.name", name, STRING),
        Header("file.name.without.extension", stem if dot else name, STRING),
        Header("file.path", path, STRING),
        Header("file.parent.dir.name", folder.rpartition("/")[2], STRING),
        Header("file.length", work.found.size, INT64),
        Header("file.offset", 0, INT64),
        Header("file.last.modified", EPOCH + work.found.modified_ms * _MS, TIMESTAMP),
    ]
    if dress.root and folder.startswith(dress.root):
        headers.append(Header("file.relative.path", folder[len(dress.root) :], STRING))
    return headers


def _timestamps(dress: Dress, work: Work, values: Column, failed: Failed) -> list[int | None]:
    count = len(values)
    match dress.time:
        case Time.NONE:
            return [None] * count
        case Time.FILE:
            return [work.found.modified_ms] * count
    times: list[int | None] = []
    for row, value in enumerate(values.values):
        moment = value.get(dress.time_field) if isinstance(value, Mapping) else None
        if isinstance(moment, datetime):
            times.append((moment - EPOCH) // _MS)
        elif isinstance(moment, int) and not isinstance(moment, bool):
            times.append(moment)
        else:
            times.append(None)
            if row not in failed:
                failed[row] = DataError(
                    f"timestamp.field names '{dress.time_field}', which is not a Timestamp"
                )
    return times


def restored_headers(column: Column) -> list[Sequence[Header]]:
    """The headers of a file of headers: strings, as the sink writes them."""
    rows: list[Sequence[Header]] = []
    for value in column.values:
        if isinstance(value, Mapping) and isinstance(value.get("headers"), list):
            value = value["headers"]
        entries = value if isinstance(value, list) else ()
        rows.append(
            [
                Header(str(entry.get("key")), entry.get("value"), STRING)
                for entry in entries
                if isinstance(entry, Mapping)
            ]
        )
    return rows
