"""Converts Connect's values to the form that a file library writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.schema import Schema, Value

Shape = Callable[[Value], Any]


def same(value: Value) -> Any:
    """The value itself."""
    return value


def with_default(make: Shape | None, default: Value) -> Shape | None:
    """Like `make`, with `default` instead of null; None if no conversion is needed."""
    if make is None:
        return None if default is None else lambda value: default if value is None else value
    return lambda value: default if value is None else make(value)


def struct_shape(schema: Schema, shape_of: Callable[[Schema | None], Shape | None]) -> Shape | None:
    """Converts the fields of structs by `shape_of` their schemas; None if none needs it."""
    shapes = [(field.name, make) for field in schema.fields if (make := shape_of(field.schema))]
    if not shapes:
        return None

    def struct(value: Value) -> Any:
        changed = dict(value)
        for name, make in shapes:
            changed[name] = make(changed.get(name))
        return changed

    return struct
