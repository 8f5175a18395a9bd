"""Points in time: while a shard is read, every request sees the same documents."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from penstock.api import PenstockError
from penstock.connectors.search.client.access import Client, path
from penstock.connectors.search.client.errors import Answered
from penstock.connectors.search.read.shards import Shard

log = logging.getLogger(__name__)

_OLDEST: Final = (7, 10)
_OLDEST_OPENSEARCH: Final = (2, 4)
_UNAVAILABLE: Final = (400, 403, 404, 405)


class Points:
    """Opens and closes points in time, if the cluster and privileges allow it."""

    def __init__(self, client: Client, keep_alive_ms: int) -> None:
        self._client = client
        self._keep_alive = f"{keep_alive_ms}ms"
        self._has = keep_alive_ms > 0
        self._opensearch: bool | None = None
        self._lock = threading.Lock()

    def open(self, shard: Shard) -> str | None:
        """The id of a new point in time of a shard; None if they are not available. Raises
        Unreachable, and Answered with status 404 if the index is gone."""
        with self._lock:
            if self._has and self._opensearch is None:
                self._detect()
        if not self._has:
            return None
        params = {"keep_alive": self._keep_alive, "preference": f"_shards:{shard.number}"}
        point_path = path(shard.index, *self._endpoint())
        try:
            answer = self._client.request("POST", point_path, params=params)
        except Answered as error:
            if error.http_status not in _UNAVAILABLE or error.type == "index_not_found_exception":
                raise
            log.warning("Reading without points in time: %s", error)
            self._has = False
            return None
        return str(answer["pit_id" if self._opensearch else "id"])

    def within(self, point: str) -> Mapping[str, Any]:
        """The part of a request that names a point in time, and keeps it alive."""
        return {"id": point, "keep_alive": self._keep_alive}

    def close(self, point: str) -> None:
        """Closes a point in time; if that fails, it expires."""
        body = {"pit_id": [point]} if self._opensearch else {"id": point}
        with contextlib.suppress(PenstockError):
            self._client.request("DELETE", path(*self._endpoint()), body)

    def _endpoint(self) -> tuple[str, ...]:
        return ("_search", "point_in_time") if self._opensearch else ("_pit",)

    def _detect(self) -> None:
        """Detects the kind and version of the cluster."""
        try:
            version = self._client.request("GET", "/")["version"]
        except Answered:
            self._has = False  # the user may not see the version
            return
        self._opensearch = version.get("distribution") == "opensearch"
        parts = tuple(int(part) for part in version["number"].split(".")[:2])
        self._has = parts >= (_OLDEST_OPENSEARCH if self._opensearch else _OLDEST)
