"""What a configuration says of polls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from penstock.connectors.http.pointers import Pointer
from penstock.connectors.http.read.freemarker import OffsetTemplate


class Direction(Enum):
    """How a list is ordered by time."""

    ASC = "asc"
    DESC = "desc"
    IMPLICIT = "implicit"


class Filter(Enum):
    """Which records are new: those that are later than the offset and those that follow the last
    one in the list; those that are later; all."""

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
    """The pages of an answer. `pointer` is where a body has the next URL or the cursor,
    `parameter` what the cursor or the number of the page is called in the query."""

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
    """The records of an answer."""

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
    """What is polled, how often (ms), and what becomes of it."""

    topic: str
    request: RequestPlan
    records: ListPlan
    pages: Pages
    initial: Mapping[str, str]
    interval_ms: int
    catchup_ms: int
    process: frozenset[int]
    skip: frozenset[int]
    structs: bool = True  # whether keys and values are castorm's structs; if not, texts
    per_second: float = 0.0  # the most requests in a second; 0: any number
    backoff_ms: int = 1_000
