"""Columns held by Arrow; their Python values are made on demand.

Code that uses `values` need not know these classes. Code that knows them avoids a Python object for
every record: converters that read `Cells`, writers that take `Fields` (docs/decisions, 15).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.data.java_maps import order_matters
from penstock.data.records import Column, Run
from penstock.data.schema import Schema, Value
from penstock.data.structs import structs_of


class _Held(Column):
    """A column of one schema, whose values are made once, on demand."""

    __slots__ = ("_count", "_made")

    def __init__(self, count: int, schema: Schema | None) -> None:
        self.runs = [Run(count, schema)] if count else []
        self._count = count
        self._made: list[Value] | None = None

    @property
    def values(self) -> list[Value]:  # type: ignore[override]  # nobody sets it
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> list[Value]:
        raise NotImplementedError

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        """Columns are equal if their values and runs are, whatever holds them."""
        if not isinstance(other, Column):
            return NotImplemented
        return self.runs == other.runs and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


class Cells(_Held):
    """Byte strings and nulls: the `head` that all byte strings begin with, such as a schema, and
    what follows it (`rests`, an array of `binary`)."""

    __slots__ = ("head", "rests")

    def __init__(self, rests: pa.Array, schema: Schema | None, head: bytes = b"") -> None:
        super().__init__(len(rests), schema)
        self.rests = rests
        self.head = head

    def whole(self) -> pa.Array:
        """The byte strings as an array of `binary`."""
        if not self.head:
            return self.rests
        return pc.binary_join_element_wise(self.head, self.rests, b"")

    def _make(self) -> list[Value]:
        head = self.head
        rests = _values(self.rests)
        return [None if rest is None else head + rest for rest in rests] if head else rests


class Fields(_Held):
    """Maps (without a schema) or structs with the same members: an array for each member.

    A member is an array of `large_string`, `int64`, `float64` or `bool`. Only optional fields of
    structs may have nulls. Maps may have been filled in different orders: `loose` are the members
    whose place may differ, by default all. The text of a map must not depend on that
    (`order_matters`).
    """

    __slots__ = ("loose", "members", "schema")

    def __init__(
        self,
        schema: Schema | None,
        members: Mapping[str, pa.Array],
        count: int,
        loose: frozenset[str] | None = None,
    ) -> None:
        super().__init__(count, schema)
        self.schema = schema
        self.members = members
        self.loose = frozenset(members) if loose is None else loose

    def changed(self, schema: Schema | None, members: Mapping[str, Any]) -> Fields | None:
        """The rows with other members: arrays, and constants. New members come last. None if a
        constant is not a `str`, `int`, `float` or `bool`, or if the order of the maps' members
        would matter."""
        loose = self.loose.intersection(members)
        if schema is None and order_matters(tuple(members), loose):
            return None
        arrays: dict[str, pa.Array] = {}
        for name, cells in members.items():
            if not isinstance(cells, pa.Array):
                kind = NATURAL.get(type(cells))
                if kind is None:
                    return None
                cells = pa.repeat(pa.scalar(cells, kind), len(self))
            arrays[name] = cells
        return Fields(schema, arrays, len(self), loose)

    def only(self, rows: Sequence[int]) -> Fields:
        places = pa.array(rows, pa.int64())
        members = {name: array.take(places) for name, array in self.members.items()}
        return Fields(self.schema, members, len(rows), self.loose)

    def _make(self) -> list[Value]:
        if not self.members:
            return [{} for _ in range(self._count)]
        return structs_of(tuple(self.members))(
            [_values(member) for member in self.members.values()]
        )


NATURAL: Final[Mapping[type, pa.DataType]] = {
    str: pa.large_string(),
    bool: pa.bool_(),
    float: pa.float64(),
    int: pa.int64(),
}
"""The Python class of a member's values and their Arrow type."""


def _values(array: pa.Array) -> list[Any]:
    if array.null_count and not pa.types.is_binary(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]  # numpy would turn nulls into NaN
    return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
