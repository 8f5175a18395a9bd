"""The plan of a polling source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from penstock.connectors.http.pointers import Pointer
from penstock.connectors.http.read.freemarker import OffsetTemplate


class Direction(Enum):
    """The order of a list by time."""

    ASC = "asc"
    DESC = "desc"
    IMPLICIT = "implicit"


class Filter(Enum):
    """Which records are new: those later than the offset or after the last one in the list; those
    later than the offset; all."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    NONE = "none"


class Paging(Enum):
    """How the next page is found."""

    NONE = "none"
    LINK = "link"
    NEXT = "next"
    CURSOR = "cursor"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a response. `pointer`: the next URL or the cursor in a body; `parameter`: the
    query parameter for the cursor or the page number."""

    kind: Paging = Paging.NONE
    pointer: Pointer | None = None
    parameter: str = "page"
    first: int = 1
    most: int = 1_000


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The request of a poll."""

    method: str
    url: OffsetTemplate
    headers: OffsetTemplate
    params: OffsetTemplate
    body: OffsetTemplate
    conditional: bool = True


@dataclass(frozen=True, slots=True)
class ListPlan:
    """The records of a response."""

    items: Pointer
    record: Pointer
    keys: tuple[Pointer, ...] = ()
    timestamp: Pointer | None = None
    offsets: Mapping[str, Pointer] = field(default_factory=dict)
    parse_time: Callable[[str], datetime] = datetime.fromisoformat
    direction: Direction = Direction.IMPLICIT
    filter: Filter = Filter.OFFSET


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The requests, their intervals (ms), and the records made of responses."""

    topic: str
    request: RequestPlan
    records: ListPlan
    pages: Pages
    initial: Mapping[str, str]
    interval_ms: int
    catchup_ms: int
    process: frozenset[int]
    skip: frozenset[int]
    structs: bool = True  # keys and values are castorm's structs; else strings
    per_second: float = 0.0  # the most requests per second; 0: no limit
    backoff_ms: int = 1_000
