"""Qlik Replicate's change events of relational databases: `message` (or the value itself) with
`data`, `beforeData` and `headers`."""

from __future__ import annotations

from typing import Final

from bson import ObjectId

from penstock.api import DataError
from penstock.connectors.mongodb.write.documents import Document
from penstock.connectors.mongodb.write.entry import Entry, Kind, Write
from penstock.connectors.mongodb.write.ids import ID

_INSERTS: Final = frozenset({"insert", "refresh", "read"})


def of_row(entry: Entry) -> Write | None:
    """The write of an event; None for tombstones, and for updates that change nothing."""
    key, value = entry.key or {}, entry.value or {}
    if not value:
        return None
    operation = _operation(value)
    message = _inner("message", value)
    own: Document | None = {ID: dict(key)} if key else None
    if operation in _INSERTS:
        where: Document = {ID: ObjectId()} if own is None else own
        document = {ID: where[ID], **_inner("data", message)}
        return Write(Kind.REPLACE, where, document, upsert=True)
    if operation == "delete":
        where = own or _inner("beforeData", _inner("data", message, or_null=True), or_null=True)
        return Write(Kind.DELETE, _filled(where))
    if operation == "update":
        where = _filled(own or _inner("beforeData", message))
        before, after = _inner("beforeData", message), _filled(_inner("data", message))
        changed = {
            name: each for name, each in after.items() if name not in before or before[name] != each
        }
        return Write(Kind.UPDATE, where, {"$set": changed}, upsert=True) if changed else None
    raise DataError(f"Unable to determine the CDC operation from: {operation}")


def _operation(value: Document) -> str:
    headers = _inner("headers", _inner("message", value))
    found = headers.get("operation", headers.get("headers_operation"))
    if not isinstance(found, str):
        raise DataError("Error: Could not determine the CDC operation type.")
    return found.lower()


def _inner(name: str, document: Document, *, or_null: bool = False) -> Document:
    """A member that is a document, or the document itself where it has none."""
    if name not in document or (or_null and document[name] is None):
        return document
    found = document[name]
    if not isinstance(found, dict):
        raise DataError(f"Error: Value document contains a '{name}' that is not a document")
    return found


def _filled(document: Document) -> Document:
    if not document:
        raise DataError(
            "Error: Value Document does not contain the expected data, cannot create filter."
        )
    return document
