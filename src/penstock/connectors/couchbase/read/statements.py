"""The queries for changed documents.

Documents come in the order of CAS values (or of the sequence field) and ids, a page at a time. Each
page starts after the last document of the previous one. A query selects only these two, so that it
is answered from an index alone: a document that changes meanwhile stays in its place, and its
content is read afterwards.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.connectors.couchbase.client.keyspace import Keyspace, quoted
from penstock.connectors.couchbase.read.offsets import Position
from penstock.connectors.couchbase.settings.source import SourcePlan

_NS_PER_MS: Final = 1_000_000


def page(plan: SourcePlan, keyspace: Keyspace, after: Position) -> tuple[str, dict[str, Any]]:
    """The statement for the next documents, and its parameters."""
    mark = _mark(plan)
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
        f"SELECT META(d).id AS id, {mark} AS mark FROM {keyspace.quoted} AS d "
        f"WHERE {' AND '.join(conditions)} ORDER BY {mark}, META(d).id LIMIT $most",
        parameters,
    )


def newest(plan: SourcePlan, keyspace: Keyspace) -> tuple[str, dict[str, Any]]:
    """The statement for the `mark` after which all later changes come."""
    if plan.sequence:
        return f"SELECT MAX({_mark(plan)}) AS mark FROM {keyspace.quoted} AS d", {}
    return f"SELECT FLOOR(NOW_MILLIS()) * {_NS_PER_MS} AS mark", {}


def _mark(plan: SourcePlan) -> str:
    if not plan.sequence:
        return "META(d).cas"
    return ".".join(("d", *map(quoted, plan.sequence)))
