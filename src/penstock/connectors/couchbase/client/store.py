"""The interface to a cluster: the few calls of the SDK that the connectors need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from penstock.connectors.couchbase.client.keyspace import Keyspace


class Change(Enum):
    """How the part of a document at a path changes."""

    UPSERT = "UPSERT"
    ARRAY_PREPEND = "ARRAY_PREPEND"
    ARRAY_APPEND = "ARRAY_APPEND"


@dataclass(frozen=True, slots=True)
class Durability:
    """When a write counts as done: a level of the server, or numbers of nodes that the client
    checks. Values have the names of the settings."""

    level: str = "NONE"
    persist_to: str = "NONE"
    replicate_to: str = "NONE"

    @property
    def is_default(self) -> bool:
        """Whether the memory of the active node is enough."""
        return (self.level, self.persist_to, self.replicate_to) == ("NONE",) * 3


@dataclass(frozen=True, slots=True)
class PartChange:
    """A change of a part of a document. `value` is any JSON value."""

    kind: Change
    path: str
    value: Any
    creates_path: bool = True
    creates_document: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document."""

    content: bytes
    cas: int
    flags: int


class Store(Protocol):
    """One connection to a cluster; threads may share it.

    Calls for several documents return the errors by id, as the SDK raised them; other calls raise
    the SDK's errors.
    """

    def upsert(
        self,
        keyspace: Keyspace,
        documents: Mapping[str, bytes],
        durability: Durability,
        expiry_ms: int,
    ) -> Mapping[str, Exception]:
        """Writes whole documents, JSON by id. They expire after `expiry_ms`; 0: never."""

    def remove(
        self, keyspace: Keyspace, ids: Sequence[str], durability: Durability
    ) -> Mapping[str, Exception]:
        """Deletes documents; a missing one is not an error."""

    def change(
        self,
        keyspace: Keyspace,
        id: str,
        change: PartChange,
        durability: Durability,
        expiry_ms: int,
    ) -> None:
        """Changes a part of a document."""

    def get(self, keyspace: Keyspace, ids: Sequence[str]) -> Mapping[str, Stored | Exception]:
        """Documents by id, without missing ones."""

    def query(
        self, statement: str, parameters: Mapping[str, Any], *, reads: bool, timeout_ms: int = 0
    ) -> list[dict[str, Any]]:
        """The rows of a SQL++ statement with named parameters. `reads`: it changes nothing, and
        sees all earlier writes. `timeout_ms` 0: the SDK's own timeout."""

    def collections(self, bucket: str) -> list[Keyspace]:
        """All collections of a bucket."""

    def check(self, bucket: str, within_ms: int) -> None:
        """Returns when the bucket can be used."""

    def close(self) -> None:
        """Ends the connection."""
