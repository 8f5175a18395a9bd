"""Writes into collections, in bulk (connectors.md §6.2).

A batch becomes one bulk for each collection. A write that the server refuses fails only its record:
the others are written, even in an ordered bulk. If that fails the task, nothing more is written.
If the server is unavailable or busy, the engine retries the same records; the writer keeps their
jobs until then, so that generated ids stay the same, and finished writes are not repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import bson
from bson import json_util
from bson.errors import BSONError
from pymongo import DeleteOne, InsertOne, ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError, DocumentTooLarge, OperationFailure, PyMongoError
from pymongo.errors import InvalidOperation as InvalidBulk

from penstock.api import (
    ConfigInvalid,
    DataError,
    Failed,
    Records,
    SinkContext,
)
from penstock.connectors.keyed.batches import identity
from penstock.connectors.keyed.fatal import FailingWriter
from penstock.connectors.keyed.pace import Pace
from penstock.connectors.mongodb.client.access import Access
from penstock.connectors.mongodb.client.errors import (
    NOT_ALLOWED,
    MongoRefused,
    MongoUnavailable,
    error_of,
    is_transient,
)
from penstock.connectors.mongodb.write.entry import Kind, Write
from penstock.connectors.mongodb.write.ids import ID
from penstock.connectors.mongodb.write.jobs import Job, jobs_of
from penstock.connectors.mongodb.write.namespaces import Namespace
from penstock.connectors.mongodb.write.plan import Plan

if TYPE_CHECKING:
    from pymongo import MongoClient

log = logging.getLogger(__name__)

_DUPLICATE = 11000
_EXISTS = 48
_UNENCODABLE = (BSONError, DocumentTooLarge, OverflowError, TypeError, ValueError)


class WriteRefused(DataError):
    """The server refuses the write of a record."""

    java_name = "com.mongodb.kafka.connect.sink.dlq.WriteException"


class MongoWriter(FailingWriter):
    """Writes one task's records; connects with the first ones."""

    takes_fields: ClassVar[bool] = True

    def __init__(
        self, access: Access, plan_of: Callable[[str], Plan], context: SinkContext
    ) -> None:
        super().__init__()
        self._access = access
        self._plan_of = plan_of
        self._context = context
        self._client: MongoClient[dict[str, Any]] | None = None
        self._plans: dict[str, Plan] = {}
        self._paces: dict[int, Pace] = {}
        self._series: set[Namespace] = set()
        self._held: tuple[Hashable, list[Job], Failed] | None = None

    def write_batch(self, records: Records, failed: Failed) -> None:
        batch_id = identity(records)
        if self._held is not None and self._held[0] == batch_id:
            _, jobs, refused = self._held
        else:
            refused = {}
            jobs = jobs_of(records, self._plan, refused)
        self._held = (batch_id, jobs, refused)
        if refused:
            self._check_tolerance(records, refused)
        while jobs and not self._fails(records, refused):
            self._do(jobs, refused)
            if refused:
                self._check_tolerance(records, refused)
        self._held = None
        self._report(records, refused, failed)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _plan(self, topic: str) -> Plan:
        plan = self._plans.get(topic)
        if plan is None:
            plan = self._plans[topic] = self._plan_of(topic)
        return plan

    def _connected(self) -> MongoClient[dict[str, Any]]:
        if self._client is None:
            self._client = self._access.client()
        return self._client

    def _do(self, jobs: list[Job], refused: Failed) -> None:
        """Writes the first job and removes it from `jobs`, or leaves its remaining writes there."""
        job = jobs[0]
        if job.plan.series is not None:
            self._ensure_series(job.namespace, job.plan.series)
        collection = self._connected()[job.namespace.database][job.namespace.collection]
        operations = [_operation(write) for write in job.writes]
        remaining: Job | None = None
        restored: list[Job] = []
        try:
            collection.bulk_write(operations, ordered=job.plan.ordered)
        except BulkWriteError as error:
            details = dict(error.details)
            remaining, transient = self._remaining(job, details, refused, restored)
            jobs[:1] = [
                next_job
                for next_job in (remaining, *restored)
                if next_job is not None and next_job.rows
            ]
            self._raise_concern(job, details)
            if transient:
                raise MongoUnavailable(
                    f"The server cannot write to {job.namespace} now: {_first_message(details)}"
                ) from error
            return
        except OperationFailure as error:
            server_error = error_of(error, f"Cannot write to {job.namespace}")
            if isinstance(server_error, MongoUnavailable) or error.code in NOT_ALLOWED:
                job.repeated = True
                raise server_error from error
            # One of the records may be the reason: halve the job to find it.
            if len(job.rows) == 1:
                jobs[:1] = self._refuse(job, job.rows[0], WriteRefused(str(server_error)), refused)
                return
            middle = len(job.rows) // 2
            halves = [[*range(middle)], [*range(middle, len(job.rows))]]
            jobs[:1] = [replace(job.only(half), repeated=True) for half in halves]
            return
        except _UNENCODABLE as error:
            jobs[:1] = self._without_unencodable(job, refused, error)
            return
        except InvalidBulk as error:
            raise MongoRefused(f"Cannot write to {job.namespace}: {error}") from error
        except PyMongoError as error:
            job.repeated = True
            raise error_of(error, f"Cannot write to {job.namespace}") from error
        del jobs[0]
        self._slow_down(job.plan)

    def _remaining(
        self, job: Job, details: dict[str, Any], refused: Failed, restored: list[Job]
    ) -> tuple[Job | None, bool]:
        """The remaining writes of a bulk with failures, and whether any failure is transient; adds
        to `restored` the writes to send because a later one of the same document is refused."""
        errors: list[dict[str, Any]] = details.get("writeErrors", [])
        transient = [
            error["index"]
            for error in errors
            if is_transient(error.get("code"), details.get("errorLabels"))
        ]
        for error in errors:
            at = error["index"]
            if at in transient or (job.repeated and self._was_written(job, at, error)):
                continue
            restored += self._refuse(job, job.rows[at], _refusal(error), refused)
        if job.plan.ordered and errors:
            first = errors[0]["index"]
            remaining = job.only([*range(first if transient else first + 1, len(job.rows))])
            return replace(remaining, repeated=job.repeated or bool(transient)), bool(transient)
        if transient:
            return replace(job.only(transient), repeated=True), True
        return None, False

    def _refuse(self, job: Job, row: int, error: Exception, refused: Failed) -> list[Job]:
        """Marks a record as refused; returns the write of the same document that it superseded, if
        any."""
        refused[row] = error
        superseded = job.earlier.get(row)
        if superseded is None:
            return []
        return [replace(job, rows=[superseded[0]], writes=[superseded[1]], repeated=False)]

    def _was_written(self, job: Job, at: int, error: dict[str, Any]) -> bool:
        """Whether an insert fails because it succeeded before: the document exists."""
        write = job.writes[at]
        if error.get("code") != _DUPLICATE or write.kind is not Kind.INSERT:
            return False
        document = write.document or {}
        collection = self._connected()[job.namespace.database][job.namespace.collection]
        try:
            stored = collection.find_one({ID: document.get(ID)})
        except PyMongoError as failure:
            raise error_of(failure, f"Cannot read {job.namespace}") from failure
        return stored is not None and _same(stored, document)

    def _raise_concern(self, job: Job, details: dict[str, Any]) -> None:
        concerns: list[dict[str, Any]] = details.get("writeConcernErrors", [])
        for concern in concerns:
            text = f"Writes to {job.namespace} were not confirmed: {concern.get('errmsg')}"
            if not is_transient(concern.get("code"), concern.get("errorLabels")):
                raise MongoRefused(f"{text} (w of connection.uri)")
            log.warning("%s", text)

    def _without_unencodable(self, job: Job, refused: Failed, error: Exception) -> list[Job]:
        """The job without the writes that cannot be sent: too large, or of types not in BSON."""
        client = self._connected()
        try:
            largest = int(client.admin.command("isMaster")["maxBsonObjectSize"])
        except PyMongoError as failure:
            raise error_of(failure, f"Cannot write to {job.namespace}") from failure
        good: list[int] = []
        restored: list[Job] = []
        for at, write in enumerate(job.writes):
            problem = _problem(write, largest)
            if problem is None:
                good.append(at)
            else:
                restored += self._refuse(job, job.rows[at], DataError(problem), refused)
        if len(good) == len(job.writes):
            raise MongoRefused(f"Cannot write to {job.namespace}: {error}") from error
        # The driver may have sent some writes before it reached the one that it cannot encode.
        remaining = replace(job.only(good), repeated=True)
        return [next_job for next_job in (remaining, *restored) if next_job.rows]

    def _ensure_series(self, namespace: Namespace, options: Any) -> None:
        """Creates a time series unless it exists. Raises ConfigInvalid if the collection is of
        another kind."""
        if namespace in self._series:
            return
        try:
            ensure_series(self._connected(), namespace, options)
        except PyMongoError as error:
            raise error_of(error, f"Failed to create collection for: `{namespace}`") from error
        self._series.add(namespace)

    def _slow_down(self, plan: Plan) -> None:
        pace, pause_ms = self._paces.get(id(plan), plan.pace).wrote()
        self._paces[id(plan)] = pace
        if pause_ms:
            self._context.wait(pause_ms / 1000)

    def _fails(self, records: Records, refused: Failed) -> bool:
        """Whether a refused record fails the task: its batch is written again, so no more of it is
        written now."""
        return not self._context.tolerates_errors and any(
            not self._plan(records.topics[row]).tolerates for row in refused
        )

    def _check_tolerance(self, records: Records, refused: Failed) -> None:
        """Raises MongoRefused for a refused record that `errors.tolerance` would skip, but
        `mongo.errors.tolerance` does not."""
        if not self._context.tolerates_errors:
            return
        for row, error in refused.items():
            if not self._plan(records.topics[row]).tolerates:
                self._held = None
                raise MongoRefused(
                    f"{_place(records, row)} was refused, and mongo.errors.tolerance=none: {error}"
                ) from error

    def _report(self, records: Records, refused: Failed, failed: Failed) -> None:
        """Reports refused records to the engine, unless `mongo.errors.tolerance` alone skips
        them."""
        skipped = 0
        for row in sorted(refused):
            plan = self._plan(records.topics[row])
            if plan.tolerates and plan.logs:
                log.error("%s was refused: %s", _place(records, row), refused[row])
            if not plan.tolerates or plan.reports or self._context.tolerates_errors:
                failed[row] = refused[row]
            else:
                skipped += 1
        if skipped:
            log.warning("%d records were skipped (mongo.errors.tolerance)", skipped)


def ensure_series(client: Any, namespace: Namespace, options: Any) -> None:
    """Creates a time series with these options unless it exists; raises PyMongoError, and
    ConfigInvalid if the collection is of another kind."""
    database = client[namespace.database]
    if _is_series(database, namespace):
        return
    try:
        database.create_collection(namespace.collection, check_exists=False, **options)
    except OperationFailure as error:
        if error.code != _EXISTS or not _is_series(database, namespace):
            raise


def _is_series(database: Any, namespace: Namespace) -> bool:
    """Whether the collection is a time series; False if it does not exist."""
    for existing in database.list_collections(filter={"name": namespace.collection}):
        if existing.get("type") == "timeseries":
            return True
        raise ConfigInvalid(
            [
                f"A collection already exists for: `{namespace}` that is not a timeseries "
                "collection (timeseries.timefield)."
            ]
        )
    return False


def _operation(write: Write) -> Any:
    match write.kind:
        case Kind.REPLACE:
            return ReplaceOne(write.filter, write.document or {}, upsert=write.upsert)
        case Kind.INSERT:
            return InsertOne(write.document or {})
        case Kind.UPDATE:
            return UpdateOne(write.filter, write.document or {}, upsert=write.upsert)
        case Kind.DELETE:
            return DeleteOne(write.filter)


def _problem(write: Write, largest: int) -> str | None:
    """Why a write cannot be sent, or None."""
    try:
        bson.encode(write.filter)
        size = len(bson.encode(write.document or {}))
        _operation(write)
    except _UNENCODABLE as error:
        return f"the document cannot be written: {error}"
    if size > largest:
        return f"the document has {size:,} bytes; the server accepts at most {largest:,}"
    return None


def _refusal(error: dict[str, Any]) -> WriteRefused:
    """A write error, in the form of the JVM's connector."""
    details = json_util.dumps(error.get("errInfo") or {})
    return WriteRefused(
        f"v=1, code={error.get('code')}, message={error.get('errmsg')}, details={details}"
    )


def _first_message(details: dict[str, Any]) -> str:
    for error in (*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())):
        return str(error.get("errmsg"))
    return "no reason given"


def _same(stored: dict[str, Any], document: dict[str, Any]) -> bool:
    """Whether two documents have the same content, in any order of members."""
    if set(stored) != set(document):
        return False
    return bson.encode({name: stored[name] for name in document}) == bson.encode(document)


def _place(records: Records, row: int) -> str:
    return (
        f"The record at topic='{records.topics[row]}', partition={records.partitions[row]}, "
        f"offset={records.offsets[row]}"
    )
