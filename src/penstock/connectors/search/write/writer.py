"""Writes the records of one sink task as documents.

`write` turns records into requests and returns; a few threads send them. `flush` waits until the
cluster has accepted or refused every action, so offsets are committed only of these. Documents
whose ids are keys have their records' offsets as versions: writes that are repeated or reordered
change nothing. Updates have no versions: those of one id run in order.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote

import orjson

from penstock.api import (
    Batching,
    DataError,
    Failed,
    PenstockError,
    Records,
    SinkContext,
    SinkWriter,
    TopicPartition,
    Unavailable,
)
from penstock.api.schema import Schema
from penstock.connectors.keyed.fatal import FatalError
from penstock.connectors.search.client.access import Client
from penstock.connectors.search.client.errors import Answered, Refused, WriteFailed
from penstock.connectors.search.write.actions import Action, MalformedId, TopicActions
from penstock.connectors.search.write.bulk import Coming, Refusal, Request, Sender, cut
from penstock.connectors.search.write.conflicts import Conflict, Conflicts
from penstock.connectors.search.write.indices import Indices
from penstock.connectors.search.write.plan import Nulls, Refusals, SinkPlan, shared_resource

log = logging.getLogger(__name__)

_IDLE_MS: Final = 1_000
_VERSIONS: Final = re.compile(r"current version \[(\d+)\].*provided \[(\d+)\]")


class SearchWriter(SinkWriter):
    """Writes a task's records into indices and data streams."""

    idle_ms = _IDLE_MS

    def __init__(
        self,
        plan: SinkPlan,
        client: Client,
        context: SinkContext,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.batching = Batching(plan.batch, plan.linger_ms, by_partition=False)
        self._plan = plan
        self._client = client
        self._context = context
        self._clock = clock
        self._stopped = threading.Event()
        self._indices = Indices(plan, client)
        self._sender = Sender(client, plan.retries, plan.backoff_ms, self._stopped)
        self._pool = ThreadPoolExecutor(plan.in_flight, thread_name_prefix="search")
        self._pending: deque[Request] = deque()
        self._topics: dict[str, TopicActions] = {}
        self._keyed: dict[str, str] = {}  # topics whose keys are ids, by index or data stream
        self._dropped: set[int] = set()  # rows of the current batch
        self._fatal = FatalError()
        self._outdated: Counter[str] = Counter()  # records by topic, since the last flush
        self._conflicts = Conflicts()
        self._leaving: frozenset[TopicPartition] = frozenset()

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        with self._fatal.kept():
            self._write(records, failed)

    def _write(self, records: Records, failed: Failed) -> None:
        # Errors of the cluster are raised before a record is accepted.
        self._repeat_failed()
        self._wait(max(self._plan.buffered - len(records), 0))
        self._dropped = set()
        self._prepare(records, failed)
        all_actions = self._actions(records, failed)
        if self._conflicts:
            self._conflicts.follow(records, all_actions)
            self._report_decided()
        for actions in cut(all_actions, self._plan.batch, self._plan.batch_bytes):
            request = Request(records, actions, self._predecessors(actions))
            self._pending.append(request)
            self._pool.submit(request.run, self._sender.send)

    def idle(self) -> None:
        with self._fatal.kept():
            while self._pending and self._pending[0].done.is_set() and not self._pending[0].error:
                self._report_refusals(self._pending[0])
                self._pending.popleft()
            self._conflicts.tick()
            self._report_decided()

    def flush(self) -> None:
        with self._fatal.kept():
            self._repeat_failed()
            self._wait(0)
            self._report_decided()
        for topic, records in self._outdated.items():
            log.warning(
                "Ignored %d records of topic %s: the index has later versions of their documents. "
                "They come from later offsets, or, if the topic was created again or its offsets "
                "were reset after that, from an earlier life of it; then delete the documents, or "
                "set external.version.header",
                records,
                topic,
            )
        self._outdated.clear()

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._fatal.check()
        committed = self._conflicts.held(reached)
        self._conflicts.forget(self._leaving)
        self._leaving = frozenset()
        return committed

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        if not lost:
            self._leaving = partitions
            return
        self._conflicts.forget(partitions)
        # Their next owner rewrites them.
        for request in self._pending:
            request.done.wait()
            request.refusals = [
                refusal
                for refusal in request.refusals
                if request.records.original(refusal.action.row) not in partitions
            ]
            if request.error is not None:
                request.actions = [
                    action
                    for action in request.actions
                    if request.records.original(action.row) not in partitions
                ]

    def close(self) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def _prepare(self, records: Records, failed: Failed) -> None:
        """Creates missing indices and mappings."""
        plan = self._plan
        ready: dict[str, set[Schema | None]] = {}
        topics, values = records.topics, records.values.values
        for schema, start, stop in records.values.slices():
            for row in range(start, stop):
                topic = topics[row]
                if (values[row] is None and plan.nulls is not Nulls.DELETE) or schema in ready.get(
                    topic, ()
                ):
                    continue
                resource = self._resource(topic)
                self._indices.make(resource)
                if values[row] is None:
                    continue
                ready.setdefault(topic, set()).add(schema)
                if plan.maps(topic):
                    try:
                        self._indices.map(resource, schema)
                    except DataError as error:
                        for other_row in range(start, stop):
                            if topics[other_row] == topic and values[other_row] is not None:
                                self._refuse(other_row, error, failed)

    def _resource(self, topic: str) -> str:
        resource = self._plan.resource(topic)
        if resource is None:
            raise PenstockError(
                f"Topic '{topic}' is not mapped to any resource. All topics must be mapped in "
                "'topic.to.external.resource.mapping' or 'topic.to.existing.resource.mapping'."
            )
        if problem := shared_resource(self._plan, topic, self._keyed):
            raise PenstockError(problem)
        return resource

    def _actions(self, records: Records, failed: Failed) -> list[Action]:
        plan = self._plan
        topics, partitions, offsets = records.topics, records.partitions, records.offsets
        timestamps, headers = records.timestamps, records.headers
        keys, key_schemas = records.keys.values, records.keys.schemas()
        values = records.values.values
        actions: list[Action] = []
        for schema, start, stop in records.values.slices():
            topic, make, node = None, None, None
            for row in range(start, stop):
                if row in failed or row in self._dropped:
                    continue
                if topics[row] != topic:
                    topic = topics[row]
                    make = self._topic(topic)
                    node = make.nodes(schema)
                assert make is not None
                assert node is not None
                try:
                    action = make.action(
                        row,
                        key_schemas[row],
                        keys[row],
                        values[row],
                        node,
                        partitions[row] or 0,
                        offsets[row],
                        timestamps[row],
                        headers[row] if headers else (),
                    )
                except MalformedId as error:
                    self._refuse_malformed(row, error, failed)
                    continue
                except DataError as error:
                    self._refuse(row, error, failed)
                    continue
                if action is not None:
                    actions.append(action)
                elif (
                    plan.nulls is Nulls.IGNORE
                    and plan.reports_nulls
                    and self._context.tolerates_errors
                ):
                    failed[row] = DataError("Cannot write null valued record.")
        return actions

    def _topic(self, topic: str) -> TopicActions:
        actions = self._topics.get(topic)
        if actions is None:
            actions = self._topics[topic] = TopicActions(self._plan, topic, self._resource(topic))
        return actions

    def _refuse(self, row: int, error: DataError, failed: Failed) -> None:
        """Refuses or drops a record that cannot be a document (`drop.invalid.message`)."""
        if self._plan.drops_invalid and not self._context.tolerates_errors:
            log.error("Dropping a record that cannot be converted: %s", error)
            self._dropped.add(row)
            return
        failed[row] = error

    def _refuse_malformed(self, row: int, error: MalformedId, failed: Failed) -> None:
        """Refuses a record as the cluster would (`behavior.on.malformed.documents`)."""
        behavior = self._plan.malformed
        if behavior is Refusals.WARN:
            log.warning("Ignoring a malformed document: %s", error)
        if behavior in (Refusals.FAIL, Refusals.REPORT) or self._context.tolerates_errors:
            failed[row] = error

    def _predecessors(self, actions: Sequence[Action]) -> Sequence[Request]:
        """The pending requests with updates of the same documents."""
        if not self._plan.upsert:
            return ()
        ids = {action.id for action in actions}
        return [
            request
            for request in self._pending
            if any(action.id in ids for action in request.actions)
        ]

    def _repeat_failed(self) -> None:
        """Retries failed requests."""
        if not any(request.done.is_set() and request.error for request in self._pending):
            return
        for request in self._pending:
            request.done.wait()
        for request in self._pending:
            if request.error is not None:
                request.reset()
                self._pool.submit(request.run, self._sender.send)

    def _wait(self, most: int) -> None:
        """Waits until at most `most` actions are pending."""
        pending = sum(len(request.actions) for request in self._pending)
        deadline = self._clock() + self._plan.flush_timeout_ms / 1000
        while self._pending and pending > most:
            request = self._pending[0]
            if not request.done.wait(max(deadline - self._clock(), 0)):
                raise Unavailable(
                    f"The cluster did not index {pending} documents within flush.timeout.ms "
                    f"({self._plan.flush_timeout_ms})"
                )
            if request.error is not None:
                raise request.error
            self._report_refusals(request)
            pending -= len(request.actions)
            self._pending.popleft()

    def _report_refusals(self, request: Request) -> None:
        """Reports the refused actions of a request. One that cannot be reported stays, so the next
        `flush` fails, too."""
        request.later = None
        while request.refusals:
            refusal = request.refusals[0]
            if refusal.is_conflict:
                self._report_conflict(request, refusal)
            elif refusal.is_malformed:
                self._report(request, refusal, self._plan.malformed)
            else:
                raise WriteFailed(
                    f"Indexing record failed: {refusal.reason} (status {refusal.status})"
                )
            del request.refusals[0]

    def _report_conflict(self, request: Request, refusal: Refusal) -> None:
        """Reports a document with a later version, unless the record itself is stored, or a later
        one of its partition: what is sent again, by this task or its predecessor, has both."""
        behavior, versions = self._plan.conflicts, _VERSIONS.search(refusal.reason)
        action, records = refusal.action, request.records
        is_stored = (versions is not None and versions[1] == versions[2]) or request.is_superseded(
            action, self._pending
        )
        if behavior is None:
            # With versions from offsets it was written already, as in a data stream.
            if action.is_versioned and not is_stored:
                self._outdated[records.topics[action.row]] += 1
            if action.is_versioned or self._plan.streams is not None:
                return
            behavior = Refusals.WARN
        elif is_stored:
            return
        if not self._is_reported(behavior) or not action.is_versioned or versions is None:
            if not (self._is_reported(behavior) and self._is_in_stream(refusal)):
                self._report(request, refusal, behavior)
            return
        assert action.id is not None
        conflict = Conflict(
            records.original(action.row),
            action.id,
            int(versions[1]),
            records.ref(action.row),
            refusal.reason,
        )
        match request.coming(conflict.partition, conflict.version):
            case Coming.LATER:
                self._conflicts.add(conflict)
            case Coming.SEEN:
                self._conflicts.decide(conflict)
            case Coming.NEVER:
                self._conflicts.skipped.append(conflict)

    def _is_in_stream(self, refusal: Refusal) -> bool:
        """Whether a data stream has exactly the refused document: it was sent again."""
        id = refusal.action.id
        if self._plan.streams is None or id is None or not refusal.index:
            return False
        metadata, document = refusal.action.lines.splitlines()
        routing = orjson.loads(metadata)["create"].get("routing")
        params = {"routing": routing} if routing is not None else None
        path = f"/{quote(refusal.index)}/_doc/{quote(id, safe='')}"
        try:
            found = self._client.request("GET", path, params=params)
        except Answered as error:
            if error.http_status == 404:
                return False
            raise
        return bool(found["_source"] == orjson.loads(document))

    def _report_decided(self) -> None:
        """Reports the conflicts with versions from elsewhere. One that cannot be reported stays."""
        while (conflict := self._conflicts.take_decided()) is not None:
            assert self._plan.conflicts is not None
            if self._plan.conflicts is Refusals.WARN:
                log.warning("The cluster refused a record: %s", conflict.reason)
            self._context.report(conflict.record, Refused(f"Indexing failed: {conflict.reason}"))
            self._conflicts.done()
        for conflict in self._conflicts.skipped:
            self._outdated[conflict.record.topic] += 1
        self._conflicts.skipped.clear()

    def _is_reported(self, behavior: Refusals) -> bool:
        return behavior in (Refusals.FAIL, Refusals.REPORT) or self._context.tolerates_errors

    def _report(self, request: Request, refusal: Refusal, behavior: Refusals) -> None:
        if behavior is Refusals.WARN:
            log.warning("The cluster refused a record: %s", refusal.reason)
        if self._is_reported(behavior):
            self._context.report(
                request.records.ref(refusal.action.row),
                Refused(f"Indexing failed: {refusal.reason}"),
            )
