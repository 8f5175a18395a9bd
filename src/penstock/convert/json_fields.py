"""Reads uniform JSON objects into `Fields` with Arrow, without a Python object for a record.

Arrow's reader is mostly stricter than Jackson and Kafka Connect, sometimes laxer, and does not show
whether a number was written as an integer, or a member was null or missing. So it is used only if
that makes no difference; otherwise the result is None, and `json_read` reads the payloads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from penstock.data.columns import NATURAL, Cells, Fields
from penstock.data.java_maps import order_matters
from penstock.data.schema import INT_BITS, Field, Schema, Type, Value, int_range

ReadFields = Callable[[pa.Array], Fields | None]
"""The fields of an array of `binary` with a JSON text in each row and no nulls; None if `json_read`
must read them."""

_OPENING: Final = ord("{")
_CLOSING: Final = ord("}")
_NEWLINE: Final = b"\n"
_ESCAPE: Final = b"\\"
_ARROW: Final[Mapping[Type, pa.DataType]] = {
    Type.STRING: pa.large_string(),
    Type.BOOLEAN: pa.bool_(),
    Type.FLOAT64: pa.float64(),
    **dict.fromkeys(INT_BITS, pa.int64()),
}
_MOST_ATTEMPTS_LEFT_OUT: Final = 63


class Attempts:
    """Whether to retry an operation that often fails: less often after each failure, but at least
    once in 64 times."""

    def __init__(self) -> None:
        self._left_out = 0
        self._to_leave_out = 0

    def due(self) -> bool:
        if self._left_out < self._to_leave_out:
            self._left_out += 1
            return False
        self._left_out = 0
        return True

    def record(self, went_well: bool) -> None:
        more = min(2 * self._to_leave_out + 1, _MOST_ATTEMPTS_LEFT_OUT)
        self._to_leave_out = 0 if went_well else more


def struct_fields(schema: Schema | None, *, replace_null: bool) -> ReadFields | None:
    """The function that reads payloads of a schema; None unless it is a struct of texts, booleans,
    integers and doubles."""
    if schema is None or schema.type is not Type.STRUCT or schema.logical is not None:
        return None
    if not schema.fields or any(
        field.schema.logical is not None or field.schema.type not in _ARROW
        for field in schema.fields
    ):
        return None
    kinds = {field.name: _ARROW[field.schema.type] for field in schema.fields}

    def read(texts: pa.Array) -> Fields | None:
        members = _members(texts, kinds)
        if members is None:
            return None
        for field in schema.fields:
            if not _stands(field, members[field.name], replace_null):
                return None
        return Fields(schema, members, len(texts))

    return read


def _stands(field: Field, member: pa.Array, replace_null: bool) -> bool:
    """Whether the values of a field are those that Kafka Connect would read."""
    schema = field.schema
    null_stays = schema.optional and (schema.default is None or not replace_null)
    if member.null_count and not null_stays:
        return False
    if schema.type in INT_BITS and schema.type is not Type.INT64:
        low, high = int_range(schema.type)
        ends = pc.min_max(member).as_py()
        return ends["min"] is None or (low <= ends["min"] and ends["max"] <= high)
    return True


def map_fields(texts: pa.Array) -> Fields | None:
    """Reads JSON without a schema, if all objects are like the first."""
    try:
        first = orjson.loads(texts[0].as_py())
    except ValueError:
        return None
    kinds = _kinds(first)
    members = _members(texts, kinds) if kinds else None
    if members is None or any(member.null_count for member in members.values()):
        return None
    if any(
        pa.types.is_floating(member.type) and not _floats(texts, name, member)
        for name, member in members.items()
    ):
        return None
    return Fields(None, members, len(texts))


def _kinds(node: Value) -> dict[str, pa.DataType] | None:
    if type(node) is not dict or not node or order_matters(tuple(node)):
        return None
    kinds = {name: NATURAL.get(type(value)) for name, value in node.items()}
    return None if None in kinds.values() else kinds


def _floats(texts: pa.Array, name: str, member: pa.Array) -> bool:
    """Whether no value of a member was written as an integer, which would be an INT64."""
    numbers = member.to_numpy()
    if not np.any(numbers == np.floor(numbers)):
        return True
    data = bytes(_joined(texts))
    if _ESCAPE in data:  # the name might be escaped
        return False
    quoted = re.escape(orjson.dumps(name))
    return re.search(quoted + rb"\s*:\s*-?\d+\s*[,}]", data) is None


def _members(texts: pa.Array, kinds: Mapping[str, pa.DataType]) -> dict[str, pa.Array] | None:
    """The members of objects that have only these; null where one is null or missing.

    Each text must begin and end with the object's braces. If there are then as many objects as
    texts, each text has one, as no closing brace can precede an opening one within a text.
    """
    if not _in_braces(texts):
        return None
    data = _joined(texts)
    try:
        str(data, "utf-8")  # raises for invalid UTF-8, which Arrow's reader accepts
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=max(1 << 10, len(data) + 1)),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema(kinds.items()), unexpected_field_behavior="error"
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError, OverflowError):
        return None
    if table.num_rows != len(texts):
        return None
    members: dict[str, pa.Array] = {}
    for name in kinds:
        member = table.column(name).combine_chunks()
        if pa.types.is_floating(member.type) and not _plain(member):
            return None
        members[name] = member
    return members


def _plain(member: pa.Array) -> bool:
    """Whether none of the doubles is NaN or infinite, which are not JSON, or a negative zero, which
    may have been written as an integer."""
    numbers = member.fill_null(1.0).to_numpy(zero_copy_only=False)
    return bool(np.all(np.isfinite(numbers) & ((numbers != 0) | ~np.signbit(numbers))))


def _in_braces(texts: pa.Array) -> bool:
    if not _closed(texts):
        return False
    starts = _bounds(texts)[:-1]
    return bool(np.all(_data(texts)[starts] == _OPENING))


def _joined(texts: pa.Array) -> memoryview:
    """The texts as lines; their encoding is not checked."""
    lines = pc.binary_join_element_wise(texts, _NEWLINE, b"")
    bounds = _bounds(lines)
    return memoryview(lines.buffers()[2])[bounds[0] : bounds[-1]]


def payloads(cells: Cells, head: bytes) -> pa.Array | None:
    """The text between `head` and the closing brace of messages that all have both."""
    if not cells.head.startswith(head):
        joined = cells.whole()
        if not pc.all(pc.starts_with(joined, pattern=head)).as_py() or not _closed(joined):
            return None
        return pc.binary_slice(joined, len(head), -1)
    if not _closed(cells.rests):
        return None
    rests = pc.binary_slice(cells.rests, 0, -1)
    return Cells(rests, None, cells.head[len(head) :]).whole()


def _closed(texts: pa.Array) -> bool:
    """Whether each text ends with a brace."""
    bounds = _bounds(texts)
    if np.any(bounds[1:] == bounds[:-1]):
        return False
    return bool(np.all(_data(texts)[bounds[1:] - 1] == _CLOSING))


def _bounds(texts: pa.Array) -> Any:
    """Where the texts begin in their data, and where the last one ends."""
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]


def _data(texts: pa.Array) -> Any:
    return np.frombuffer(texts.buffers()[2], np.uint8)
