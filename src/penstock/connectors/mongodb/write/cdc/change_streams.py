"""MongoDB's own change events, as the source writes them."""

from __future__ import annotations

import logging
from typing import Any, Final

from penstock.api import DataError
from penstock.connectors.mongodb.write.documents import Document
from penstock.connectors.mongodb.write.entry import Entry, Kind, Write

log = logging.getLogger(__name__)

_UPDATE_FIELDS: Final = frozenset(
    {"updatedFields", "removedFields", "truncatedArrays", "disambiguatedPaths"}
)


def of_event(entry: Entry) -> Write | None:
    """The write that replays a change; None if it changes no document (drop, rename, …)."""
    event = entry.value or {}
    if "operationType" not in event:
        raise DataError("Error: `operationType` field is doc is missing.")
    operation = event["operationType"]
    if not isinstance(operation, str):
        raise DataError("Error: Unexpected CDC operation type, should be a string")
    match operation.lower():
        case "insert" | "replace":
            return Write(
                Kind.REPLACE, _part(event, "documentKey"), _part(event, "fullDocument"), upsert=True
            )
        case "update":
            key = _part(event, "documentKey")
            if "fullDocument" in event:
                return Write(Kind.REPLACE, key, _part(event, "fullDocument"))
            return Write(Kind.UPDATE, key, _changes(event))
        case "delete":
            return Write(Kind.DELETE, _part(event, "documentKey"))
    log.warning("Unsupported change stream operation: %s", operation)
    return None


def _part(event: Document, name: str) -> Document:
    if name not in event:
        raise DataError(f"Missing {name} field")
    part = event[name]
    if not isinstance(part, dict):
        raise DataError(f"Unexpected {name} field type, expecting a document but found `{part}`")
    return part


def _changes(event: Document) -> Document:
    """The update of an `updateDescription`."""
    description = _part(event, "updateDescription")
    if unknown := sorted(set(description) - _UPDATE_FIELDS):
        raise DataError(
            f"Warning unexpected field(s) in updateDescription {unknown}. Cannot process due to "
            "risk of data loss."
        )
    updated = _inner(description, "updatedFields", dict)
    removed = _inner(description, "removedFields", list)
    for name, kind in (("truncatedArrays", list), ("disambiguatedPaths", dict)):
        if name in description and not isinstance(description[name], kind):
            raise DataError(f"Unexpected {name} field type, found `{description[name]}`")
    for path in removed:
        if not isinstance(path, str):
            raise DataError(f"Unexpected value type in removedFields, found `{path}`")
    changes: Document = {"$set": updated} if updated else {}
    if removed:
        changes["$unset"] = dict.fromkeys(removed, "")
    if not changes:
        changes["$set"] = {}
    return changes


def _inner(description: Document, name: str, kind: type) -> Any:
    if name not in description:
        raise DataError(f"Missing updateDescription.{name} field")
    if not isinstance(description[name], kind):
        raise DataError(f"Unexpected {name} field type, found `{description[name]}`")
    return description[name]
