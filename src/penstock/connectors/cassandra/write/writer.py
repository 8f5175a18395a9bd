"""Writes the records of one sink task into tables.

`write` binds records to prepared statements, sends statements of one partition together, and
returns when the cluster has answered all requests. A statement that the cluster refuses fails only
its record: the writer resends the other statements of the request one by one. If the cluster is
unavailable or busy, it resends failed requests when the engine retries the same records.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from penstock.api import (
    DataError,
    Failed,
    PenstockError,
    Records,
    SinkWriter,
    TopicPartition,
)
from penstock.connectors.cassandra.client.access import Access, close
from penstock.connectors.cassandra.client.errors import (
    CassandraRefused,
    CassandraUnavailable,
    error_of,
    is_forbidden,
    is_transient,
    most_telling,
    shown,
)
from penstock.connectors.cassandra.write.binding import Binding, JsonBinding, binding_of
from penstock.connectors.cassandra.write.plan import Ignore, SinkPlan
from penstock.connectors.cassandra.write.requests import Grouping, Request, Sender
from penstock.connectors.cassandra.write.rows import rows_of
from penstock.connectors.cassandra.write.times import Clock, RecordTimes
from penstock.connectors.keyed.batches import identity
from penstock.connectors.keyed.fatal import FailingWriter

log = logging.getLogger(__name__)

_GONE: Final = re.compile(
    r"(table|keyspace|columnfamily|type)\b.*\bdoes ?n[o']t exist|unconfigured table|"
    r"Undefined column name|Unknown identifier",
    re.IGNORECASE,
)


class WriteRefused(DataError):
    """The cluster refuses the statement of a record."""


class CassandraWriter(FailingWriter):
    """Writes one task's records; connects with the first ones."""

    def __init__(self, access: Access, plan: SinkPlan) -> None:
        super().__init__()
        self._access = access
        self._plan = plan
        self._session: Any = None
        self._sender: Sender | None = None
        self._bindings: dict[str, list[Binding | JsonBinding]] = {}
        self._times = RecordTimes()
        self._clock = Clock()
        self._held: tuple[Hashable, list[Request], Failed] | None = None

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        reached = super().pre_commit(reached)
        if any(each.has_times for bindings in self._bindings.values() for each in bindings):
            return self._times.resumable(reached)
        return reached

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._times.forget(partitions)

    def write_batch(self, records: Records, failed: Failed) -> None:
        sender = self._connected()
        batch_id = identity(records)
        if self._held is not None and self._held[0] == batch_id:
            _, pending, refused = self._held
            for request in pending:
                sender.send(request)
        else:
            refused = {}
            self._bind(records, refused, sender)
        self._finish(batch_id, refused, sender)
        failed.update(refused)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            close(session)

    def _connected(self) -> Sender:
        if self._sender is None:
            self._session = self._access.session()
            self._sender = Sender(self._session, self._plan.in_flight)
        return self._sender

    def _bindings_of(self, topic: str) -> list[Binding | JsonBinding]:
        bindings = self._bindings.get(topic)
        if bindings is None:
            plan = self._plan.topics.get(topic)
            if plan is None:
                raise CassandraRefused(
                    f"Topic {topic} is not configured; set {self._plan.topic_setting} for it"
                )
            bindings = [binding_of(self._session, table, plan.texts) for table in plan.tables]
            self._bindings[topic] = bindings
        return bindings

    def _bind(self, records: Records, refused: Failed, sender: Sender) -> None:
        """Sends the statements of the records; refuses records that cannot be bound."""
        topics = records.topics
        bindings = {topic: self._bindings_of(topic) for topic in dict.fromkeys(topics)}
        exact = any(binding.exact for per_topic in bindings.values() for binding in per_topic)
        grouping = Grouping(self._plan.batch, sender.send)
        try:
            for at, row in enumerate(rows_of(records, self._times, exact=exact)):
                for binding in bindings[topics[at]]:
                    try:
                        bound = binding.bind(row, at)
                    except DataError as error:
                        if self._plan.ignore is Ignore.ALL:
                            log.warning("Skipping %s: %s", _record_name(records, at), error)
                        else:
                            refused[at] = error
                        continue
                    if bound is not None:
                        if bound.key is None:
                            bound.write_us = self._clock.next()
                        grouping.add(binding.batch_type, bound)
            grouping.finish()
        except BaseException:
            sender.finish()
            raise

    def _finish(self, batch_id: Hashable, refused: Failed, sender: Sender) -> None:
        """Waits for the answers. Raises a retriable error if requests must be sent again."""
        pending: list[Request] = []
        problem: PenstockError | None = None
        while failures := sender.finish():
            for request in failures:
                assert request.error is not None
                if is_transient(request.error):
                    pending.append(request)
                elif is_forbidden(request.error):
                    problem = error_of(request.error, "Cannot write")
                elif _GONE.search(shown(request.error)):
                    problem = CassandraRefused(f"Cannot write: {shown(request.error)}")
                elif len(request.bounds) > 1:
                    for alone in request.alone():
                        sender.send(alone)
                else:
                    self._refuse(request, refused)
        self._held = None
        if problem is not None:
            raise problem
        if pending:
            self._held = (batch_id, pending, refused)
            sender.window = sender.window.shrunk()
            error = most_telling([request.error for request in pending if request.error])
            raise CassandraUnavailable(
                f"Cassandra cannot write now ({self._access.place}): {shown(error)}"
            ) from error
        sender.window = sender.window.grown()

    def _refuse(self, request: Request, refused: Failed) -> None:
        bound, error = request.bounds[0], request.error
        assert error is not None
        text = f"{shown(error)} (statement: {bound.prepared.query_string})"
        if self._plan.ignore is Ignore.NONE:
            refused[bound.row] = WriteRefused(text)
        else:
            log.warning("Skipping a record that Cassandra refuses: %s", text)


class PreviewWriter(SinkWriter):
    """Shows the statements of records instead of executing them."""

    def __init__(self, access: Access, plan: SinkPlan, show: Callable[[str], None]) -> None:
        self._access = access
        self._plan = plan
        self._show = show

    def write(self, records: Records, failed: Failed) -> None:
        with self._access.connected() as session:
            for topic in dict.fromkeys(records.topics):
                plan = self._plan.topics.get(topic)
                if plan is None:
                    raise CassandraRefused(f"Topic {topic} is not configured")
                bindings = [binding_of(session, table, plan.texts) for table in plan.tables]
                for at, row in enumerate(rows_of(records, RecordTimes(), exact=True)):
                    if records.topics[at] != topic:
                        continue
                    for binding in bindings:
                        try:
                            bound = binding.bind(row, at)
                        except DataError as error:
                            failed[at] = error
                            continue
                        if bound is not None:
                            self._show(_shown(bound.prepared, bound.values))


def _shown(prepared: Any, values: list[Any]) -> str:
    """A statement and its values, for the preview."""
    shown_values = []
    for column, value in zip(prepared.column_metadata, values, strict=True):
        if isinstance(value, bytes):
            decoded = column.type.from_binary(value, prepared.protocol_version)
            shown_values.append(f"{column.name}={decoded!r}")
        elif value is None:
            shown_values.append(f"{column.name}=null")
    return f"{prepared.query_string}  [{', '.join(shown_values)}]"


def _record_name(records: Records, row: int) -> str:
    return (
        f"the record at topic='{records.topics[row]}', partition={records.partitions[row]}, "
        f"offset={records.offsets[row]}"
    )
