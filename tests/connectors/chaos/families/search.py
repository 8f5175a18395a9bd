"""The OpenSearch sink under chaos."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import httpx

from penstock.testing.search import SearchServer
from penstock.testing.waiting import wait_until

from .base import JSON, Family


class Search(Family):
    """Documents by key in OpenSearch; a block on the index refuses each item of a request."""

    reports = False
    blocks = retries = True

    def __init__(self) -> None:
        self._server = SearchServer("opensearch")
        self._server.start()
        self._index = ""

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        self._index = topic
        self._server.request("PUT", f"/{topic}")

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
            "connection.url": f"http://127.0.0.1:{port}",
            "key.ignore": "false",
            "schema.ignore": "true",
            "behavior.on.null.values": "delete",
            # Records that are delivered again are older than what is stored.
            "behavior.on.version.conflict": "ignore",
            "max.retries": "3",
            "retry.backoff.ms": "200",
            "batch.size": "100",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        }

    def refuse(self, keys: Iterable[str]) -> None:
        self._block(True)

    def mend(self) -> None:
        self._block(False)

    def _block(self, wanted: bool) -> None:
        self._server.request("PUT", f"/{self._index}/_settings", {"index.blocks.write": wanted})

    def stored(self) -> Iterable[tuple[str, int]]:
        self._server.request("POST", f"/{self._index}/_refresh")
        query: dict[str, Any] = {"size": 5_000, "sort": [{"n": "asc"}]}
        while hits := self._server.request("POST", f"/{self._index}/_search", query)["hits"][
            "hits"
        ]:
            for hit in hits:
                yield hit["_id"], int(hit["_source"]["n"])
            query["search_after"] = hits[-1]["sort"]

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

        def serves() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return self._server.count(self._index) >= 0
            return False

        wait_until(serves, 60, "the index to be served")

    def close(self) -> None:
        self._server.close()
