"""A preview of the sink: a line for each write."""

from __future__ import annotations

from collections.abc import Callable

from bson import json_util

from penstock.api import Failed, Records, SinkWriter
from penstock.connectors.mongodb.write.entry import Kind
from penstock.connectors.mongodb.write.jobs import jobs_of
from penstock.connectors.mongodb.write.plan import Plan


class PreviewWriter(SinkWriter):
    """Connects to nothing."""

    def __init__(self, plan_of: Callable[[str], Plan], show: Callable[[str], None]) -> None:
        self._plan_of = plan_of
        self._show = show

    def write(self, records: Records, failed: Failed) -> None:
        for job in jobs_of(records, self._plan_of, failed):
            for write in job.writes:
                parts = [f"{write.kind.value} {job.namespace}"]
                parts += [json_util.dumps(write.filter)] if write.kind is not Kind.INSERT else []
                parts += [json_util.dumps(write.document)] if write.document is not None else []
                self._show(" ".join(parts))
