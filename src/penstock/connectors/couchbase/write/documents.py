"""Records as documents with ids.

A document is what the JsonConverter writes for a value without its schema: Decimals and bytes are
base64, dates and times numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from penstock.api import DataError
from penstock.api.schema import Schema, Type, Value, decimal_text, double_text, float_text
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.settings.sink import SinkPlan
from penstock.connectors.keyed.documents import dump, node_writer

__all__ = ["Document", "TopicDocuments", "dump", "key_id"]


@dataclass(frozen=True, slots=True)
class Document:
    """The write of a record; `content` is any JSON value."""

    row: int
    keyspace: Keyspace
    id: str
    content: Any
    deletes: bool
    expiry_ms: int
    falls_back: bool = False  # a placeholder of the id's format has no value


class TopicDocuments:
    """Makes the documents of a topic's records."""

    def __init__(self, plan: SinkPlan, topic: str) -> None:
        self._topic = topic
        self._keyspace = plan.collections.of(topic)
        self._format = plan.ids.of(topic)
        self._removes = plan.removes_ids.of(topic)
        self._expiry_ms = plan.expiry_ms.of(topic)

    def nodes(self, schema: Schema | None) -> Callable[[Value], Any]:
        """The function that converts a schema's values into contents."""
        return node_writer(schema, mapped=False, compact=True)

    def document(
        self,
        row: int,
        key_schema: Schema | None,
        key: Value,
        value: Value,
        node: Callable[[Value], Any],
        partition: int,
        offset: int,
    ) -> Document:
        """The document of a record; a null value deletes it. Raises DataError."""
        content, id, falls_back = None, None, False
        if value is not None:
            content = node(value)
            if self._format:
                id = self._format.filled(content)
                falls_back = id is None
                if id is not None and self._removes:
                    content = self._format.stripped(content)
        if id is None:
            id = key_id(key_schema, key)
        if id is None:
            id = f"{self._topic}/{partition}/{offset}"
        if not id:
            raise DataError("The id of the document is empty (couchbase.document.id)")
        return Document(
            row, self._keyspace, id, content, value is None, self._expiry_ms, falls_back
        )


def key_id(schema: Schema | None, key: Value) -> str | None:
    """A key as an id: texts, numbers, booleans, bytes (UTF-8); None for other keys.

    >>> key_id(None, 1.0), key_id(None, True), key_id(None, {"a": 1})
    ('1.0', 'true', None)
    """
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int():
            return str(key)
        case float():
            is_single = schema is not None and schema.type is Type.FLOAT32
            return float_text(key) if is_single else double_text(key)
        case Decimal():
            return decimal_text(key)
        case bytes():
            return key.decode(errors="replace")
    return None
