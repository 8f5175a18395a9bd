"""Which fields of a struct need work, given the classes of all its values.

Most structs of a schema have the same few shapes, the tuple of the classes of their values: all
fields set, or this one null. A shape says which values stand as they are, which do if a check
says so, and which must be converted; it is worked out once, so that nothing is dispatched per
field and record. Many structs at once are looked at a field at a time (`columns_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from penstock.data.schema import Value

Convert = Callable[[Value], Value]
Fits = Callable[[Value], bool]
Values = Sequence[Any]
AllFit = Callable[[Values], bool]
Shape = tuple[type, ...]
Work = tuple[list[tuple[str, Fits]], list[tuple[str, Convert]]]
"""Checks that must all hold, and conversions to do if they do."""


@dataclass(frozen=True, slots=True)
class FieldWork:
    """What a field's values need: none for None if `null_stays`; for the class `natural` just the
    check `fits`, where there is one; `convert`, which knows every case, otherwise. `all_fit` checks
    many values in less time, and may say no where each by itself would do."""

    name: str
    convert: Convert
    natural: type | None
    fits: Fits | None
    null_stays: bool
    all_fit: AllFit | None = None

    def stand(self, column: Values) -> bool:
        """Whether many values of the field stand as they are."""
        kinds = set(map(type, column))
        if self.null_stays:
            kinds.discard(type(None))
        if not kinds:
            return True
        if kinds != {self.natural}:
            return False
        if self.fits is None:
            return True
        there = [value for value in column if value is not None]
        return self.all_fit(there) if self.all_fit else all(map(self.fits, there))


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


def columns_of(names: tuple[str, ...], structs: list[Value]) -> list[Values] | None:
    """The values of many structs by field; None if one of them is none, or has other members or
    another order than `names`."""
    if set(map(type, structs)) != {dict} or set(map(tuple, structs)) != {names}:
        return None
    return [list(map(itemgetter(name), structs)) for name in names]


def both_ends(fits: Fits) -> AllFit:
    """That numbers are within a range: the smallest and the largest are."""
    return lambda column: fits(min(column)) and fits(max(column))
