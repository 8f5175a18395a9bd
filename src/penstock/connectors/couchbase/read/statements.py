"""The queries that find what has changed.

Documents are read in the order of CAS values (or of the sequence field) and ids, a page at a time,
each page after the last document of the page before.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.connectors.couchbase.client.keyspace import Keyspace, quoted
from penstock.connectors.couchbase.read.offsets import Position
from penstock.connectors.couchbase.settings.source import SourcePlan

_META: Final = (
    "META(d).id AS id, META(d).cas AS cas, META(d).expiration AS expiration, "
    "META(d).flags AS flags, META(d).type AS type"
)
_NS_PER_MS: Final = 1_000_000


def page(plan: SourcePlan, keyspace: Keyspace, after: Position) -> tuple[str, dict[str, Any]]:
    """The statement for the next documents, and its parameters."""
    mark = _mark(plan)
    columns = f"{_META}, {mark} AS mark"
    if not plan.without_value:
        columns += ", d AS content"
    parameters: dict[str, Any] = {"most": plan.most}
    if after.mark is None:
        conditions = [f"{mark} IS VALUED"]
    else:
        parameters |= {"mark": after.mark, "id": after.id}
        conditions = [f"{mark} >= $mark", f"({mark} > $mark OR META(d).id > $id)"]
    if not plan.sequence and plan.delay_ms:
        parameters["delay"] = plan.delay_ms
        conditions.append(f"{mark} <= (NOW_MILLIS() - $delay) * {_NS_PER_MS}")
    return (
        f"SELECT {columns} FROM {keyspace.quoted} AS d WHERE {' AND '.join(conditions)} "
        f"ORDER BY {mark}, META(d).id LIMIT $most",
        parameters,
    )


def newest(plan: SourcePlan, keyspace: Keyspace) -> tuple[str, dict[str, Any]]:
    """The statement for the `mark` that changes from now on are after."""
    if plan.sequence:
        return f"SELECT MAX({_mark(plan)}) AS mark FROM {keyspace.quoted} AS d", {}
    return f"SELECT FLOOR(NOW_MILLIS()) * {_NS_PER_MS} AS mark", {}


def _mark(plan: SourcePlan) -> str:
    if not plan.sequence:
        return "META(d).cas"
    return ".".join(("d", *map(quoted, plan.sequence)))
