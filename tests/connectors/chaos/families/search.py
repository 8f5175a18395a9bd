"""The sinks to OpenSearch and Elasticsearch under chaos."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import httpx

from penstock.testing.waiting import wait_until
from tests.servers.search import SearchServer

from .base import JSON, Family, Marking


class _Search(Family):
    """Documents by key, in an index of the topic's name."""

    def __init__(self, product: str) -> None:
        super().__init__()
        self._server = SearchServer(product)
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
            "connection.url": f"http://127.0.0.1:{port}",
            "key.ignore": "false",
            "schema.ignore": "true",
            "behavior.on.null.values": "delete",
            "max.retries": "3",
            "retry.backoff.ms": "200",
            "batch.size": "100",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        }

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


class OpenSearch(_Search):
    """OpenSearch; a block on the index refuses each item of a request."""

    reports = False
    blocks = retries = True

    def __init__(self) -> None:
        super().__init__("opensearch")

    def config(self, topic: str, port: int) -> dict[str, str]:
        connector = "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector"
        return {**super().config(topic, port), "connector.class": connector}

    def refuse(self, keys: Iterable[str]) -> None:
        self._block(True)

    def mend(self) -> None:
        self._block(False)

    def _block(self, wanted: bool) -> None:
        self._server.request("PUT", f"/{self._index}/_settings", {"index.blocks.write": wanted})


class Elasticsearch(Marking, _Search):
    """Elasticsearch 7; the mapping refuses marks that are no numbers."""

    def __init__(self) -> None:
        Marking.__init__(self)
        _Search.__init__(self, "elasticsearch")

    def prepare(self, topic: str) -> None:
        super().prepare(topic)
        self._map(ignore_malformed=True)

    def config(self, topic: str, port: int) -> dict[str, str]:
        connector = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"
        return {**super().config(topic, port), "connector.class": connector}

    def own_mark(self, key: str, number: int) -> int:
        return number

    def mark(self, key: str, number: int) -> str:
        return "refused"

    def refuse_marks(self, keys: Iterable[str]) -> None:
        self._map(ignore_malformed=False)

    def accept_marks(self) -> None:
        self._map(ignore_malformed=True)

    def _map(self, *, ignore_malformed: bool) -> None:
        mark = {"type": "long", "ignore_malformed": ignore_malformed}
        self._server.request("PUT", f"/{self._index}/_mapping", {"properties": {"mark": mark}})
