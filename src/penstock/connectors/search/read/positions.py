"""Positions in shards, and the requests for the documents after them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import PenstockError, Primitive
from penstock.connectors.search.read.plan import SEQ_NO, ReadPlan
from penstock.connectors.search.read.shards import DATES, INTEGERS, Shard

UUID: Final = "uuid"
FIELD: Final = "field"
VALUE: Final = "value"
NUMBER: Final = "seq_no"
_NANOS_PER_MS: Final = 1_000_000

Value = int | float


@dataclass(frozen=True, slots=True)
class Position:
    """The last document read: the value of the field that documents are sorted by (None if that is
    `_seq_no` itself), and its `_seq_no`."""

    value: Value | None
    seq_no: int


def offset_of(plan: ReadPlan, shard: Shard, position: Position) -> dict[str, Primitive]:
    """The offset of a position."""
    offset: dict[str, Primitive] = {UUID: shard.uuid, NUMBER: position.seq_no}
    if position.value is not None:
        offset |= {FIELD: plan.field, VALUE: position.value}
    return offset


def position_of(
    plan: ReadPlan, shard: Shard, offset: Mapping[str, Primitive] | None
) -> Position | None:
    """The position of a stored offset. None if the shard is read from its beginning: without an
    offset, or with one of a deleted index or of another field. Raises PenstockError."""
    if offset is None:
        return None
    check_offset(offset)
    if offset.get(UUID, shard.uuid) != shard.uuid or offset.get(FIELD, SEQ_NO) != plan.field:
        return None
    value = offset.get(VALUE)
    assert not isinstance(value, str), "checked before"
    return Position(value, int(offset[NUMBER]))  # type: ignore[arg-type] # it is checked


def check_offset(offset: Mapping[str, Primitive]) -> None:
    """Raises PenstockError unless this is an offset of a shard."""
    number = offset.get(NUMBER)
    if isinstance(number, bool) or not isinstance(number, int):
        raise PenstockError(f"Offset objects should have an integer '{NUMBER}'")
    value = offset.get(VALUE)
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise PenstockError(f"Offset objects should have a number '{VALUE}'")
    if (value is None) != (offset.get(FIELD, SEQ_NO) == SEQ_NO):
        raise PenstockError(f"Offset objects should have both '{FIELD}' and '{VALUE}', or neither")


def query_of(
    plan: ReadPlan, kind: str | None, position: Position | None, horizon: Value | None
) -> dict[str, Any]:
    """The request for the documents after a position and up to a horizon, all but its size. `kind`:
    the field's type. The horizon of a date is in ms."""
    bounds: dict[str, Any] = {}
    body: dict[str, Any] = {"track_total_hits": False}
    if plan.by_writes:
        body["sort"] = [{SEQ_NO: "asc"}]
        if position is not None:
            bounds["gt"] = position.seq_no
    else:
        body["sort"] = [{plan.field: "asc"}, {SEQ_NO: "asc"}]
        if position is not None:
            body["search_after"] = [position.value, position.seq_no]
            if kind in INTEGERS or kind in DATES:
                bounds["gte"] = in_ms(kind, position.value) if kind in DATES else position.value
    if horizon is not None:
        bounds["lte"] = horizon
    if bounds and kind in DATES:
        bounds["format"] = "epoch_millis"
    # Documents without the field have no position.
    filters: list[Any] = [
        {"range": {plan.field: bounds}} if bounds else {"exists": {"field": plan.field}}
    ]
    if plan.by_writes and not bounds:
        filters = []
    if plan.query is not None:
        filters.append(plan.query)
    body["query"] = {"bool": {"filter": filters}}
    if plan.source:
        body["_source"] = list(plan.source)
    return body


def in_ms(kind: str | None, value: Value | None) -> int:
    """The value of a date field that documents are sorted by, in ms."""
    return int(value or 0) // (_NANOS_PER_MS if kind == "date_nanos" else 1)


def reached(plan: ReadPlan, sort: list[Any]) -> Position:
    """The position of a document, from its sort values."""
    return Position(None, sort[0]) if plan.by_writes else Position(sort[0], sort[1])


class Horizons:
    """The highest value that existed `delay_ms` ago: lower ones have arrived by now, or are late.

    >>> horizons = Horizons(100)
    >>> horizons.see(7, 0), horizons.see(9, 50)
    (None, None)
    >>> horizons.see(9, 120), horizons.see(9, 200)
    (7, 9)
    """

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = delay_ms
        self._seen: deque[tuple[int, Value]] = deque()
        self._ripe: Value | None = None

    def see(self, value: Value | None, now: int) -> Value | None:
        """The horizon, given the highest value now."""
        if value is not None:
            self._seen.append((now, value))
        while self._seen and self._seen[0][0] + self._delay_ms <= now:
            _, self._ripe = self._seen.popleft()
        return self._ripe
