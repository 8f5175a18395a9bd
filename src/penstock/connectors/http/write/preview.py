"""The preview of requests."""

from __future__ import annotations

from collections.abc import Callable

from penstock.api import Failed, Records, SinkWriter
from penstock.connectors.http.write.plan import SinkPlan
from penstock.connectors.http.write.requests import prepare
from penstock.connectors.http.write.writer import rows_of

_SHOWN = 500


class PreviewWriter(SinkWriter):
    """Shows requests instead of sending them. Contacts no server, not even for tokens."""

    def __init__(self, plan: SinkPlan, show: Callable[[str], None]) -> None:
        self._plan = plan
        self._show = show

    def write(self, records: Records, failed: Failed) -> None:
        prepared = prepare(self._plan, list(rows_of(records)))
        failed.update(prepared.failed)
        for lane in prepared.lanes:
            for job in lane:
                request = job.request
                body = (request.body or b"").decode("utf-8", "replace")
                ellipsis = "…" if len(body) > _SHOWN else ""
                self._show(f"{request.method} {request.url} {body[:_SHOWN]}{ellipsis}".rstrip())
