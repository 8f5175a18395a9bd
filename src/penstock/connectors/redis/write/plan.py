"""The plan of a sink task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from penstock.api import Backoff, Failed, Jitter, Records
from penstock.connectors.redis.write.cells import Charset
from penstock.connectors.redis.write.commands import Commands

_BUSY: Final = Backoff(50, 2_000, jitter=Jitter.HALF)


@dataclass(frozen=True, slots=True)
class Limits:
    """The size limits of a pipeline, and its guarantees. `transactions`: each is atomic;
    `replicas`: how many must have writes within `replicas_ms`."""

    records: int
    bytes: int
    transactions: bool = False
    replicas: int = 0
    replicas_ms: int = 1_000


class Kind(Enum):
    """The structure that records are written to."""

    STRING = "STRING"
    HASH = "HASH"
    JSON = "JSON"
    STREAM = "STREAM"
    LIST = "LIST"
    LIST_HEAD = "LIST_HEAD"
    SET = "SET"
    ZSET = "ZSET"
    TIMESERIES = "TIMESERIES"
    DELETE = "DELETE"

    @property
    def is_collection(self) -> bool:
        """Whether the records of a topic share one key."""
        return self in _COLLECTIONS


_COLLECTIONS = frozenset(
    {Kind.STREAM, Kind.LIST, Kind.LIST_HEAD, Kind.SET, Kind.ZSET, Kind.TIMESERIES}
)


@dataclass(frozen=True, slots=True)
class KeyedPlan:
    """One command per record. `keyspace`: the key of collections, and the prefix of other keys;
    empty: the records' own keys, which must be strings or bytes. `plain`: keys must not be empty
    (jcustenborder's)."""

    kind: Kind
    charset: Charset
    keyspace: str = ""
    separator: str = ":"
    ttl_s: int = -1
    plain: bool = False


class Maker(Protocol):
    """Makes the commands for records."""

    def make(self, records: Records, failed: Failed) -> Commands:
        """The commands, in the order of the records. Records without one are in `failed` or
        skipped."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The plan of the writer. `offsets`: the prefix of keys of offsets; empty: store none.
    `drops_refused`: log and skip records that the server refuses."""

    maker: Maker
    limits: Limits
    offsets: str = ""
    drops_refused: bool = False
    busy_backoff: Backoff = _BUSY
    busy_attempts: int = 6
