"""Schemas that tests of the Avro converter share, and how they read and write."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from penstock.data.records import Column, Failed
from penstock.data.schema import (
    OPTIONAL_STRING,
    Schema,
    Type,
    Value,
    struct,
)
from penstock.schema_registry import wire
from penstock.schema_registry.avro import AvroConverter

Ask = Callable[..., tuple[int, Any]]
Make = Callable[..., AvroConverter]


def write(converter: AvroConverter, schema: Schema | None, *values: Value) -> list[bytes | None]:
    failed: Failed = {}
    column = Column.of(list(values), schema)
    cells = converter.from_connect(["t"] * len(values), column, failed)
    assert not failed, failed
    return cells


def read(converter: AvroConverter, *cells: bytes | None, topic: str = "t") -> Column:
    failed: Failed = {}
    column = converter.to_connect([topic] * len(cells), list(cells), failed)
    assert not failed, failed
    return column


def written_schema(ask: Ask, subject: str = "t-value") -> Any:
    return json.loads(ask("GET", f"/subjects/{subject}/versions/latest")[1]["schema"])


def foreign(ask: Ask, schema: Any, value: Any, subject: str = "t-value") -> bytes:
    """A message another program wrote."""
    status, answer = ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})
    assert status == 200, answer
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(schema)), value)
    return wire.head(answer["id"]) + out.getvalue()


def defaulted(default: Value = 7) -> Schema:
    return struct(
        {"x": Schema(Type.INT32, optional=True, default=default), "y": OPTIONAL_STRING}, name="R"
    )


RECORD_A = {"type": "record", "name": "n.A", "fields": [{"name": "x", "type": "int"}]}
