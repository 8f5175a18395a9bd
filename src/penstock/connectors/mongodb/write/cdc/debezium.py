"""Debezium's change events: of MongoDB, from the oplog (releases before 1.9) or change streams, and
of relational databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import ObjectId

from penstock.api import DataError
from penstock.connectors.keyed.envelopes import Operation, change_of
from penstock.connectors.mongodb.text.shell import TextInvalid, parse_document
from penstock.connectors.mongodb.write.documents import Document
from penstock.connectors.mongodb.write.entry import Entry, Kind, Write
from penstock.connectors.mongodb.write.ids import ID

_KEY_ID = "id"


def of_oplog(entry: Entry) -> Write | None:
    """Updates have a `patch`: the whole document, or the operators of an update."""
    return _of_mongodb(entry, _update_by_patch)


def of_change_stream(entry: Entry) -> Write | None:
    """Updates have the document in `after`."""
    return _of_mongodb(entry, _update_by_after)


def _of_mongodb(entry: Entry, update: Any) -> Write | None:
    if not entry.key:
        raise DataError("Key document must not be missing for CDC mode")
    value = entry.value or {}
    if _KEY_ID in entry.key and not value:
        return None  # a tombstone, for the compaction of the topic
    change = change_of(value)
    if change is None:
        return None
    if change.operation is Operation.DELETE:
        return Write(Kind.DELETE, _by_key(entry.key, "Delete"))
    if change.operation is Operation.UPDATE:
        return update(entry.key, value)  # type: ignore[no-any-return]
    document = _document(value, "after", "Insert")
    return Write(Kind.REPLACE, {ID: document.get(ID)}, document, upsert=True)


def _update_by_patch(key: Mapping[str, Any], value: Mapping[str, Any]) -> Write:
    update = _document(value, "patch", "Update")
    update.pop("$v", None)  # the oplog's own, since MongoDB 3.6
    if ID in update:
        return Write(Kind.REPLACE, {ID: update[ID]}, update, upsert=True)
    return Write(Kind.UPDATE, _by_key(key, "Update"), update)


def _update_by_after(key: Mapping[str, Any], value: Mapping[str, Any]) -> Write:
    document = _document(value, "after", "Update")
    return Write(Kind.REPLACE, _by_key(key, "Update"), document, upsert=True)


def _document(value: Mapping[str, Any], name: str, operation: str) -> Document:
    """A member that holds a document as text."""
    if name not in value:
        raise DataError(f"{operation} document missing `{name}` field.")
    text = value[name]
    if not isinstance(text, str):
        raise DataError(f"{operation} document: `{name}` is not a string with a document")
    try:
        return parse_document(text)
    except TextInvalid as error:
        raise DataError(f"{operation} document: `{name}` is not a document: {error}") from error


def _by_key(key: Mapping[str, Any], operation: str) -> Document:
    """The filter of a key, whose `id` is the document's as text."""
    if _KEY_ID not in key:
        raise DataError(f"{operation} document missing `{_KEY_ID}` field.")
    try:
        return parse_document(f"{{{ID}: {key[_KEY_ID]}}}")
    except TextInvalid as error:
        raise DataError(f"{operation} document: `{_KEY_ID}` is not a value: {error}") from error


def of_row(entry: Entry) -> Write | None:
    """The write of a relational database's row. Its key's columns are the `_id`, and not in the
    document; a row without a key is found by its whole previous state."""
    key, value = entry.key or {}, entry.value or {}
    if not value:
        return None  # a tombstone
    change = change_of(value)
    if change is None:
        return None
    query: Document
    if key:
        query = {ID: dict(key)}
    elif change.operation in (Operation.CREATE, Operation.READ):
        query = {ID: ObjectId()}
    elif isinstance(change.before, dict) and change.before:
        query = change.before
    else:
        raise DataError(
            "Value doc 'before' field is empty or has invalid type for update/delete operation; "
            "without a key the row cannot be identified"
        )
    if change.operation is Operation.DELETE:
        return Write(Kind.DELETE, query)
    after = change.after
    if not isinstance(after, dict) or not after:
        raise DataError(
            "Value document must contain non-empty 'after' field of type document for "
            "insert/update operation"
        )
    document = {ID: query[ID]} if ID in query else {}
    document.update((name, cell) for name, cell in after.items() if name not in key)
    return Write(Kind.REPLACE, query, document, upsert=True)
