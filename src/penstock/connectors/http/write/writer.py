"""The writer of a sink task."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import repeat, starmap

from penstock.api import Batching, DataError, Failed, Records, SinkContext, SinkWriter
from penstock.connectors.common.loops import Loop
from penstock.connectors.http.client.access import Client, ClientOptions
from penstock.connectors.http.client.auth import Auth
from penstock.connectors.http.client.messages import Request
from penstock.connectors.http.templates import Row
from penstock.connectors.http.write.plan import Behavior, Nulls, SinkPlan
from penstock.connectors.http.write.reports import Reporter
from penstock.connectors.http.write.requests import prepare
from penstock.connectors.http.write.sending import Outcome, Sender

log = logging.getLogger(__name__)

_AT_ONCE = 4_000
_NOTHING = Request("", "")


class HttpWriter(SinkWriter):
    """Sends records as requests. `write` returns when each record has a response; after an error
    the next call continues with the records without one."""

    def __init__(
        self,
        plan: SinkPlan,
        options: ClientOptions,
        auth: Auth | None,
        context: SinkContext,
        reporter: Reporter | None = None,
    ) -> None:
        most = _AT_ONCE if plan.batch is None else max(_AT_ONCE, plan.batch.max_records)
        self.batching = Batching(records=most, linger_ms=plan.linger_ms, by_partition=False)
        self._plan = plan
        self._reporter = reporter
        self._done: set[tuple[str, int, int]] = set()
        self._refused: dict[tuple[str, int, int], Exception] = {}
        # At the first refused record, as the task fails and its batch is sent again.
        self._stops = plan.behavior is Behavior.FAIL and not context.tolerates_errors
        self._loop = Loop(f"http-{context.task}")
        self._client = Client(options, auth)
        self._sender = Sender(
            plan,
            self._client,
            context,
            gives_up=plan.behavior is not Behavior.FAIL,
            stops=self._stops,
        )

    def write(self, records: Records, failed: Failed) -> None:
        rows = dict(rows_of(records))
        if self._done:
            rows = {number: row for number, row in rows.items() if _position(row) not in self._done}
        prepared = prepare(self._plan, list(rows.items()))
        if self._stops and prepared.failed:
            first = min(prepared.failed)
            error = prepared.failed[first]
            before = [(number, row) for number, row in rows.items() if number < first]
            prepared = prepare(self._plan, before)
            prepared.failed[first] = error
        for number in prepared.left_out:
            if self._plan.nulls is Nulls.LOG:
                row = rows[number]
                log.warning(
                    "Skipping a record without a value: topic %s, partition %d, offset %d",
                    row.topic,
                    row.partition,
                    row.offset,
                )
        for number, error in prepared.failed.items():
            self._refuse(rows[number], error)
        outcome = self._loop.run(self._sender.send(prepared.lanes))
        self._settle(rows, outcome)
        if outcome.error is not None:
            raise outcome.error
        if self._refused:
            for number, row in rows_of(records):
                if (refusal := self._refused.get(_position(row))) is not None:
                    failed[number] = refusal
        self._done.clear()
        self._refused.clear()

    def flush(self) -> None:
        if self._reporter is not None:
            self._reporter.flush()

    def close(self) -> None:
        if self._reporter is not None:
            self._reporter.close()
        self._loop.run(self._client.close())
        self._loop.close()

    def _settle(self, rows: dict[int, Row], outcome: Outcome) -> None:
        """Remembers and reports the settled records of an unfinished batch."""
        reporter = self._reporter
        if outcome.error is not None or reporter is not None:
            for job, answer in outcome.taken:
                for number in job.rows:
                    self._done.add(_position(rows[number]))
                    if reporter is not None:
                        reporter.taken(rows[number], job.request, answer)
        for job, response, error in outcome.refused:
            for number in job.rows:
                row = rows[number]
                self._done.add(_position(row))
                if reporter is not None:
                    reporter.refused(row, job.request, response, error)
                self._note_refusal(row, error)

    def _refuse(self, row: Row, error: DataError) -> None:
        """Refuses a record that cannot become a request."""
        self._done.add(_position(row))
        if self._reporter is not None:
            self._reporter.refused(row, _NOTHING, None, error)
        self._note_refusal(row, error)

    def _note_refusal(self, row: Row, error: Exception) -> None:
        behavior = self._plan.behavior
        if behavior is Behavior.FAIL:
            self._refused[_position(row)] = error
        elif behavior is Behavior.LOG:
            log.error(
                "Skipping a record: topic %s, partition %d, offset %d: %s",
                row.topic,
                row.partition,
                row.offset,
                error,
            )


def _position(row: Row) -> tuple[str, int, int]:
    return row.topic, row.partition or 0, row.offset


def rows_of(records: Records) -> Iterator[tuple[int, Row]]:
    """The records as rows for templates, numbered."""
    headers = records.headers or repeat(())
    columns = zip(
        records.topics,
        records.partitions,
        records.offsets,
        records.timestamps,
        records.keys.values,
        records.keys.schemas(),
        records.values.values,
        records.values.schemas(),
        headers,
        strict=False,  # headers may be missing
    )
    return enumerate(starmap(Row, columns))
