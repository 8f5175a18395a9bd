"""The numbers up to which the writes of shards are complete.

A shard numbers writes before several threads execute them: a write may be stored before one with a
lower number. Up to the global checkpoint, all are done in every copy of the shard; searches find
them after a refresh.
"""

from __future__ import annotations

import threading

from penstock.api import PenstockError
from penstock.connectors.search.client.access import Client, path
from penstock.connectors.search.client.errors import Answered
from penstock.connectors.search.read.shards import Shard

_PATHS = "indices.*.shards.*.routing.primary,indices.*.shards.*.seq_no.global_checkpoint"


class Checkpoints:
    """The global checkpoints of shards: one request for all of an index. Several threads may use
    it."""

    def __init__(self, client: Client, *, refreshes: bool) -> None:
        self._client = client
        self._refreshes = refreshes
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[int, dict[int, int]]] = {}

    def of(self, shard: Shard, since: int, now: int) -> int | None:
        """The number up to which the writes of a shard are complete and searchable, at `since` or
        later; None if its primary is not available."""
        with self._lock:
            fetched_at, known = self._cache.get(shard.index, (-1, {}))
            if fetched_at < since:
                current = self._fetch(shard.index)
                if current != known and self._refreshes:
                    self._refresh(shard.index)
                known = current
                self._cache[shard.index] = now, known
        return known.get(shard.number)

    def _fetch(self, index: str) -> dict[int, int]:
        params = {"level": "shards", "filter_path": _PATHS}
        answer = self._client.request("GET", path(index, "_stats"), params=params)
        numbers: dict[int, int] = {}
        for stats in answer.get("indices", {}).values():
            for number, copies in stats["shards"].items():
                for copy in copies:
                    if copy["routing"]["primary"] and "seq_no" in copy:
                        numbers[int(number)] = copy["seq_no"]["global_checkpoint"]
        return numbers

    def _refresh(self, index: str) -> None:
        try:
            self._client.request("POST", path(index, "_refresh"))
        except Answered as error:
            if error.http_status != 403:
                raise
            raise PenstockError(
                f"The user may not refresh index '{index}': {error}. Set refresh=false, and "
                "delay.ms longer than the index's refresh_interval"
            ) from error
