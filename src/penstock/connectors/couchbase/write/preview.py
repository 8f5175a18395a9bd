"""A preview of the sink: a line for each call instead of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.store import Durability, PartChange, Stored
from penstock.connectors.couchbase.write.documents import dump


class PreviewStore:
    """A `Store` that changes nothing."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def upsert(
        self,
        keyspace: Keyspace,
        documents: Mapping[str, bytes],
        durability: Durability,
        expiry_ms: int,
    ) -> Mapping[str, Exception]:
        for id, content in documents.items():
            self._show(f"upsert {keyspace} {id} {content.decode()}")
        return {}

    def remove(
        self, keyspace: Keyspace, ids: Sequence[str], durability: Durability
    ) -> Mapping[str, Exception]:
        for id in ids:
            self._show(f"remove {keyspace} {id}")
        return {}

    def change(
        self,
        keyspace: Keyspace,
        id: str,
        change: PartChange,
        durability: Durability,
        expiry_ms: int,
    ) -> None:
        content = dump(change.value).decode()
        self._show(f"{change.kind.value.lower()} {keyspace} {id} {change.path} {content}")

    def get(self, keyspace: Keyspace, ids: Sequence[str]) -> Mapping[str, Stored | Exception]:
        return {}

    def query(
        self, statement: str, parameters: Mapping[str, Any], *, reads: bool, timeout_ms: int = 0
    ) -> list[dict[str, Any]]:
        self._show(f"{statement} {dump(dict(parameters)).decode()}")
        return []

    def collections(self, bucket: str) -> list[Keyspace]:
        return []

    def check(self, bucket: str, within_ms: int) -> None:
        """Checks nothing."""

    def close(self) -> None:
        """Has nothing to close."""
