"""The source offsets of connectors: the worker's offset topic, and connectors' own ones.

A connector may have its own offset topic (`offsets.storage.topic`). Reads merge both topics, and
the connector's own takes precedence. Writes go to both, so that the connector can switch back.
Source: kafka-connect.md §3.3, §4.5, §4.6, §8.3, §8.4; KIP-618.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from penstock import api
from penstock.api import Offsets
from penstock.cluster.offset_records import (
    OffsetRecord,
    decode_offset,
    encode_offset,
    partition_key,
)
from penstock.cluster.records import RawProps, SkippedRecord
from penstock.config import connector_keys
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.config.define import Config
from penstock.errors import PenstockError
from penstock.ids import TaskId
from penstock.kafka import admin, clients
from penstock.kafka.log import CompactedLog, Dropped, LogEntry

log = logging.getLogger(__name__)

Row = tuple[bytes, bytes | None]
"""Key and value of one record of an offset topic."""

Sent = Future[tuple[int, int]]
"""A record's partition and offset, once it is stored."""

COMMITTED: Final = "read_committed"
PRODUCER: Final[clients.ClientSettings] = {"acks": "all", "delivery.timeout.ms": 2_147_483_647}
"""Producers of the internal topics never time out (kafka-connect.md §4.3)."""

OPEN_TRANSACTION_S: Final = 16 * 60.0
"""The longest that a broker lets a transaction stay open by default, plus a margin."""

_READ_S: Final = 30.0  # on top of offset.flush.timeout.ms
_TOMBSTONE_S: Final = 60.0  # a transaction is open meanwhile
_BEAT_S: Final = 0.25
_FROZEN_S: Final = 3.0  # shorter than any session


class OffsetTable:
    """The fold of one offset topic, by connector: the stored offset of every source partition.

    Written by the log's thread, read by others. Keeps the key bytes under which a partition was
    first stored, because keys compare as bytes (kafka-connect.md §4.5).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_connector: dict[str, dict[bytes, tuple[bytes, OffsetRecord]]] = {}

    def receive(self, entries: Sequence[LogEntry]) -> None:
        with self._lock:
            for entry in entries:
                record = decode_offset(entry.key, entry.value)
                if isinstance(record, SkippedRecord):
                    log.warning("skipping offset record %d: %s", entry.offset, record.reason)
                    continue
                rows = self._by_connector.setdefault(record.connector, {})
                key = partition_key(record.partition)
                if record.offset is None:
                    rows.pop(key, None)
                else:
                    rows[key] = (entry.key or b"", record)

    def of(self, connector: str) -> dict[bytes, OffsetRecord]:
        """The stored offsets of a connector, by canonical partition."""
        with self._lock:
            rows = self._by_connector.get(connector, {})
            return {key: record for key, (_, record) in rows.items()}

    def keys(self, connector: str) -> dict[bytes, bytes]:
        """The key bytes of the records, by canonical partition."""
        with self._lock:
            rows = self._by_connector.get(connector, {})
            return {key: name for key, (name, _) in rows.items()}

    def encode(self, connector: str, offset: api.SourceOffset) -> Row:
        """The record that stores an offset, under the key bytes its partition already has."""
        record = OffsetRecord(connector, offset.partition, offset.offset)
        with self._lock:
            stored = self._by_connector.get(connector, {}).get(partition_key(offset.partition))
        return encode_offset(record, stored[0] if stored else None)


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """A connector's own offset topic, and the client settings for it (librdkafka's names)."""

    connector: str
    topic: str
    consumer: clients.ClientSettings = field(repr=False)
    producer: clients.ClientSettings = field(repr=False)
    admin: clients.ClientSettings = field(repr=False)

    @property
    def key(self) -> str:
        """Equal for topics that can share a log."""
        parts = (self.consumer, self.producer, self.admin)
        return repr((self.connector, self.topic, *(sorted(part.items()) for part in parts)))


def own_topic(
    config: Config, connector: str, props: RawProps, exactly_once: bool
) -> OwnTopic | None:
    """The connector's own offset topic; None: it uses the worker's.

    If it names the worker's topic, that counts as its own only if the connector's producers write
    to other brokers; with exactly once, records and offsets must go to the same cluster.
    """
    texts = {name: text for name, text in props.items() if text is not None}
    workers = config[keys.OFFSET_STORAGE_TOPIC]
    topic = texts.get(connector_keys.OFFSETS_TOPIC.name) or (workers if exactly_once else None)
    producer = worker_config.connector_client(config, "producer", texts)
    if topic is None or (topic == workers and _servers(producer) == _servers(_worker(config))):
        return None
    consumer = worker_config.connector_client(config, "consumer", texts)
    consumer.setdefault("client.id", f"connector-consumer-{connector}")
    if exactly_once:
        consumer["isolation.level"] = COMMITTED
    consumer.setdefault("isolation.level", COMMITTED)
    producer.setdefault("client.id", f"connector-producer-{connector}")
    return OwnTopic(
        connector,
        topic,
        clients.consumer(consumer).settings,
        {**clients.producer(producer).settings, **PRODUCER},
        connector_admin(config, f"connector-adminclient-{connector}", texts),
    )


def connector_admin(config: Config, client_id: str, props: RawProps) -> clients.ClientSettings:
    """The settings of a connector's admin client (kafka-connect.md §2.5)."""
    return clients.admin(connector_admin_java(config, client_id, props)).settings


def connector_admin_java(config: Config, client_id: str, props: RawProps) -> dict[str, str]:
    """`connector_admin` under Java's names."""
    texts = {name: text for name, text in props.items() if text is not None}
    return worker_config.connector_admin(config, client_id, texts)


def producer_settings(config: Config, props: RawProps) -> clients.ClientSettings:
    """A connector's producer (librdkafka's names)."""
    texts = {name: text for name, text in props.items() if text is not None}
    return clients.producer(worker_config.connector_client(config, "producer", texts)).settings


def _worker(config: Config) -> dict[str, str]:
    return {"bootstrap.servers": ",".join(config[keys.BOOTSTRAP_SERVERS])}


def _servers(java: dict[str, str]) -> set[str]:
    return {server.strip() for server in java["bootstrap.servers"].split(",")}


def offsets_topic(
    config: Config, name: str, key: str = keys.OFFSET_STORAGE_TOPIC.name
) -> admin.InternalTopic:
    """An offset topic with its settings (kafka-connect.md §2.3, §2.6); `key` is the setting that
    names it."""
    return admin.InternalTopic(
        name,
        key,
        "source connector offsets",
        config[keys.OFFSET_STORAGE_PARTITIONS],
        config[keys.OFFSET_STORAGE_REPLICATION],
        create=config[keys.INTERNAL_TOPICS_CREATION],
        settings=worker_config.topic_settings(config, keys.OFFSET_STORAGE_PREFIX).settings,
    )


Receive = Callable[[Sequence[LogEntry]], None]
"""Receives the entries of a log, in order."""


class Log(Protocol):
    """A log, as a worker uses it; see `CompactedLog`."""

    def open(self) -> None: ...

    def start(self, timeout_s: float = ...) -> None: ...

    def append(self, key: bytes, value: bytes | None) -> Sent: ...

    def drop(self) -> None: ...

    def read_to_end(self, timeout_s: float, check: Callable[[], None] = ...) -> None: ...

    def close(self, timeout_s: float = ...) -> None: ...


class _Store:
    """One offset topic: its log, and the log's fold."""

    def __init__(self, make: Callable[[Receive], Log]) -> None:
        self.table = OffsetTable()
        self.log = make(self.table.receive)

    def append(self, connector: str, offsets: Iterable[api.SourceOffset]) -> list[Sent]:
        rows = [self.table.encode(connector, offset) for offset in offsets]
        return [self.log.append(*row) for row in rows]


class OffsetStore:
    """All offset topics of a worker. A connector's own topic is opened for the first task that
    leases it, and closed after the last."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._exactly_once = worker_config.exactly_once(config)
        self._workers: _Store | None = None
        self._own: dict[str, _Shared] = {}
        self._own_topics = True
        self._on_closed: Callable[[], None] = lambda: None
        self._pulse = Pulse()
        self._lock = threading.Lock()

    def use(self, make: Callable[[Receive], Log]) -> None:
        """Creates the worker's own log."""
        self._workers = _Store(make)

    def use_alone(self, make: Callable[[Receive], Log], on_closed: Callable[[], None]) -> None:
        """The store of a standalone worker: connectors cannot have their own offset topics
        (kafka-connect.md §12.3), and `on_closed` is called after a lease is closed."""
        self._own_topics = False
        self._on_closed = on_closed
        self.use(make)

    def start(self) -> None:
        """Starts reading the worker's topic. With exactly once, the open transaction of a dead
        worker may delay reaching the end; tasks read to the end themselves anyway."""
        assert self._workers is not None
        self._pulse.start()
        if self._exactly_once:
            self._workers.log.open()
        else:
            self._workers.log.start()

    def lease(self, task: TaskId, props: RawProps) -> Lease:
        """A task's lease on its offsets; close it when the task has ended. `props` is the
        connector's configuration. Creates the topic if needed; raises when that fails."""
        assert self._workers is not None
        timeout_s = (
            OPEN_TRANSACTION_S
            if self._exactly_once
            else _READ_S + self._config[keys.OFFSET_FLUSH_TIMEOUT] / 1000
        )
        if not self._own_topics:
            if props.get(connector_keys.OFFSETS_TOPIC.name):
                name = connector_keys.OFFSETS_TOPIC.name
                log.warning("ignoring '%s' in standalone mode", name)
            return Lease(task, self._workers, None, timeout_s, self._on_closed, self._pulse)
        own = own_topic(self._config, task.connector, props, self._exactly_once)
        if own is None:
            return Lease(task, self._workers, None, timeout_s, lambda: None, self._pulse)
        with self._lock:
            shared = self._own.setdefault(own.key, _Shared(self._config, own))
            shared.users += 1
        try:
            store = shared.open()
        except BaseException:
            self._leave(shared)
            raise
        closed = partial(self._leave, shared)
        return Lease(task, self._workers, store, timeout_s, closed, self._pulse)

    def close(self) -> None:
        """Sends what was appended, then stops reading."""
        self._pulse.stop()
        with self._lock:
            own, self._own = list(self._own.values()), {}
        for shared in own:
            shared.close()
        if self._workers is not None:
            self._workers.log.close()

    def _leave(self, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            last = not shared.users and self._own.pop(shared.own.key, None) is shared
        if last:
            shared.close()


class _Shared:
    """A connector's own topic, shared by its tasks on this worker."""

    def __init__(self, config: Config, own: OwnTopic) -> None:
        self.own = own
        self.users = 0
        self._config = config
        self._opening = threading.Lock()
        self._store: _Store | None = None

    def open(self) -> _Store:
        """Creates the topic if it does not exist, and starts reading it; once."""
        with self._opening:
            if self._store is None:
                own = self.own
                client, _ = admin.connect(own.admin)
                partitions = admin.ensure(
                    client,
                    offsets_topic(self._config, own.topic, connector_keys.OFFSETS_TOPIC.name),
                )
                store = _Store(
                    lambda receive: CompactedLog(
                        own.topic,
                        partitions,
                        consumer=own.consumer,
                        producer=own.producer,
                        admin=client,
                        receive=receive,
                    )
                )
                store.log.open()
                self._store = store
            return self._store

    def close(self) -> None:
        with self._opening:
            if self._store is not None:
                self._store.log.close()


class Pulse:
    """Ticks while the process runs, and so detects pauses: a stopped process, a frozen container,
    or seconds without a CPU."""

    def __init__(self) -> None:
        self._beat = time.monotonic()
        self._frozen_at = self._beat - _FROZEN_S
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Safe to call twice, and before the start."""
        self._over.set()

    def was_frozen_since(self, moment: float) -> bool:
        """Whether there was a long pause after `moment`, on the monotonic clock."""
        self._look()  # the caller may run before the thread does
        return self._frozen_at > moment

    def _run(self) -> None:
        while not self._over.wait(_BEAT_S):
            self._look()

    def _look(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._beat > _FROZEN_S:
                self._frozen_at = now
            self._beat = now


class TakenOver(PenstockError):
    """Another worker has run the task meanwhile; this one is a zombie."""

    retriable = True  # if the task is still ours, it resumes at the other worker's offsets

    def __init__(self, task: TaskId, offset: api.SourceOffset) -> None:
        super().__init__(
            f"Another worker has stored an offset of task {task} for {dict(offset.partition)} "
            "while this worker was paused for longer than its session ('session.timeout.ms'). The "
            "task was reassigned; its new owner processes these records again."
        )


class Lease:
    """One start of one task, and its offsets. `store` is for at least once; `keys`, `forget` and
    `committed` are for exactly once, where the task's own transactions store them. After `close`
    nothing is stored any more: the task may have been reassigned.

    A worker that was paused or had no network must not overwrite newer offsets of the task's new
    owner. So after a pause it first checks whether another worker has stored offsets meanwhile, and
    when the task ends, offsets that are not acknowledged are dropped.
    """

    def __init__(
        self,
        task: TaskId,
        workers: _Store,
        own: _Store | None,
        timeout_s: float,
        closed: Callable[[], None],
        pulse: Pulse,
    ) -> None:
        self._task = task
        self._connector = task.connector
        self._workers = workers
        self._own = own
        self._timeout_s = timeout_s
        self._closed: Callable[[], None] | None = closed
        self._ours: dict[bytes, set[bytes | None]] = {}  # offsets that this task may have stored
        self._pulse = pulse
        self._checked_at = time.monotonic()
        self._storing = False
        self._lock = threading.Lock()

    def read(self, check: Callable[[], None]) -> Offsets:
        """The stored offsets of the connector, with both topics read to their ends; its own topic
        takes precedence. Calls `check` while it waits, which ends the wait by raising."""
        stored: dict[bytes, OffsetRecord] = {}
        for store in (self._workers, self._own):
            if store is not None:
                store.log.read_to_end(self._timeout_s, check)
                rows = store.table.of(self._connector)
                stored |= rows
                self._ours = {key: {_value(row)} for key, row in rows.items()}
        self._checked_at = time.monotonic()
        return [api.SourceOffset(row.partition, row.offset) for row in stored.values()]

    @property
    def has_own_topic(self) -> bool:
        """Whether the offsets go to the connector's own topic."""
        return self._own is not None

    def store(self, offsets: Offsets) -> None:
        """Returns when Kafka has stored the offsets, however long that takes. Raises TakenOver when
        another worker owns the task."""
        self.send(offsets)()

    def send(self, offsets: Offsets) -> Callable[[], None]:
        """`store` in two steps: the returned function waits until the offsets are stored."""
        self._storing = True
        try:
            sent = self._send(offsets)
        except BaseException:
            self._storing = False
            raise
        return partial(self._finish, offsets, sent)

    def _finish(self, offsets: Offsets, sent: list[Sent]) -> None:
        try:
            while True:
                try:
                    self._await_stored(offsets, sent)
                    return
                except Dropped:  # together with another task's records
                    sent = self._send(offsets)
        finally:
            self._storing = False

    def _send(self, offsets: Offsets) -> list[Sent]:
        """Appends the offsets; those for the connector's own topic follow later.

        Their tombstones go to the worker's topic first: in the other order a failure in between
        would resurrect the old offsets."""
        self._check_open()
        self._check_ours(offsets)
        for offset in offsets:
            self._ours.setdefault(partition_key(offset.partition), {None}).add(_value(offset))
        return self._append(self._workers, offsets if self._own is None else _forgotten(offsets))

    def _await_stored(self, offsets: Offsets, sent: list[Sent]) -> None:
        _await(sent)
        if self._own is not None:
            _await(self._append(self._own, offsets))
            self._copy_to_worker_topic(offsets)
        self._ours |= {partition_key(offset.partition): {_value(offset)} for offset in offsets}

    def _append(self, store: _Store, offsets: Offsets) -> list[Sent]:
        with self._lock:  # nothing is appended after `close`
            self._check_open()
            return store.append(self._connector, offsets)

    def _check_ours(self, offsets: Offsets) -> None:
        """Raises TakenOver when this worker was paused and another one has stored an offset since
        this task started."""
        now = time.monotonic()
        if not self._pulse.was_frozen_since(self._checked_at):
            return
        store = self._workers if self._own is None else self._own
        store.log.read_to_end(self._timeout_s, self._check_open)
        stored = store.table.of(self._connector)
        for offset in offsets:
            key = partition_key(offset.partition)
            row = stored.get(key)
            if (_value(row) if row else None) not in self._ours.get(key, {None}):
                raise TakenOver(self._task, offset)
        self._checked_at = now

    def keys(self) -> dict[bytes, bytes]:
        """The stored key bytes by canonical source partition, in the topic that the task's own
        transactions write to."""
        store = self._workers if self._own is None else self._own
        return store.table.keys(self._connector)

    def forget(self, offsets: Offsets) -> None:
        """Writes tombstones to the worker's topic, before a transaction writes them to the
        connector's own: in the other order a failure in between would resurrect the offsets."""
        self._check_open()
        if self._own is not None:
            _await(self._append(self._workers, _forgotten(offsets)), _TOMBSTONE_S)

    def encode(self, offsets: Offsets) -> list[Row]:
        """The records that store the offsets, for one of the worker's own transactions."""
        self.forget(offsets)
        store = self._workers if self._own is None else self._own
        return [store.table.encode(self._connector, offset) for offset in offsets]

    def committed(self, offsets: Offsets) -> None:
        """A transaction with these offsets is committed."""
        if self._own is not None and self._closed is not None:
            self._copy_to_worker_topic(offsets)

    def close(self) -> None:
        """Safe to call twice."""
        with self._lock:
            closed, self._closed = self._closed, None
            if closed is None:
                return
            if self._storing:
                for store in (self._workers, self._own):
                    if store is not None:
                        store.log.drop()
        closed()

    def _copy_to_worker_topic(self, offsets: Offsets) -> None:
        """Best effort: the worker's topic counts only where the connector's own has no offset."""
        not_forgotten = [offset for offset in offsets if offset.offset is not None]
        for sent in self._workers.append(self._connector, not_forgotten):
            sent.add_done_callback(self._log_failure)

    def _log_failure(self, sent: Sent) -> None:
        error = sent.exception()
        if error is not None:
            log.warning("Failed to write offsets to secondary backing store: %s", error)

    def _check_open(self) -> None:
        if self._closed is None:
            raise PenstockError(f"Task {self._task} has ended; its offsets are no longer stored.")


def _value(offset: api.SourceOffset | OffsetRecord) -> bytes | None:
    """An offset as stored; None: a tombstone."""
    return encode_offset(OffsetRecord("", offset.partition, offset.offset))[1]


def _forgotten(offsets: Offsets) -> list[api.SourceOffset]:
    return [offset for offset in offsets if offset.offset is None]


def _await(sent: Iterable[Sent], timeout_s: float | None = None) -> None:
    for future in sent:
        future.result(timeout_s)
