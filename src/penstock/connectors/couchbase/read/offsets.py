"""Offsets: how far a collection has been read (docs/couchbase.md).

{"bucket": …, "collection": "scope.collection"[, "connector": …]}
    -> {"cas": …, "id": …} or {"field": …, "sequence": …, "id": …}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import PenstockError, Primitive
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.settings.source import SourcePlan

BUCKET: Final = "bucket"
COLLECTION: Final = "collection"
CONNECTOR: Final = "connector"
CAS: Final = "cas"
ID: Final = "id"
FIELD: Final = "field"
SEQUENCE: Final = "sequence"
LAST: Final = "\U0010ffff"
"""After every id."""

_DCP: Final = "bySeqno"


@dataclass(frozen=True, slots=True)
class Position:
    """The last document read: its CAS or the value of the sequence field (None: none was read yet),
    and its id."""

    mark: Any
    id: str = ""


def partition_of(plan: SourcePlan, keyspace: Keyspace) -> dict[str, Primitive]:
    """The source partition of a collection."""
    partition: dict[str, Primitive] = {BUCKET: keyspace.bucket, COLLECTION: keyspace.qualified}
    if plan.connector is not None:
        partition[CONNECTOR] = plan.connector
    return partition


def offset_of(plan: SourcePlan, position: Position) -> dict[str, Primitive]:
    """The offset of a position."""
    if plan.sequence:
        return {FIELD: ".".join(plan.sequence), SEQUENCE: position.mark, ID: position.id}
    return {CAS: position.mark, ID: position.id}


def position_of(plan: SourcePlan, offset: Mapping[str, Primitive] | None) -> Position | None:
    """The position of a stored offset; None without one, or if it is of another field."""
    if offset is None:
        return None
    if plan.sequence:
        if offset.get(FIELD) != ".".join(plan.sequence):
            return None
        return Position(offset.get(SEQUENCE), str(offset.get(ID) or ""))
    if CAS not in offset:
        return None
    return Position(offset[CAS], str(offset.get(ID) or ""))


def is_dcp(offset: Mapping[str, Primitive] | None) -> bool:
    """Whether Couchbase's own connector stored the offset."""
    return offset is not None and _DCP in offset


def check(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    """Raises PenstockError unless these are an offset of this connector."""
    for name in (BUCKET, COLLECTION):
        if not isinstance(partition.get(name), str):
            raise PenstockError(f"Partition objects should have a string '{name}'")
    if offset is None:
        return
    if not (CAS in offset or {FIELD, SEQUENCE} <= offset.keys()):
        raise PenstockError(
            f"Offset objects should either be null or have '{CAS}' and '{ID}', or '{FIELD}', "
            f"'{SEQUENCE}' and '{ID}'"
        )
    if CAS in offset and type(offset[CAS]) is not int:
        raise PenstockError(f"'{CAS}' is not an integer: {offset[CAS]}")
