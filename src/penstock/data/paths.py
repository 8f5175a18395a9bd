"""The place of a value that does not fit its schema: `customer.orders[2].price`, `prices["EUR"]`.

An error gets its path while it passes the structs, arrays and maps around the value, step by step,
so that values that fit cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

from penstock.data.schema import Value
from penstock.errors import DataError

Step = str
"""The name of a field, or a step from `at_index` or `at_key`."""

_MOST_OF_KEY: Final = 64


class Misfit(DataError):
    """A value inside another one does not fit its schema. The message is the path and `reason`,
    which are Kafka Connect's words where it has the same error."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"Field '{path}': {reason}")


def raise_in(step: Step, error: DataError) -> NoReturn:
    """Raises the error of a value as that of the struct, array or map around it."""
    if isinstance(error, Misfit):
        raise Misfit(joined([step, error.path]), error.reason) from error.__cause__
    raise Misfit(step, str(error)) from error


def each(convert: Callable[[Value], Any], values: Iterable[Value]) -> list[Any]:
    """The elements of an array, all of them converted. An error names the element."""
    converted: list[Any] = []
    try:
        converted.extend(map(convert, values))
    except DataError as cause:
        raise_in(at_index(len(converted)), cause)
    return converted


def joined(steps: Sequence[Step]) -> str:
    """The path of several steps, the outermost first."""
    return "".join(
        step if step.startswith("[") or not place else f".{step}"
        for place, step in enumerate(steps)
    )


def at_index(number: int) -> Step:
    """The step to an element of an array."""
    return f"[{number}]"


def at_key(value: Value) -> Step:
    """The step to an entry of a map."""
    text = value if isinstance(value, str) else str(value)
    shown = text if len(text) <= _MOST_OF_KEY else f"{text[:_MOST_OF_KEY]}…"
    return f'["{shown}"]' if isinstance(value, str) else f"[{shown}]"
