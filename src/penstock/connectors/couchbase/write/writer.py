"""Writes documents (connectors.md §11).

What is written of one document is in the order of its records: a batch is done in rounds, in each
of which no document occurs twice. A write that the cluster refuses costs its record alone. A
cluster that is away or busy is told to the engine, which calls again with the same records; what
has been written by then is not written again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.api import DataError, Failed, PenstockError, Records, SinkContext, SinkWriter
from penstock.connectors.couchbase.client.errors import (
    CouchbaseRefused,
    CouchbaseUnavailable,
    WriteRefused,
    error_of,
)
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.store import PartChange, Store
from penstock.connectors.couchbase.settings.sink import Parts, SinkPlan
from penstock.connectors.couchbase.write.documents import Document, TopicDocuments, dump
from penstock.connectors.couchbase.write.statements import statement_of
from penstock.connectors.keyed.batches import rounds

log = logging.getLogger(__name__)

_AT_ONCE: Final = 8  # calls for single documents
_TOGETHER: Final = 1_000  # documents of a call for several


class CouchbaseWriter(SinkWriter):
    """Writes one task's records; connects when there are some."""

    def __init__(
        self,
        plan: SinkPlan,
        connect: Callable[[], Store],
        context: SinkContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._connect = connect
        self._context = context
        self._clock = clock
        self._store: Store | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._topics: dict[str, TopicDocuments] = {}
        self._held: tuple[Hashable, list[list[Document]], Failed] | None = None
        self._away_since: float | None = None

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        which = _identity(records)
        if self._held is None or self._held[0] != which:
            refused: Failed = {}
            self._held = (which, self._rounds(records, refused), refused)
        _, due, refused = self._held
        while due:
            self._do(due[0], refused)
            del due[0]
        self._held, self._away_since = None, None
        failed.update(refused)

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _rounds(self, records: Records, refused: Failed) -> list[list[Document]]:
        documents = self._documents(records, refused)
        if self._plan.statements is not None and self._plan.statements.where is not None:
            return [[each] for each in documents]  # each may be about any document
        keys = [(each.keyspace, each.id) for each in documents]
        return [[documents[at] for at in rows] for rows in rounds(keys)]

    def _documents(self, records: Records, refused: Failed) -> list[Document]:
        topics, partitions, offsets = records.topics, records.partitions, records.offsets
        keys, key_schemas = records.keys.values, records.keys.schemas()
        values = records.values.values
        documents: list[Document] = []
        for schema, start, stop in records.values.slices():
            topic, make, node = None, None, None
            for row in range(start, stop):
                if topics[row] != topic:
                    topic = topics[row]
                    make = self._topics.setdefault(topic, TopicDocuments(self._plan, topic))
                    node = make.nodes(schema)
                assert make is not None
                assert node is not None
                try:
                    documents.append(
                        make.document(
                            row,
                            key_schemas[row],
                            keys[row],
                            values[row],
                            node,
                            partitions[row] or 0,
                            offsets[row],
                        )
                    )
                except DataError as error:
                    refused[row] = error
        fallen_back = sum(each.falls_back for each in documents)
        if fallen_back:
            log.warning(
                "%d records have no value for a placeholder of couchbase.document.id; the ids of "
                "their documents are their keys",
                fallen_back,
            )
        return documents

    def _do(self, due: list[Document], refused: Failed) -> None:
        """Does a round. What is left to do when it raises stays in `due`."""
        try:
            store = self._connected()
            self._remove(store, due, refused)
            if self._plan.statements is None and self._plan.parts is None:
                self._upsert(store, due, refused)
            else:
                self._do_singly(store, due, refused)
        except CouchbaseUnavailable as error:
            self._give_up(error)
            raise

    def _connected(self) -> Store:
        if self._store is None:
            self._store = self._connect()
        return self._store

    def _remove(self, store: Store, due: list[Document], refused: Failed) -> None:
        for keyspace, some in _by_keyspace(each for each in due if each.deletes):
            errors = store.remove(keyspace, [each.id for each in some], self._plan.durability)
            self._note(due, some, errors, refused)

    def _upsert(self, store: Store, due: list[Document], refused: Failed) -> None:
        groups: dict[tuple[Keyspace, int], list[Document]] = {}
        for each in due:
            groups.setdefault((each.keyspace, each.expiry_ms), []).append(each)
        for (keyspace, expiry_ms), group in groups.items():
            for start in range(0, len(group), _TOGETHER):
                some = group[start : start + _TOGETHER]
                contents: dict[str, bytes] = {}
                for each in some:
                    try:
                        contents[each.id] = dump(each.content)
                    except DataError as error:
                        refused[each.row] = error
                errors = (
                    store.upsert(keyspace, contents, self._plan.durability, expiry_ms)
                    if contents
                    else {}
                )
                self._note(due, some, errors, refused)

    def _do_singly(self, store: Store, due: list[Document], refused: Failed) -> None:
        """Parts of documents and statements, some at once."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="couchbase")
        some = list(due)
        found = self._pool.map(lambda each: self._error(store, each), some)
        errors: dict[int, Exception] = {}
        for each, error in zip(some, found, strict=True):
            if isinstance(error, DataError):
                refused[each.row] = error
            elif error is not None:
                errors[each.row] = error
        self._note(due, some, errors, refused, by=lambda each: each.row)

    def _error(self, store: Store, document: Document) -> Exception | None:
        """Why a document cannot be written, or None."""
        plan = self._plan
        try:
            if plan.statements is not None:
                statement = statement_of(document, plan.statements)
                store.query(statement.text, statement.parameters, reads=False)
            elif plan.parts is not None:
                change = part_change(document, plan.parts)
                store.change(
                    document.keyspace, document.id, change, plan.durability, document.expiry_ms
                )
        except Exception as error:
            return error
        return None

    def _note(
        self,
        due: list[Document],
        some: Sequence[Document],
        errors: Mapping[str, Exception] | Mapping[int, Exception],
        refused: Failed,
        by: Callable[[Document], object] = lambda each: each.id,
    ) -> None:
        """Takes what is done off `due`. Raises for errors that are no single record's."""
        raised: PenstockError | None = None
        done: set[int] = set()
        for each in some:
            error = errors.get(by(each))  # type: ignore[call-overload]
            if error is not None:
                if not isinstance(error, PenstockError):
                    error = error_of(error, f"Cannot write {self._name(each)}")
                if not isinstance(error, WriteRefused):
                    if raised is None or isinstance(error, CouchbaseRefused):
                        raised = error
                    continue
                refused[each.row] = error
            done.add(each.row)
        due[:] = [each for each in due if each.row not in done]
        if raised is not None:
            raise raised

    def _name(self, document: Document) -> str:
        id = f"<ud>{document.id}</ud>" if self._plan.redacts else document.id
        return f"document '{id}' of {document.keyspace}"

    def _give_up(self, error: CouchbaseUnavailable) -> None:
        """Raises CouchbaseRefused when `couchbase.retry.timeout` is over."""
        if not self._plan.retry_ms:
            return
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
        elif (now - self._away_since) * 1000 >= self._plan.retry_ms:
            raise CouchbaseRefused(
                f"{error} (for longer than couchbase.retry.timeout, {self._plan.retry_ms} ms)"
            ) from error


def part_change(document: Document, parts: Parts) -> PartChange:
    """The change of a part of a document. Raises DataError where the record names no path."""
    path, content = parts.path, document.content
    if parts.pointer is not None:
        found = parts.pointer.filled(content)
        if found is None:
            raise DataError(f"The value has no path at {parts.path} (couchbase.subdocument.path)")
        path, content = found, parts.pointer.stripped(content)
    return PartChange(parts.change, path, content, parts.creates_path, parts.creates_document)


def _by_keyspace(documents: Iterable[Document]) -> Iterable[tuple[Keyspace, list[Document]]]:
    groups: dict[Keyspace, list[Document]] = {}
    for each in documents:
        groups.setdefault(each.keyspace, []).append(each)
    return groups.items()


def _identity(records: Records) -> Hashable:
    """What tells batches apart. The engine repeats a batch as it was."""
    last = len(records) - 1
    return (
        len(records),
        *(
            (records.topics[row], records.partitions[row], records.offsets[row])
            for row in (0, last)
        ),
    )
