"""Debezium's change events (connectors.md §4.2): changes of a document or a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.api import DataError


class Operation(Enum):
    """The operation of an event, by its `op`."""

    CREATE = "c"
    READ = "r"
    UPDATE = "u"
    DELETE = "d"


@dataclass(frozen=True, slots=True)
class Change:
    """One change event."""

    operation: Operation
    event: Mapping[str, Any]

    def has(self, name: str) -> bool:
        """Whether the event has that member, even as null."""
        return name in self.event

    @property
    def before(self) -> Any:
        """The state before the change, or None."""
        return self.event.get("before")

    @property
    def after(self) -> Any:
        """The state after the change, or None."""
        return self.event.get("after")


def change_of(value: Mapping[str, Any]) -> Change | None:
    """The change in a value; None for a change of a schema (it has `ddl`). Raises DataError if the
    value is not a change event.

    >>> change_of({"op": "u", "before": None, "after": {"id": 1}}).operation
    <Operation.UPDATE: 'u'>
    """
    if "op" not in value and "ddl" in value:
        return None
    operation = value.get("op")
    if not isinstance(operation, str):
        raise DataError("Value document is missing or CDC operation is not a string")
    try:
        return Change(Operation(operation), value)
    except ValueError:
        raise DataError(f"Unknown operation type {operation}") from None
