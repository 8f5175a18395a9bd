"""The documents of one shard, page by page.

A round reads the documents up to a horizon, which is determined when it starts, within one point in
time. The next round starts after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from penstock.connectors.search.client.access import Client, path
from penstock.connectors.search.client.errors import Answered
from penstock.connectors.search.read.checkpoints import Checkpoints
from penstock.connectors.search.read.plan import ReadPlan
from penstock.connectors.search.read.points import Points
from penstock.connectors.search.read.positions import (
    Horizons,
    Position,
    Value,
    query_of,
    reached,
)
from penstock.connectors.search.read.shards import DATES, Shard, demand_sortable, kind_of

log = logging.getLogger(__name__)

_FIRST_ROWS: Final = 100
_PAGE_BYTES: Final = 1 << 20
_SAMPLES: Final = 8
_PATHS: Final = "pit_id,hits.hits._id,hits.hits._source,hits.hits.sort"


@dataclass(slots=True)
class Page:
    """Documents of a shard, as the cluster returns them. `size`: approximate bytes of one as JSON.
    `kind`: the type of the field they are sorted by."""

    shard: Shard
    hits: Sequence[dict[str, Any]]
    size: int
    kind: str | None


class ShardPages:
    """Reads one shard. One thread at a time may use it."""

    def __init__(
        self,
        plan: ReadPlan,
        client: Client,
        points: Points,
        checkpoints: Checkpoints,
        shard: Shard,
        position: Position | None,
        clock: Callable[[], int],
    ) -> None:
        self.shard = shard
        self.due = 0
        """When the next round starts; in ms of the clock."""
        self.is_gone = False
        """Whether the index was deleted or closed."""
        self._plan = plan
        self._client = client
        self._points = points
        self._checkpoints = checkpoints
        self._position = position
        self._clock = clock
        self._kind: str | None = None
        self._horizons = Horizons(plan.delay_ms)
        self._horizon: Value | None = None
        self._done: Value | None = None  # the horizon of the last round by writes
        self._point: str | None = None
        self._in_round = False
        self._rows = min(_FIRST_ROWS, plan.batch)

    def page(self) -> Page | None:
        """The next documents; None at the end of a round. Raises Unreachable, and Answered if the
        cluster refuses a request; the next call continues there."""
        try:
            if not self._in_round and not self._start():
                self._finish()
                return None
            hits = self._search()
        except Answered as error:
            if error.type not in ("index_not_found_exception", "index_closed_exception"):
                raise
            log.info("Index %s was deleted or closed: %s", self.shard.index, error)
            self.is_gone = True
            self._finish()
            return None
        if len(hits) < self._rows:
            self._finish()
        if not hits:
            return None
        self._position = reached(self._plan, hits[-1]["sort"])
        size = _size_of(hits)
        self._rows = max(1, min(_PAGE_BYTES // size, self._plan.batch))
        return Page(self.shard, hits, size, self._kind)

    def close(self) -> None:
        """Closes the point in time."""
        point, self._point = self._point, None
        if point is not None:
            self._points.close(point)

    def _start(self) -> bool:
        """Starts a round; False if there is nothing to read."""
        plan, shard = self._plan, self.shard
        now = self._clock()
        if plan.by_writes:
            self._horizon = self._horizons.see(self._checkpoints.of(shard, self.due, now), now)
            last = -1 if self._position is None else self._position.seq_no
            if self._done is not None:
                last = max(last, int(self._done))
            if self._horizon is None or self._horizon <= last:
                return False
        else:
            if self._kind is None:
                self._kind = kind_of(self._client, shard.index, plan.field)
            if self._kind is None:
                return False  # no document has the field
            demand_sortable(shard.index, plan.field, self._kind)
            if plan.delay_ms:
                if self._kind in DATES:
                    self._horizon = now - plan.delay_ms
                else:
                    self._horizon = self._horizons.see(self._highest(), now)
                    if self._horizon is None:
                        return False
        self._point = self._points.open(shard)
        self._in_round = True
        return True

    def _finish(self) -> None:
        if self._in_round and self._plan.by_writes:
            self._done = self._horizon
        self._in_round = False
        self.due = self._clock() + self._plan.poll_ms
        self.close()

    def _search(self) -> list[dict[str, Any]]:
        body = query_of(self._plan, self._kind, self._position, self._horizon)
        body["size"] = self._rows
        try:
            return self._hits(body)
        except Answered as error:
            if self._point is None or error.http_status != 404:
                raise
            # It has expired, or its node is gone.
            log.info("Opening a new point in time: %s", error)
            self._point = self._points.open(self.shard)
            return self._hits(body)

    def _hits(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        params = {"filter_path": _PATHS}
        if self._point is None:
            params["preference"] = f"_shards:{self.shard.number}"
            search_path = path(self.shard.index, "_search")
        else:
            body = {**body, "pit": self._points.within(self._point)}
            search_path = path("_search")
        answer = self._client.request("POST", search_path, body, params=params)
        if self._point is not None:
            self._point = answer.get("pit_id", self._point)
        hits: list[dict[str, Any]] = answer.get("hits", {}).get("hits", [])
        return hits

    def _highest(self) -> Value | None:
        """The highest value of the field."""
        body = {
            "size": 1,
            "sort": [{self._plan.field: "desc"}],
            "query": {"exists": {"field": self._plan.field}},
            "_source": False,
            "track_total_hits": False,
        }
        hits = self._hits(body)
        value: Value | None = hits[0]["sort"][0] if hits else None
        return value


def _size_of(hits: Sequence[dict[str, Any]]) -> int:
    """The approximate bytes of a document, from some of them."""
    samples = hits[:: max(1, len(hits) // _SAMPLES)]
    return max(1, len(orjson.dumps(samples)) // len(samples))
