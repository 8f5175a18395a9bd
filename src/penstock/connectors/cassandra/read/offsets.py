"""Offsets in the format of Lenses' connector: for each table, the last value of a column
(connectors.md §7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.api import PenstockError, Primitive, SourceOffset
from penstock.api.dates import DateFormat, Unparseable

TABLE: Final = "connect.cassandra.assigned.tables"
_FORMAT: Final = DateFormat("yyyy-MM-dd HH:mm:ss.SSS'Z'")


def partition_of(table: str) -> dict[str, Primitive]:
    """The source partition of a table."""
    return {TABLE: table}


def moment_text(ms: int) -> str:
    """Formats a timestamp for an offset: in ms, in UTC."""
    return _FORMAT.format(ms)


def moment_ms(text: str) -> int:
    """Parses the timestamp of an offset. Raises PenstockError."""
    try:
        return _FORMAT.parse(text)
    except Unparseable as error:
        raise PenstockError(
            f"'{text}' is not a timestamp of the form yyyy-MM-dd HH:mm:ss.SSS'Z'"
        ) from error


def check(source_offset: SourceOffset) -> None:
    """Raises PenstockError if a user's offset is not in this connector's format."""
    if not isinstance(source_offset.partition.get(TABLE), str):
        raise PenstockError(f"Partition objects should contain the key '{TABLE}'")
    offset: Mapping[str, Primitive] | None = source_offset.offset
    if offset is None:
        return
    if len(offset) != 1 or not all(isinstance(value, str) for value in offset.values()):
        raise PenstockError(
            "Offset objects should either be null or have one column, with a string"
        )
