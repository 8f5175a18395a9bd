"""Writes documents (connectors.md §11).

Writes of one document keep the order of their records: a batch is written in rounds, and no
document occurs twice in one. A write that the cluster refuses fails only its record. If the
cluster is unavailable or busy, the engine calls again with the same records; finished writes are
not repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.api import (
    DataError,
    Failed,
    PenstockError,
    Records,
    SinkContext,
)
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
from penstock.connectors.keyed.batches import identity, rounds
from penstock.connectors.keyed.fatal import FailingWriter

log = logging.getLogger(__name__)

_AT_ONCE: Final = 8  # concurrent calls for single documents
_TOGETHER: Final = 1_000  # documents per call for several


class CouchbaseWriter(FailingWriter):
    """Writes one task's records; connects with the first ones."""

    def __init__(
        self,
        plan: SinkPlan,
        connect: Callable[[], Store],
        context: SinkContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._connect = connect
        self._context = context
        self._clock = clock
        self._store: Store | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._topics: dict[str, TopicDocuments] = {}
        self._held: tuple[Hashable, list[list[Document]], Failed] | None = None
        self._unavailable_since: float | None = None

    def write_batch(self, records: Records, failed: Failed) -> None:
        batch_id = identity(records)
        if self._held is None or self._held[0] != batch_id:
            refused: Failed = {}
            self._held = (batch_id, self._rounds(records, refused), refused)
        _, due, refused = self._held
        while due:
            self._write_round(due[0], refused)
            del due[0]
        self._held, self._unavailable_since = None, None
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
            return [[document] for document in documents]  # each may affect any document
        keys = [(document.keyspace, document.id) for document in documents]
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
                    make = self._topics.get(topic)
                    if make is None:
                        make = self._topics[topic] = TopicDocuments(self._plan, topic)
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
        fallen_back = sum(document.falls_back for document in documents)
        if fallen_back:
            log.warning(
                "%d records have no value for a placeholder of couchbase.document.id; using their "
                "keys as document ids",
                fallen_back,
            )
        return documents

    def _write_round(self, due: list[Document], refused: Failed) -> None:
        """Writes a round. If it raises, unfinished documents stay in `due`."""
        try:
            store = self._connected()
            self._remove(store, due, refused)
            if self._plan.statements is None and self._plan.parts is None:
                self._upsert(store, due, refused)
            else:
                self._write_singly(store, due, refused)
        except CouchbaseUnavailable as error:
            self._check_timeout(error)
            raise

    def _connected(self) -> Store:
        if self._store is None:
            self._store = self._connect()
        return self._store

    def _remove(self, store: Store, due: list[Document], refused: Failed) -> None:
        for keyspace, group in _by_keyspace(document for document in due if document.deletes):
            errors = store.remove(
                keyspace, [document.id for document in group], self._plan.durability
            )
            self._settle(due, group, errors, refused)

    def _upsert(self, store: Store, due: list[Document], refused: Failed) -> None:
        groups: dict[tuple[Keyspace, int], list[Document]] = {}
        for document in due:
            groups.setdefault((document.keyspace, document.expiry_ms), []).append(document)
        for (keyspace, expiry_ms), group in groups.items():
            for start in range(0, len(group), _TOGETHER):
                batch = group[start : start + _TOGETHER]
                contents: dict[str, bytes] = {}
                for document in batch:
                    try:
                        contents[document.id] = dump(document.content)
                    except DataError as error:
                        refused[document.row] = error
                errors = (
                    store.upsert(keyspace, contents, self._plan.durability, expiry_ms)
                    if contents
                    else {}
                )
                self._settle(due, batch, errors, refused)

    def _write_singly(self, store: Store, due: list[Document], refused: Failed) -> None:
        """Writes parts of documents and statements, several at once."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="couchbase")
        batch = list(due)
        results = self._pool.map(lambda document: self._try_write(store, document), batch)
        errors: dict[int, Exception] = {}
        for document, error in zip(batch, results, strict=True):
            if isinstance(error, DataError):
                refused[document.row] = error
            elif error is not None:
                errors[document.row] = error
        self._settle(due, batch, errors, refused, by=lambda document: document.row)

    def _try_write(self, store: Store, document: Document) -> Exception | None:
        """Writes a document; returns the error, if any."""
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

    def _settle(
        self,
        due: list[Document],
        batch: Sequence[Document],
        errors: Mapping[str, Exception] | Mapping[int, Exception],
        refused: Failed,
        by: Callable[[Document], object] = lambda document: document.id,
    ) -> None:
        """Removes finished documents from `due`. Raises errors that are not a single record's."""
        raised: PenstockError | None = None
        done: set[int] = set()
        for document in batch:
            error = errors.get(by(document))  # type: ignore[call-overload]
            if error is not None:
                if not isinstance(error, PenstockError):
                    error = error_of(error, f"Cannot write {self._name(document)}")
                if not isinstance(error, WriteRefused):
                    if raised is None or isinstance(error, CouchbaseRefused):
                        raised = error
                    continue
                refused[document.row] = error
            done.add(document.row)
        due[:] = [document for document in due if document.row not in done]
        if raised is not None:
            raise raised

    def _name(self, document: Document) -> str:
        id = f"<ud>{document.id}</ud>" if self._plan.redacts else document.id
        return f"document '{id}' of {document.keyspace}"

    def _check_timeout(self, error: CouchbaseUnavailable) -> None:
        """Raises CouchbaseRefused once `couchbase.retry.timeout` has passed."""
        if not self._plan.retry_ms:
            return
        now = self._clock()
        if self._unavailable_since is None:
            self._unavailable_since = now
        elif (now - self._unavailable_since) * 1000 >= self._plan.retry_ms:
            raise CouchbaseRefused(
                f"{error} (for longer than couchbase.retry.timeout, {self._plan.retry_ms} ms)"
            ) from error


def part_change(document: Document, parts: Parts) -> PartChange:
    """The change of a part of a document. Raises DataError if the record names no path."""
    path, content = parts.path, document.content
    if parts.pointer is not None:
        record_path = parts.pointer.filled(content)
        if record_path is None:
            raise DataError(f"The value has no path at {parts.path} (couchbase.subdocument.path)")
        path, content = record_path, parts.pointer.stripped(content)
    return PartChange(parts.change, path, content, parts.creates_path, parts.creates_document)


def _by_keyspace(documents: Iterable[Document]) -> Iterable[tuple[Keyspace, list[Document]]]:
    groups: dict[Keyspace, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.keyspace, []).append(document)
    return groups.items()
