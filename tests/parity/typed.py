"""Connect schemas, values and records as JSON that names the Java class of every value.

Golden files store it, and the JVM sends and receives it (`Bridge.java` is the other end):

    null, true, "text", [...]   null, Boolean, String, ArrayList
    5                           Long
    {"i8": 5} i16 i32           Byte, Short, Integer
    {"f32": "1.5"} f64          Float, Double, as `toString` has them
    {"bytes": "AP8="}           byte[]
    {"decimal": "1.50"}         BigDecimal
    {"bigint": "5"}             BigInteger
    {"date": 86400000}          java.util.Date, ms since the epoch
    {"map": [["k", 1]]}         HashMap
    {"struct": {"f": 1}}        Struct of the schema that is expected where it stands; null fields
                                are left out, the values are those without defaults
    {"struct": …, "schema": …}  Struct of another schema
    {"class": "java.lang.X"}    any other object

A schema is `"INT32"`, or `"INT32?"` if it is optional, or an object with a `type` of that form and
its other attributes: `default name version doc parameters keys values fields`, fields are pairs of
a name and a schema. None is no schema.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import copysign, isnan
from typing import Any, Final

from penstock.data.logical import (
    MS_PER_DAY,
    date_to_days,
    days_to_date,
    ms_to_time,
    ms_to_timestamp,
    time_to_ms,
    timestamp_to_ms,
)
from penstock.data.records import Column, Header, Records
from penstock.data.schema import Field, Logical, Schema, Type, Value, float32, pairs
from penstock.data.text import double_text, float_text

Json = Any

_INT_TAGS: Final = {Type.INT8: "i8", Type.INT16: "i16", Type.INT32: "i32"}


def schema_json(schema: Schema | None) -> Json:
    """The JSON of a schema."""
    if schema is None:
        return None
    kind = schema.type.name + ("?" if schema.optional else "")
    more: dict[str, Json] = {}
    if schema.default is not None:
        more["default"] = value_json(schema, schema.default)
    for name in ("name", "version", "doc"):
        if (found := getattr(schema, name)) is not None:
            more[name] = found
    if schema.parameters is not None:
        more["parameters"] = dict(schema.parameters)
    if schema.key_schema is not None:
        more["keys"] = schema_json(schema.key_schema)
    if schema.value_schema is not None:
        more["values"] = schema_json(schema.value_schema)
    if schema.type is Type.STRUCT:
        more["fields"] = [[field.name, schema_json(field.schema)] for field in schema.fields]
    return {"type": kind, **more} if more else kind


def json_schema(node: Json) -> Schema | None:
    """The schema of its JSON."""
    if node is None:
        return None
    if isinstance(node, str):
        return Schema(Type(node.removesuffix("?")), optional=node.endswith("?"))
    kind = node["type"]
    bare = Schema(
        Type(kind.removesuffix("?")),
        optional=kind.endswith("?"),
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters=node.get("parameters"),
        key_schema=json_schema(node.get("keys")),
        value_schema=json_schema(node.get("values")),
        fields=tuple(
            Field(name, index, inner)
            for index, (name, each) in enumerate(node.get("fields", ()))
            if (inner := json_schema(each)) is not None
        ),
    )
    if "default" not in node:
        return bare
    attributes = {name: getattr(bare, name) for name in _ATTRIBUTES}
    return Schema(**attributes, default=json_value(bare, node["default"]))


_ATTRIBUTES: Final = (
    *("type", "optional", "name", "version", "doc", "parameters"),
    *("key_schema", "value_schema", "fields"),
)


def value_json(schema: Schema | None, value: Value) -> Json:
    """The JSON of a value; one that does not match the schema is written as if schemaless."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return _int_json(schema, value)
    if isinstance(value, float):
        if schema is not None and schema.type is Type.FLOAT32:
            return {"f32": float_text(value)}
        return {"f64": double_text(value)}
    if isinstance(value, bytes):
        return {"bytes": b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        return {"date": timestamp_to_ms(value)}
    if isinstance(value, date):
        return {"date": date_to_days(value) * MS_PER_DAY}
    if isinstance(value, time):
        return {"date": time_to_ms(value)}
    if schema is not None and schema.type is Type.STRUCT:
        inner = {field.name: field.schema for field in schema.fields}
        return {
            "struct": {
                name: value_json(inner.get(name), each)
                for name, each in value.items()
                if each is not None
            }
        }
    of_key = schema.key_schema if schema is not None else None
    of_value = schema.value_schema if schema is not None else None
    if isinstance(value, dict) or (schema is not None and schema.type is Type.MAP):
        entries = [[value_json(of_key, k), value_json(of_value, v)] for k, v in pairs(value)]
        return {"map": entries}
    return [value_json(of_value, each) for each in value]


def _int_json(schema: Schema | None, value: int) -> Json:
    if schema is not None and schema.type in _INT_TAGS:
        return {_INT_TAGS[schema.type]: value}
    return value if -(1 << 63) <= value < 1 << 63 else {"bigint": str(value)}


def json_value(schema: Schema | None, node: Json) -> Value:
    """The value of its JSON, as penstock has it where `schema` is expected."""
    if node is None or isinstance(node, bool | str | int):
        return node
    of_key = schema.key_schema if schema is not None else None
    of_value = schema.value_schema if schema is not None else None
    if isinstance(node, list):
        return [json_value(of_value, each) for each in node]
    if "struct" in node:
        own = json_schema(node["schema"]) if "schema" in node else schema
        fields = own.fields if own is not None else ()
        inner = {field.name: field.schema for field in fields}
        return {name: json_value(inner.get(name), each) for name, each in node["struct"].items()}
    ((tag, content),) = node.items()
    match tag:
        case "i8" | "i16" | "i32" | "bigint":
            return int(content)
        case "f64":
            return float(content)
        case "f32":
            # Without a schema it is a float that prints as the 32-bit one does.
            return float(content) if schema is None else float32(float(content))
        case "bytes":
            return b64decode(content)
        case "decimal":
            return Decimal(content)
        case "date":
            return _date_value(schema, content)
        case "map":
            entries = [(json_value(of_key, k), json_value(of_value, v)) for k, v in content]
            listed = of_key is not None and not of_key.type.is_primitive
            return entries if listed else dict(entries)
    raise ValueError(f"not a value: {node}")


def _date_value(schema: Schema | None, ms: int) -> Value:
    match schema.logical if schema is not None else None:
        case Logical.DATE:
            return days_to_date(ms // MS_PER_DAY)
        case Logical.TIME:
            return ms_to_time(ms)
    return ms_to_timestamp(ms)


def same(one: Value, other: Value) -> bool:
    """Equality as in Java: 1 is neither 1.0 nor true, NaN is NaN, 1.0 is not 1.00; a null field
    equals a missing one, and the order of map entries does not matter."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(each, other[key]) for key, each in one.items()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        if isnan(one) or isnan(other):
            return isnan(one) and isnan(other)
        return one == other and copysign(1, one) == copysign(1, other)
    if isinstance(one, Decimal):
        return one.as_tuple() == other.as_tuple()
    if isinstance(one, datetime):
        return one == other.astimezone(UTC)
    return bool(one == other)


def without_null_fields(schema: Schema | None, value: Value) -> Value:
    """The value, with null fields of structs left out, as the JSON has them."""
    if schema is None or value is None or schema.logical is not None:
        return value
    if schema.type is Type.STRUCT and isinstance(value, dict):
        inner = {field.name: field.schema for field in schema.fields}
        return {
            name: without_null_fields(inner.get(name), each)
            for name, each in value.items()
            if each is not None
        }
    of_value = schema.value_schema
    if schema.type is Type.ARRAY and isinstance(value, list):
        return [without_null_fields(of_value, each) for each in value]
    if schema.type is Type.MAP and isinstance(value, dict):
        return {key: without_null_fields(of_value, each) for key, each in value.items()}
    return value


def json_records(nodes: Sequence[Json]) -> Records:
    """The batch of records in JSON; they are all of a sink or all of a source.

    A record has `topic partition offset timestamp key value headers`, without what is None or
    empty; key and value are pairs of a schema and a value, headers triples of a name, a schema and
    a value. A source's record has no offset.
    """
    sides: dict[str, Column] = {}
    for side in ("key", "value"):
        both = [node.get(side, (None, None)) for node in nodes]
        schemas = [json_schema(schema) for schema, _ in both]
        values = [json_value(schema, cell[1]) for schema, cell in zip(schemas, both, strict=True)]
        sides[side] = Column.gather(values, schemas)
    headers: list[Sequence[Header]] = [
        [
            Header(name, json_value(known, value), known)
            for name, schema, value in node.get("headers", ())
            for known in [json_schema(schema)]
        ]
        for node in nodes
    ]
    return Records(
        topics=[node.get("topic") for node in nodes],
        partitions=[node.get("partition") for node in nodes],
        timestamps=[node.get("timestamp") for node in nodes],
        keys=sides["key"],
        values=sides["value"],
        offsets=[node["offset"] for node in nodes if "offset" in node],
        headers=headers if any(headers) else [],
    )
