"""Which fields of a struct must be converted, by the classes of its values.

The shape of a struct is the tuple of its values' classes; most structs of a schema share a few
shapes. A shape determines which values stay unchanged, which need a check, and which must be
converted. That is computed once per shape, so that nothing is dispatched per field and record. Many
structs are processed a field at a time (`columns_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from penstock.data.paths import raise_in
from penstock.data.schema import Value
from penstock.errors import DataError

Convert = Callable[[Value], Value]
Fits = Callable[[Value], bool]
Values = Sequence[Any]
AllFit = Callable[[Values], bool]
Shape = tuple[type, ...]
Work = tuple[list[tuple[str, Fits]], list[tuple[str, Convert]]]
"""Checks that must all pass, and the conversions to do then."""


@dataclass(frozen=True, slots=True)
class FieldWork:
    """The work for a field's values: none for None if `null_stays`; the check `fits`, if any, for
    the class `natural`; otherwise `convert`, which handles every case. `all_fit` checks many values
    faster, and may fail though each value passes."""

    name: str
    convert: Convert
    natural: type | None
    fits: Fits | None
    null_stays: bool
    all_fit: AllFit | None = None

    def stand(self, column: Values) -> bool:
        """Whether many values of the field need no conversion."""
        kinds = set(map(type, column))
        if self.null_stays:
            kinds.discard(type(None))
        if not kinds:
            return True
        if kinds != {self.natural}:
            return False
        if self.fits is None:
            return True
        present = [value for value in column if value is not None]
        return self.all_fit(present) if self.all_fit else all(map(self.fits, present))


class Shapes(dict[Shape, Work]):
    """The work for each shape so far; `shapes[shape]` computes a new one."""

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


def convert_each(fields: Sequence[FieldWork], struct: Value) -> dict[str, Value]:
    """The fields of a struct, all of them converted. An error names the field."""
    converted = {}
    for field in fields:
        try:
            converted[field.name] = field.convert(struct[field.name])
        except DataError as cause:
            raise_in(field.name, cause)
    return converted


def columns_of(names: tuple[str, ...], structs: list[Value]) -> list[Values] | None:
    """The values of many structs by field; None if one is not a struct, or its members are not
    `names` in this order."""
    if set(map(type, structs)) != {dict} or set(map(tuple, structs)) != {names}:
        return None
    return [list(map(itemgetter(name), structs)) for name in names]


def both_ends(fits: Fits) -> AllFit:
    """A check of many numbers: whether the smallest and the largest are within a range."""
    return lambda column: fits(min(column)) and fits(max(column))
