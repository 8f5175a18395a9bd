"""A record on its way into a collection: its documents, converted when they are needed, and its
write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.api.schema import Schema
from penstock.connectors.mongodb.write.documents import Document, key_document


class Entry:
    """One record. It owns its documents; steps change them in place."""

    __slots__ = (
        "_key",
        "_raw_key",
        "java_order",
        "key_schema",
        "offset",
        "partition",
        "row",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        row: int,
        value: Document | None,
        raw_key: Any = None,
        key_schema: Schema | None = None,
        topic: str = "",
        partition: int | None = None,
        offset: int = 0,
        timestamp: int | None = None,
        *,
        java_order: bool = False,
    ) -> None:
        self.row = row
        self.value = value
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key_schema = key_schema
        self.java_order = java_order  # the value is a map without a schema: HashMap's order counts
        self._raw_key = raw_key
        self._key: Document | None = None

    @property
    def key(self) -> Document | None:
        """The key's document, or None if the record has no key. Raises DataError for a key that is
        not a document (a plain text, say), which matters only where the key is used."""
        if self._key is None and self._raw_key is not None:
            self._key = key_document(self.key_schema, self._raw_key)
        return self._key

    @property
    def has_key(self) -> bool:
        """Whether the record has a key, a document or not."""
        return self._raw_key is not None


class Kind(Enum):
    """What a write does with the document that its filter matches."""

    INSERT = "insert"
    REPLACE = "replace"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(slots=True)
class Write:
    """One write. `filter` matches the document (empty for inserts), `document` is the new one, or
    the update; `upsert`: it is inserted if none matches."""

    kind: Kind
    filter: Document
    document: Document | None = None
    upsert: bool = False
