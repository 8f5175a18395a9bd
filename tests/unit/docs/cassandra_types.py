"""The table of types in docs/cassandra.md, made by asking the code: what each of CQL's types is
written from, by trying it, and what it is read as. `python tests/unit/docs/cassandra_types.py`
prints it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from cassandra import cqltypes as c

from penstock.api import DataError
from penstock.connectors.cassandra.read.values import reading
from penstock.connectors.cassandra.text.codecs import encoder
from penstock.connectors.cassandra.text.values import Texts

_PROTOCOL: Final = 5
_PLACE: Final = c.UserType.make_udt_class(
    "docs", "place", ("street", "number"), (c.UTF8Type, c.Int32Type)
)

KINDS: Final[Mapping[str, Any]] = {
    "ascii": c.AsciiType,
    "bigint, counter": c.LongType,
    "blob": c.BytesType,
    "boolean": c.BooleanType,
    "date": c.SimpleDateType,
    "decimal": c.DecimalType,
    "double": c.DoubleType,
    "duration": c.DurationType,
    "float": c.FloatType,
    "inet": c.InetAddressType,
    "int": c.Int32Type,
    "smallint": c.ShortType,
    "text, varchar": c.UTF8Type,
    "time": c.TimeType,
    "timestamp": c.DateType,
    "timeuuid": c.TimeUUIDType,
    "tinyint": c.ByteType,
    "uuid": c.UUIDType,
    "varint": c.IntegerType,
    "list, set": c.ListType.apply_parameters([c.Int32Type]),
    "map": c.MapType.apply_parameters([c.UTF8Type, c.Int32Type]),
    "tuple": c.TupleType.apply_parameters([c.UTF8Type, c.Int32Type]),
    "vector": type("V", (c.VectorType,), {"vector_size": 2, "subtype": c.FloatType}),
    "user type": _PLACE,
}
VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "INT8 … INT64": (1, 5),
    "FLOAT32, FLOAT64": (1.0, 0.5),
    "BOOLEAN": (True,),
    "STRING": (
        "1", "a", "true", "2026-01-31", "12:30:00", "2026-01-31T12:30:00Z", "1mo", "::1",
        "50554d6e-29bb-11e5-b345-feff819cdc9f", "[1,2]", '{"a":1}', '["a",1]',
        '{"street":"s","number":1}', "0xCAFE",
    ),
    "BYTES": (b"\x01\x02\x03\x04", uuid.UUID(int=5).bytes),
    "Decimal": (Decimal(1), Decimal("1.5")),
    "Date": (date(2026, 1, 31),),
    "Time": (time(12, 30),),
    "Timestamp": (datetime(2026, 1, 31, tzinfo=UTC),),
    "ARRAY": ([1, 2], ["a", 1]),
    "MAP": ({"a": 1}, {"street": "s", "number": 1}),
    "STRUCT": ({"street": "s", "number": 1},),
}  # fmt: skip


def takes(kind: Any) -> list[str]:
    """The types of records that a type is written from."""
    encode = encoder(kind, Texts(), _PROTOCOL)

    def fits(value: Any) -> bool:
        try:
            return encode(value) is not None
        except DataError:
            return False

    return [name for name, values in VALUES.items() if any(map(fits, values))]


def read_as(kind: Any) -> str:
    """The type of records that a type is read as."""
    names = []
    for as_json in (True, False):
        schema, _ = reading(kind, as_json=as_json)
        name = (schema.name or "").rpartition(".")[2] or schema.type.value
        if name == "Decimal":
            name = "Decimal of scale 18"
        names.append(name)
    return names[0] if names[0] == names[1] else f"{names[0]} of JSON, or {names[1]}"


def table() -> str:
    """The table."""
    lines = ["| CQL | is written from | is read as |", "|---|---|---|"]
    for name, kind in KINDS.items():
        lines.append(f"| {name} | {', '.join(takes(kind))} | {read_as(kind)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201
