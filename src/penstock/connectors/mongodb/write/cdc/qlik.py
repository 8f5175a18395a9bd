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
        query: Document = {ID: ObjectId()} if own is None else own
        document = {ID: query[ID], **_inner("data", message)}
        return Write(Kind.REPLACE, query, document, upsert=True)
    if operation == "delete":
        query = own or _inner("beforeData", _inner("data", message, or_null=True), or_null=True)
        return Write(Kind.DELETE, _filled(query))
    if operation == "update":
        query = _filled(own or _inner("beforeData", message))
        before, after = _inner("beforeData", message), _filled(_inner("data", message))
        changed = {
            name: cell for name, cell in after.items() if name not in before or before[name] != cell
        }
        return Write(Kind.UPDATE, query, {"$set": changed}, upsert=True) if changed else None
    raise DataError(f"Unable to determine the CDC operation from: {operation}")


def _operation(value: Document) -> str:
    headers = _inner("headers", _inner("message", value))
    operation = headers.get("operation", headers.get("headers_operation"))
    if not isinstance(operation, str):
        raise DataError("Error: Could not determine the CDC operation type.")
    return operation.lower()


def _inner(name: str, document: Document, *, or_null: bool = False) -> Document:
    """A member that is a document, or the document itself if it has none."""
    if name not in document or (or_null and document[name] is None):
        return document
    inner = document[name]
    if not isinstance(inner, dict):
        raise DataError(f"Error: Value document contains a '{name}' that is not a document")
    return inner


def _filled(document: Document) -> Document:
    if not document:
        raise DataError(
            "Error: Value Document does not contain the expected data, cannot create filter."
        )
    return document
