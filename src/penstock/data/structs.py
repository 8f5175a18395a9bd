"""Structs from columns.

A function generated for the names, as `dataclasses` generates methods, takes a quarter of the time
of `dict(zip(names, row))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from penstock.data.schema import Value

Columns = Sequence[Sequence[Value]]
"""One column per field, all of the same length."""


@lru_cache(maxsize=256)
def structs_of(names: tuple[str, ...]) -> Callable[[Columns], list[Value]]:
    """The function that makes structs from columns, one for each row.

    >>> structs_of(("id", "it's"))([[1, 2], ["a", None]])
    [{'id': 1, "it's": 'a'}, {'id': 2, "it's": None}]
    """
    if not names:
        raise ValueError("columns without names have no rows to count")
    cells = [f"cell{at}" for at in range(len(names))]
    members = ", ".join(f"{name!r}: {cell}" for name, cell in zip(names, cells, strict=True))
    row = f"({', '.join(cells)},)"
    build: Callable[[Columns], list[Value]] = eval(  # of texts quoted by `repr`
        f"lambda columns: [{{{members}}} for {row} in zip(*columns, strict=True)]"
    )
    return build
