"""Which fields of a struct need work, given the classes of all its values.

Most structs of a schema have the same few shapes, the tuple of the classes of their values: all
fields set, or this one null. A shape says which values stand as they are, which do if a check
says so, and which must be converted; it is worked out once, so that nothing is dispatched per
field and record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.data.schema import Value

Convert = Callable[[Value], Value]
Fits = Callable[[Value], bool]
Shape = tuple[type, ...]
Work = tuple[list[tuple[str, Fits]], list[tuple[str, Convert]]]
"""Checks that must all hold, and conversions to do if they do."""


@dataclass(frozen=True, slots=True)
class FieldWork:
    """What a field's values need: none for None if `null_stays`; for the class `natural` just the
    check `fits`, where there is one; `convert`, which knows every case, otherwise."""

    name: str
    convert: Convert
    natural: type | None
    fits: Fits | None
    null_stays: bool


class Shapes(dict[Shape, Work]):
    """The work for each shape seen so far; `shapes[shape]` works out a new one."""

    _MOST: Final = 1024

    def __init__(self, fields: Sequence[FieldWork]) -> None:
        super().__init__()
        self._fields = fields

    def __missing__(self, shape: Shape) -> Work:
        checks: list[tuple[str, Fits]] = []
        conversions: list[tuple[str, Convert]] = []
        for field, kind in zip(self._fields, shape, strict=True):
            if kind is field.natural:
                if field.fits is not None:
                    checks.append((field.name, field.fits))
            elif not (kind is type(None) and field.null_stays):
                conversions.append((field.name, field.convert))
        if len(self) >= self._MOST:
            self.clear()
        self[shape] = work = checks, conversions
        return work
