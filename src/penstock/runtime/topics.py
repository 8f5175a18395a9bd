"""Opens, reads and writes a worker's internal topics, as the herder commands."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from penstock.cluster import events as e
from penstock.cluster.records import StatusRecord, encode_config, encode_status
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.config.define import Config
from penstock.errors import PenstockError
from penstock.kafka import admin, clients
from penstock.kafka.fencing import FencedWriter
from penstock.kafka.log import START_S, CompactedLog, Dropped, LogEntry
from penstock.offsets.store import (
    COMMITTED,
    OPEN_TRANSACTION_S,
    PRODUCER,
    Log,
    OffsetStore,
    Receive,
    offsets_topic,
)
from penstock.runtime.ports import Alone

log = logging.getLogger(__name__)


class InternalTopics:
    """The config topic, the status topic and the offset store, from `open` to `close`. Records read
    from the first two become events."""

    def __init__(
        self,
        config: Config,
        client: AdminClient,
        offsets: OffsetStore,
        post: Callable[[e.Event], None],
        alone: Alone | None,
    ) -> None:
        self._config = config
        self._client = client
        self._offsets = offsets
        self._post = post
        self._alone = alone
        self._exactly_once = worker_config.exactly_once(config)
        self._config_log: Log | None = None
        self._status_log: Log | None = None
        self._writer: FencedWriter | None = None

    def open(self) -> None:
        """Creates the topics that are missing and checks the others. Raises StartupFailed."""
        if self._alone is not None:
            self._config_log, self._status_log = self._alone.open(
                self._on_config_entries, self._on_status_entries, self._offsets
            )
            return
        config = self._config
        consumer = clients.consumer(config.props).settings
        # KIP-618: once all workers are "enabled", all of them read committed records only; before,
        # the isolation level is the Java client's default.
        consumer.setdefault("isolation.level", "read_uncommitted")
        if self._exactly_once:
            consumer["isolation.level"] = COMMITTED
        producer = clients.producer(config.props).settings
        base = worker_config.client_id_base(config)

        def opened(key: str, suffix: str, receive: Receive) -> CompactedLog:
            client_id = {"client.id": base + suffix}
            return CompactedLog(
                topics[key].name,
                partitions[key],
                consumer={**consumer, **client_id},
                producer={**producer, **client_id, **PRODUCER},
                admin=self._client,
                receive=receive,
            )

        topics = _settings(config)
        with ThreadPoolExecutor(len(topics), thread_name_prefix="topics") as pool:
            checks = {key: pool.submit(admin.ensure, self._client, topics[key]) for key in topics}
        partitions = {key: check.result() for key, check in checks.items()}
        self._offsets.use(lambda receive: opened("offset", "offsets", receive))
        self._status_log = opened("status", "statuses", self._on_status_entries)
        self._config_log = opened("config", "configs", self._on_config_entries)
        leader = {**producer, "client.id": f"{base}configs-leader"}
        leader.pop("delivery.timeout.ms", None)  # the transaction's timeout applies instead
        self._writer = FencedWriter(
            topics["config"].name, f"connect-cluster-{config[keys.GROUP_ID]}", leader
        )

    def start(self) -> None:
        """Reads all topics to their ends: statuses after the configurations that they belong to,
        offsets meanwhile."""
        assert self._config_log is not None
        assert self._status_log is not None
        with ThreadPoolExecutor(1, thread_name_prefix="topics") as pool:
            offsets = pool.submit(self._offsets.start)
            self._config_log.start(OPEN_TRANSACTION_S if self._exactly_once else START_S)
            self._status_log.start()
            offsets.result()

    def close(self) -> None:
        for opened in (self._config_log, self._status_log):
            if opened is not None:
                opened.close()
        self._offsets.close()

    def read_config(self, timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
        """Reads the config topic to its end. Calls `check` while it waits, which ends the wait by
        raising. Raises PenstockError when the time has passed."""
        assert self._config_log is not None
        self._config_log.read_to_end(timeout_s, check)

    def append_status(self, record: StatusRecord) -> None:
        assert self._status_log is not None
        sent = self._status_log.append(*encode_status(record))
        sent.add_done_callback(_log_lost_status)

    def append_config(self, command: e.AppendConfig) -> None:
        """Appends records; an event follows when Kafka has acknowledged all of them."""
        assert self._config_log is not None
        sent = [self._config_log.append(*encode_config(record)) for record in command.records]

        lock = threading.Lock()
        open_sends = len(sent)

        def stored(_: Future[tuple[int, int]]) -> None:
            nonlocal open_sends
            with lock:  # the first may complete here, and later ones in Kafka's thread
                open_sends -= 1
                if open_sends:
                    return
            failures = (future.exception() for future in sent)
            error = next((failure for failure in failures if failure is not None), None)
            offset = -1 if error else max(future.result()[1] for future in sent)
            self._post(e.Appended(command.ticket, offset, str(error) if error else None))

        for future in sent:
            future.add_done_callback(stored)

    def write_config(self, command: e.AppendConfig) -> None:
        """Writes records as the leader, in one transaction. Blocks."""
        assert self._writer is not None
        rows = [encode_config(record) for record in command.records]
        try:
            offset = self._writer.write(rows)
        except PenstockError as error:
            log.warning(
                "Failed to write to config topic as leader; will rejoin group if necessary and, if "
                "still leader, attempt to reclaim write privileges for the config topic: %s",
                error,
            )
            self._post(e.Appended(command.ticket, -1, str(error), fenced=True))
        else:
            self._post(e.Appended(command.ticket, offset))

    def acquire_write_access(self, command: e.AcquireWriteAccess) -> None:
        """Fences the previous leader's producer. Blocks."""
        assert self._writer is not None
        try:
            self._writer.claim()
        except PenstockError as error:
            log.warning("Unable to claim write privileges for config topic: %s", error)
            self._post(e.WriteAccessAcquired(command.ticket, str(error)))
        else:
            log.info("elected leader; acquired write access to the config topic")
            self._post(e.WriteAccessAcquired(command.ticket))

    def _on_config_entries(self, entries: Sequence[LogEntry]) -> None:
        self._post(e.ConfigRead(tuple((row.offset, row.key, row.value) for row in entries)))

    def _on_status_entries(self, entries: Sequence[LogEntry]) -> None:
        self._post(e.StatusRead(tuple((row.key, row.value) for row in entries)))


def _settings(config: Config) -> dict[str, admin.InternalTopic]:
    """The three internal topics with their settings (kafka-connect.md §2.3, §2.6)."""

    def settings(prefix: str) -> dict[str, str]:
        result = worker_config.topic_settings(config, prefix)
        for name in result.dropped:
            log.warning("ignoring '%s': penstock sets this for its internal topics", name)
        return result.settings

    return {
        "offset": replace(
            offsets_topic(config, config[keys.OFFSET_STORAGE_TOPIC]),
            settings=settings(keys.OFFSET_STORAGE_PREFIX),
        ),
        "status": admin.InternalTopic(
            config[keys.STATUS_STORAGE_TOPIC],
            keys.STATUS_STORAGE_TOPIC.name,
            "connector and task statuses",
            config[keys.STATUS_STORAGE_PARTITIONS],
            config[keys.STATUS_STORAGE_REPLICATION],
            create=config[keys.INTERNAL_TOPICS_CREATION],
            settings=settings(keys.STATUS_STORAGE_PREFIX),
        ),
        "config": admin.InternalTopic(
            config[keys.CONFIG_STORAGE_TOPIC],
            keys.CONFIG_STORAGE_TOPIC.name,
            "connector configurations",
            1,
            config[keys.CONFIG_STORAGE_REPLICATION],
            single=True,
            create=config[keys.INTERNAL_TOPICS_CREATION],
            settings=settings(keys.CONFIG_STORAGE_PREFIX),
        ),
    }


def _log_lost_status(sent: Future[tuple[int, int]]) -> None:
    error = sent.exception()
    if error is not None and not isinstance(error, Dropped):
        log.error("Failed to write status update: %s", error)
