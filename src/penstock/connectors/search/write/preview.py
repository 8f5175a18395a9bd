"""A preview of the sink: a client that reports requests instead of sending them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from penstock.connectors.search.client.access import Client


class PreviewClient(Client):
    """Reports a line for each request that creates something, and for each action of a bulk
    request: as the cluster gets it, with the document after it. It assumes that no indices or
    mappings exist, so all are created."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.place = "nowhere"
        self._show = show

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        if method != "GET":
            text = "" if body is None else f" {orjson.dumps(body).decode()}"
            self._show(f"{method} {path}{text}")
        return {}

    def bulk(self, body: bytes) -> Any:
        lines = iter(body.decode().splitlines())
        for action in lines:
            # Deletions have no document.
            document = "" if action.startswith('{"delete":') else f" {next(lines)}"
            self._show(f"{action}{document}")
        return {"errors": False, "items": []}

    def exists(self, path: str) -> bool:
        return False

    def close(self) -> None:
        return None
