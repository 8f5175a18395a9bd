"""What a sink task does, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.api import Failed, Records
from penstock.connectors.redis.write.cells import Charset
from penstock.connectors.redis.write.commands import Commands


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a pipeline holds, and what is asked of it: `transactions` has each one done as a
    whole, `replicas` have to have the writes within `replicas_ms`."""

    records: int
    bytes: int
    transactions: bool = False
    replicas: int = 0
    replicas_ms: int = 1_000


class Kind(Enum):
    """What records become."""

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
    """Each record is one command. `keyspace` is the key of collections, and what other keys begin
    with; empty: keys are the records' own, which have to be texts or bytes. `plain`: keys must not
    be empty (jcustenborder's)."""

    kind: Kind
    charset: Charset
    keyspace: str = ""
    separator: str = ":"
    ttl_s: int = -1
    plain: bool = False


class Maker(Protocol):
    """Makes commands of records."""

    def make(self, records: Records, failed: Failed) -> Commands:
        """The commands, in the order of the records; those that have none are in `failed`, or are
        left out on purpose."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What the writer needs to know beside how commands are made. `offsets`: what the keys of
    offsets begin with; empty: none are stored. `drops_refused`: records that the server refuses
    are logged and left out."""

    maker: Maker
    limits: Limits
    offsets: str = ""
    drops_refused: bool = False
    backoff_ms: int = 50
    busy_attempts: int = 6
