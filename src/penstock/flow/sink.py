"""A sink task: a member of the connector's consumer group, and the query that reads for it.

The member (librdkafka) gets partitions, heartbeats and commits; the records themselves are read in
Spark (`reading`), for exactly the partitions the member owns (design §4.4). While there is nothing
to read there is no query: the member waits for a record, and where one comes a query takes over.
The first of several tasks that begin together is given everything until the others are there; it
waits for them, rather than have a query that must give up what it began. What is written is
committed every `offset.flush.interval.ms`, and before a partition is given back, which happens only
after the batch in hand is written.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from penstock.config.regex import compile_java
from penstock.flow import offsets, reading, remote
from penstock.flow.engine import IDLE_S, Committed, Place, Query, Report, readable
from penstock.flow.members import put_out
from penstock.flow.plan import SinkPlan
from penstock.flow.source import batch_done
from penstock.flow.stage import RESULT_DDL, SinkStage
from penstock.logs import about

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

Positions = Mapping[Place, int]

EARLIEST: Final = OFFSET_BEGINNING  # Spark writes it so, too: from the first record there is
BATCH_RECORDS: Final = 500_000
"""Large, for what lies between two batches costs as much as 100,000 records. It need not be small
to stop soon: a stage that is asked to stop leaves the rest of its batch."""

_REMOTE_BATCH_RECORDS: Final = 200_000  # executors elsewhere cannot be asked

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics; a pattern does not mean them."""

_NO_MORE_THAN_ONE: Final[Mapping[str, int]] = {
    "max.partition.fetch.bytes": 1,  # a batch all the same, if there is one
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1,
    "fetch.queue.backoff.ms": 20,  # rather than up to a second before the first fetch
}
"""The member only wants to know that there is a record, not to have it."""

_TOPICS_REFRESH_S: Final = 5.0
_HEARTBEAT_MS: Final = 3000  # librdkafka's, where none is set
_JOIN_S: Final = 0.5
"""How long after its next heartbeat a member is sure to have heard of one that joined with it."""
_NAMED_S: Final = 0.2
"""How long Kafka takes at most, as a rule, to give a new member its id."""
_POLL_S: Final = 0.1
_RETRY_COMMIT_S: Final = 1.0
_LAST_COMMIT_S: Final = 3.0
_WHILE_SHARED_OUT: Final = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)
_KAFKA_TIMEOUT_S: Final = 30.0


class SinkQuery(Query):
    """Reads exactly the partitions in `start`; `committed` gets what each batch reached."""

    def __init__(
        self,
        spark: SparkSession,
        plan: SinkPlan,
        start: Positions,
        committed: Callable[[Positions], None],
        report: Report,
    ) -> None:
        super().__init__(spark, plan.task, plan.run)
        self._plan = plan
        self._next = start  # where the next batch of each partition starts
        self._records = 0  # of the last batch
        self._committed = committed
        self._report = report
        self._reader: reading.Reader | None = None

    @property
    def progress(self) -> Mapping[str, Any]:
        """What Spark tells of the last batch, with its records; those Spark itself has not seen."""
        found = super().progress
        return {**found, "numInputRows": self._records} if found else found

    def frame(self, checkpoint: Path) -> DataFrame:
        assign: dict[str, list[int]] = {}
        starting: dict[str, dict[str, int]] = {}
        for (topic, partition), position in sorted(self._next.items()):
            assign.setdefault(topic, []).append(partition)
            starting.setdefault(topic, {})[str(partition)] = position
        elsewhere = remote.is_remote(str(self._spark.sparkContext.master))
        return (
            self._spark.readStream.format("kafka")
            .options(**{f"kafka.{name}": text for name, text in self._plan.spark_kafka.items()})
            .option("assign", orjson.dumps(assign).decode())
            .option("startingOffsets", orjson.dumps(starting).decode())
            .option("maxOffsetsPerTrigger", _REMOTE_BATCH_RECORDS if elsewhere else BATCH_RECORDS)
            .option("failOnDataLoss", "false")  # as `auto.offset.reset`: go on with what is left
            .load()
        )

    def take(self, frame: DataFrame, checkpoint: Path, batch: int) -> list[Any]:
        """Of Spark's own frame only the account is used: what the batch is to read."""
        reached = _places(offsets.reached(checkpoint, batch))
        spans = [
            reading.Span(*place, start, reached[place])
            for place, start in self._next.items()
            if start < reached.get(place, start)
        ]
        self._next = reached
        if not spans:
            return []
        if self._reader is None:
            spark = frame.sparkSession  # the query's own, a copy of the worker's
            self._reader = reading.Reader(spark, self._plan.spark_kafka, self._staged)
        return self._reader.rows(spans)

    def _staged(self, chunks: DataFrame) -> DataFrame:
        return chunks.mapInArrow(SinkStage(self._plan, str(self._asked_to_stop)), RESULT_DDL)

    def after(self, checkpoint: Path, batch: int, rows: list[Any]) -> None:
        # Where a stage left its part of the batch, because it was asked to stop, counts; and what
        # has no part in it stays where it was.
        positions: Positions = {
            (row.topic, row.partition): row.position for row in rows if row.topic
        }
        if all(row.whole for row in rows):
            positions = self._next
        self._records = sum(row.records for row in rows)
        self._committed(positions)
        self._report(batch_done(self._plan.task, self._plan.run, rows, self.batch_ms))


def _places(reached: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    """Positions as Spark notes them."""
    return {
        (topic, int(partition)): position
        for topic, partitions in reached.items()
        for partition, position in partitions.items()
    }


class SinkTask:
    """Runs in a thread of its own from `start` to `stop`.

    `failed` is called with a trace when the task has ended because it could not go on; it has left
    the group by then, so that others, or its next start, get its partitions.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: SinkPlan,
        failed: Callable[[str], None],
        report: Report,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._failed = failed
        self._report = report
        self._consumer = Consumer({**plan.consumer, **_NO_MORE_THAN_ONE, "log_level": 3})
        self._lock = threading.RLock()  # guards the four below; batches commit from Spark's thread
        self._owned: dict[Place, int] = {}  # where the next batch of each partition starts
        self._uncommitted: dict[Place, int] = {}
        self._query: SinkQuery | None = None
        self._moved = False  # there may be more to read, or in other partitions, than a query does
        self._subscribed: list[str] = []
        self._share: int | None = None  # how many partitions are for it when all tasks are there
        self._settled_by = 0.0  # from then on it reads whatever it owns, whoever has joined
        self._watched: set[Place] = set()  # where the member waits for a record
        self._stopping = threading.Event()
        self._closing = False
        self._grace_s = 5.0
        self._in_time = True
        run = about(plan.task)(self._run)
        self._thread = threading.Thread(target=run, name=f"sink-{plan.task}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Finishes the batch in hand, commits and leaves the group; False if it was cut off."""
        self._grace_s = timeout_s
        self._stopping.set()
        self._thread.join(timeout_s + 10)
        return self._in_time and not self._thread.is_alive()

    @property
    def positions(self) -> dict[Place, int]:
        """Where each partition that it owns is read next."""
        with self._lock:
            return dict(self._owned)

    @property
    def settings(self) -> Mapping[str, object]:
        """Its consumer's."""
        return self._plan.consumer

    @property
    def progress(self) -> Mapping[str, Any]:
        """See `Query.progress`; empty while there is no query."""
        query = self._query
        return query.progress if query is not None else {}

    def _run(self) -> None:
        trace: str | None = None
        try:
            trace = self._loop()
        except BaseException as error:
            trace = readable(error)
        finally:
            self._in_time = self._end_query(self._grace_s)
            self._commit_at_last()
            self._leave()
        if trace is not None and not self._stopping.is_set():
            self._failed(trace)

    def _leave(self) -> None:
        member: str | None = None
        try:
            if self._subscribed and not self._consumer.memberid():
                self._consumer.poll(_NAMED_S)
            member = self._consumer.memberid()
            self._closing = True
            self._consumer.close()
        except Exception as error:  # its callbacks' errors, too
            log.warning("the consumer was not closed in order: %s", error)
        if member:
            put_out(self._plan.group_admin, str(self._plan.consumer["group.id"]), member)

    def _loop(self) -> str | None:
        """Runs until the task is stopped, or until its query fails; then its trace."""
        refresh, commit = 0.0, time.monotonic() + self._plan.commit_interval_ms / 1000
        while not self._stopping.is_set():
            now = time.monotonic()
            if now >= refresh:
                topics = self._topics()
                if topics and topics != self._subscribed:
                    self._subscribed = topics
                    self._consumer.subscribe(
                        topics,
                        on_assign=self._on_assign,
                        on_revoke=self._on_revoke,
                        on_lost=self._on_lost,
                    )
                refresh = now + _TOPICS_REFRESH_S if self._plan.topics_regex else float("inf")
            if not self._subscribed:
                self._stopping.wait(0.2)
                continue
            message = self._consumer.poll(_POLL_S)
            if message is not None and message.error() is None and self._watched:
                self._pause()
                self._moved = True
            if now >= commit:
                refusal = self._commit()
                commit = now + (
                    _RETRY_COMMIT_S if refusal else self._plan.commit_interval_ms / 1000
                )
            query = self._query
            if self._moved and self._is_settled(now):
                self._read()  # there was a record, or a query, so there may be more to read
            elif query is not None and not query.alive:
                return query.ended()
            elif query is not None and query.idle_s > IDLE_S:
                self._watch()
        return None

    def _topics(self) -> list[str]:
        if self._plan.topics_regex is None:
            return list(self._plan.topics)
        known = self._consumer.list_topics(timeout=_KAFKA_TIMEOUT_S).topics
        pattern = compile_java(self._plan.topics_regex)
        return sorted(t for t in known if t not in _INTERNAL and pattern.fullmatch(t))

    def _is_settled(self, now: float) -> bool:
        """Whether it may read what it owns: no more than its share, or nobody else came for it."""
        if now >= self._settled_by:
            return True
        if self._share is None:
            self._share = self._fair_share()
        return len(self._owned) <= self._share

    def _fair_share(self) -> int:
        """The most partitions a task has when all are there; 0, so that it waits, if Kafka does not
        say how many there are."""
        try:
            known = self._consumer.list_topics(timeout=_JOIN_S).topics
        except KafkaException as error:
            log.debug("how many partitions there are is not known yet: %s", error)
            return 0
        partitions = sum(len(known[name].partitions) for name in self._subscribed if name in known)
        return -(-partitions // self._plan.tasks)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not partitions or self._closing:  # a consumer that is being closed is told nothing more
            consumer.incremental_assign(partitions)
            return
        if not self._settled_by and self._plan.tasks > 1:
            heartbeat_ms = int(self._plan.consumer.get("heartbeat.interval.ms", _HEARTBEAT_MS))
            self._settled_by = time.monotonic() + heartbeat_ms / 1000 + _JOIN_S
        for at in consumer.committed(partitions, timeout=_KAFKA_TIMEOUT_S):
            if at.offset < 0:
                at.offset = self._reset(at)
            with self._lock:
                self._owned[at.topic, at.partition] = at.offset
        with self._lock:
            places = [
                TopicPartition(at.topic, at.partition, self._owned[at.topic, at.partition])
                for at in partitions
            ]
        consumer.incremental_assign(places)
        if self._query is None:
            consumer.resume(places)  # a pause outlives the assignment it was made in
            self._watched |= {(at.topic, at.partition) for at in places}
        else:
            consumer.pause(partitions)
            self._moved = True

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._moved = self._moved or self._query is not None
        self._end_query(self._grace_s)
        self._commit()
        self._forget(partitions)
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Somebody else owns them already: what the batch in hand writes is written twice, but
        # nothing of it may be committed from here.
        self._moved = self._moved or self._query is not None
        self._forget(partitions)
        self._end_query(0)
        consumer.incremental_unassign(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        with self._lock:
            for at in partitions:
                self._owned.pop((at.topic, at.partition), None)
                self._uncommitted.pop((at.topic, at.partition), None)
                self._watched.discard((at.topic, at.partition))

    def _reset(self, at: TopicPartition) -> int:
        """Where a partition begins that has no committed offset."""
        match self._plan.consumer.get("auto.offset.reset"):
            case "latest" | "largest" | "end":
                ends = self._consumer.get_watermark_offsets(at, timeout=_KAFKA_TIMEOUT_S)
                assert ends is not None
                return ends[1]
            case _:
                return EARLIEST

    def _watch(self) -> None:
        """Ends the query, and waits for a record in what we own now."""
        self._end_query(self._grace_s)
        with self._lock:
            owned = dict(self._owned)
        places = [TopicPartition(topic, part, at) for (topic, part), at in owned.items()]
        try:
            for place in places:
                self._consumer.seek(place)
            self._consumer.resume(places)
            self._watched = set(owned)
        except KafkaException as error:  # a partition that is only just being opened
            log.debug("not watched yet: %s", error)
            self._moved = True

    def _pause(self) -> None:
        """Ends the waiting for a record."""
        self._consumer.pause([TopicPartition(*place) for place in self._watched])
        self._watched = set()

    def _read(self) -> None:
        """Replaces the waiting, or a query that read something else, by one for what we own."""
        self._pause()
        self._moved = False
        self._end_query(self._grace_s)
        with self._lock:
            start = dict(self._owned)
        if start:
            query = SinkQuery(self._spark, self._plan, start, self._reached, self._report)
            query.start()
            self._query = query

    def _end_query(self, timeout_s: float) -> bool:
        query, self._query = self._query, None
        return query is None or query.stop(timeout_s)

    def _reached(self, positions: Positions) -> None:
        with self._lock:
            for place, position in positions.items():
                if place in self._owned:
                    self._owned[place] = position
                    self._uncommitted[place] = position

    def _commit_at_last(self) -> None:
        """Commits before it leaves. Kafka gets a commit that is made while the group is shared out
        anew after that is done, and refuses it then as an old one's; it takes the next."""
        until = time.monotonic() + _LAST_COMMIT_S
        while (refusal := self._commit()) and time.monotonic() < until:
            error = refusal.args[0] if refusal.args else None
            if not (isinstance(error, KafkaError) and error.code() in _WHILE_SHARED_OUT):
                return
            try:
                self._consumer.poll(_POLL_S)
            except Exception as failure:  # its callbacks' errors, too
                log.warning("offsets were not committed again: %s", readable(failure))
                return

    def _commit(self) -> Exception | None:
        """Commits what is written; why Kafka refused it, if so. That is no loss: it is tried again,
        or, if the partition moved on, its new owner gets the records once more."""
        with self._lock:
            positions = dict(self._uncommitted)
        if not positions:
            return None
        rows = [TopicPartition(topic, part, at) for (topic, part), at in positions.items()]
        began = time.monotonic()
        error: Exception | None = None
        try:
            self._consumer.commit(offsets=rows, asynchronous=False)
        except (KafkaException, RuntimeError) as refusal:
            error = refusal
            log.warning("offsets were not committed: %s", error)
        ms, owned = (time.monotonic() - began) * 1000, len(self._owned)
        self._report(Committed(self._plan.task, self._plan.run, error is None, ms, owned))
        if error is None:
            with self._lock:
                for place, position in positions.items():
                    if self._uncommitted.get(place) == position:
                        del self._uncommitted[place]
        return error
