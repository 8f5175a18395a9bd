"""How far the writes of shards are complete.

Writes of a shard are numbered before they are done, and done by several threads: one may be there
before one with a lower number. Up to the global checkpoint all are done, in every copy of the
shard, and after a refresh searches find them.
"""

from __future__ import annotations

import threading

from penstock.api import PenstockError
from penstock.connectors.search.client.access import Client, path
from penstock.connectors.search.client.errors import Answered
from penstock.connectors.search.read.shards import Shard

_PATHS = "indices.*.shards.*.routing.primary,indices.*.shards.*.seq_no.global_checkpoint"


class Checkpoints:
    """The global checkpoints of shards: one request for all of an index. May be used by several
    threads."""

    def __init__(self, client: Client, *, refreshes: bool) -> None:
        self._client = client
        self._refreshes = refreshes
        self._lock = threading.Lock()
        self._found: dict[str, tuple[int, dict[int, int]]] = {}

    def of(self, shard: Shard, since: int, now: int) -> int | None:
        """The number up to which the writes of a shard are complete and can be found, as it was at
        `since` or later; None where its primary is not there."""
        with self._lock:
            asked, known = self._found.get(shard.index, (-1, {}))
            if asked < since:
                found = self._ask(shard.index)
                if found != known and self._refreshes:
                    self._refresh(shard.index)
                known = found
                self._found[shard.index] = now, known
        return known.get(shard.number)

    def _ask(self, index: str) -> dict[int, int]:
        params = {"level": "shards", "filter_path": _PATHS}
        answer = self._client.request("GET", path(index, "_stats"), params=params)
        numbers: dict[int, int] = {}
        for about in answer.get("indices", {}).values():
            for number, copies in about["shards"].items():
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
                "delay.ms to more than the index's refresh_interval"
            ) from error
