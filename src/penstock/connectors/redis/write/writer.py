"""Writes the records of one sink task.

A batch is sent in pipelines. A command that the server refuses fails only its record. The writer
retries commands while the server is busy, full, loading, or a replica. After a while the engine
retries the batch: then only the unanswered commands are sent. If each command replaces the whole
value of its key, only the last one of each key is sent.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api import (
    Backoff,
    Batching,
    Failed,
    Jitter,
    PenstockError,
    Records,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.connectors.keyed.batches import last_ones
from penstock.connectors.keyed.fatal import FailingWriter
from penstock.connectors.redis.client.access import Access
from penstock.connectors.redis.client.errors import RecordRefused, RedisUnavailable
from penstock.connectors.redis.client.packing import unpack
from penstock.connectors.redis.client.servers import Servers
from penstock.connectors.redis.write.commands import Commands
from penstock.connectors.redis.write.offsets import (
    Kept,
    read_offsets,
    store_lineages,
    store_offsets,
)
from penstock.connectors.redis.write.pipeline import Outcome, Pipeline
from penstock.connectors.redis.write.plan import Maker, SinkPlan

log = logging.getLogger(__name__)

_OFFSET_ATTEMPTS: Final = 5
_OFFSET_WAIT_S: Final = 0.5
_MOVES: Final = 2  # redirections of keys without a pause

BatchId = tuple[str, int | None, int, int, int]


@dataclass(slots=True)
class _Left:
    """The unfinished commands of a batch to be retried, and the refused ones."""

    batch_id: BatchId
    numbers: list[int]
    refused: dict[int, str]


class RedisWriter(FailingWriter):
    """Writes a task's records with the commands of its plan."""

    batching = Batching(by_partition=False)

    def __init__(self, plan: SinkPlan, access: Access, context: SinkContext) -> None:
        super().__init__()
        self._plan = plan
        self._context = context
        self._access = access
        self._servers = Servers(access, context.wait)
        self._pipeline = Pipeline(self._servers, plan.limits)
        self._unfinished: _Left | None = None
        self._stored: dict[TopicPartition, Kept] = {}

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
        if not self._plan.offsets or not partitions:
            return
        stored = self._offsets(partitions)
        starts = {
            at: kept.start(partitions[at], self._context.lineage(at)) for at, kept in stored.items()
        }
        self._stored.update(stored)
        seeks = {at: start for at, start in starts.items() if start != partitions[at]}
        if seeks:
            for topic_partition, offset in seeks.items():
                log.info("Redis has %s up to offset %d; resuming there", topic_partition, offset)
            self._context.seek(seeks)

    def _offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Kept]:
        """The offsets in Redis. Retries, since an error here fails the task."""
        for _ in range(_OFFSET_ATTEMPTS):
            try:
                return read_offsets(self._servers, self._plan.offsets, partitions)
            except RedisUnavailable:
                if self._context.wait(_OFFSET_WAIT_S):
                    break
        return read_offsets(self._servers, self._plan.offsets, partitions)

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        for topic_partition in partitions if lost else ():
            self._stored.pop(topic_partition, None)

    def write_batch(self, records: Records, failed: Failed) -> None:
        commands = self._plan.maker.make(records, failed)
        if failed and not self._context.tolerates_errors:
            return  # the task fails, and the whole batch is written again
        batch_id = _batch_id(records)
        unfinished, self._unfinished = self._unfinished, None
        earlier_of: dict[int, int | None] = {}
        if commands.replaces:
            earlier_of = last_ones(commands.keys)
        if unfinished is None or unfinished.batch_id != batch_id:
            numbers = list(earlier_of) if commands.replaces else list(range(len(commands)))
            unfinished = _Left(batch_id, numbers, {})
        attempt = 0
        try:
            while unfinished.numbers:
                outcome = self._pipeline.send(commands, unfinished.numbers)
                _account(commands, unfinished, outcome, earlier_of)
                if not unfinished.numbers:
                    break
                attempt += 1
                if outcome.waits or attempt > _MOVES:
                    self._back_off(attempt, outcome)
            self._pipeline.confirm()
        except PenstockError as error:
            if error.retriable:
                self._unfinished = unfinished
            raise
        for number, text in unfinished.refused.items():
            self._refuse(commands.rows[number], text, records, failed)

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Stores the offsets if the plan keeps them in Redis; if that fails, commits nothing."""
        reached = super().pre_commit(reached)
        if not self._plan.offsets:
            return reached
        kept = {at: Kept(offset, self._context.lineage(at)) for at, offset in reached.items()}
        new = {at: each for at, each in kept.items() if self._stored.get(at) != each}
        lineages = {
            at: lineage
            for at, each in new.items()
            if (lineage := each.lineage) and not self._has_lineage(at, lineage)
        }
        try:
            store_lineages(self._servers, self._plan.offsets, lineages)
            store_offsets(
                self._servers, self._plan.offsets, {at: each.offset for at, each in new.items()}
            )
        except PenstockError as error:
            if not error.retriable:
                raise
            log.warning("Cannot store offsets in Redis, so they are not committed: %s", error)
            return {}
        self._stored.update(new)
        return reached

    def _has_lineage(self, at: TopicPartition, lineage: str) -> bool:
        stored = self._stored.get(at)
        return stored is not None and stored.lineage == lineage

    def close(self) -> None:
        self._servers.close()

    def _back_off(self, attempt: int, outcome: Outcome) -> None:
        """Waits before the next attempt, longer each time. Raises RedisUnavailable after the
        last one."""
        plan, access = self._plan, self._access
        backoff, max_attempts = plan.busy_backoff, plan.busy_attempts
        if outcome.broken:
            backoff = Backoff.fixed(access.delay_s * 1000, Jitter.HALF)
            max_attempts = access.attempts
        pause_s = backoff.delay_ms(attempt + 1, random) / 1000
        if attempt >= max_attempts or self._context.wait(pause_s):
            raise RedisUnavailable(outcome.why)

    def _refuse(self, row: int, text: str, records: Records, failed: Failed) -> None:
        if self._plan.drops_refused:
            log.warning(
                "Redis refused the record at %s-%s@%d, which is skipped: %s",
                records.topics[row], records.partitions[row], records.offsets[row], text,
            )  # fmt: skip
        else:
            failed.setdefault(row, RecordRefused(f"Redis refused the record: {text}"))


def _account(
    commands: Commands, unfinished: _Left, outcome: Outcome, earlier_of: dict[int, int | None]
) -> None:
    """Updates the unfinished commands after an outcome."""
    repeated = set(outcome.again)
    unfinished.refused.update(outcome.refused)
    for number in outcome.refused:
        earlier = earlier_of.get(number)
        if earlier is not None:
            repeated.add(earlier)  # now the last value of the key
            earlier_of.setdefault(earlier, _earlier(commands, earlier))
    if repeated and not commands.replaces:
        # Also repeat later commands for a repeated one's key: the last must win.
        firsts: dict[bytes, int] = {}
        for number in sorted(repeated - commands.once):
            firsts.setdefault(commands.keys[number], number)
        repeated.update(
            number
            for number in unfinished.numbers
            if number not in commands.once
            and number not in outcome.refused
            and firsts.get(commands.keys[number], number) < number
        )
    unfinished.numbers = sorted(repeated)


def _earlier(commands: Commands, number: int) -> int | None:
    key = commands.keys[number]
    return next((other for other in range(number - 1, -1, -1) if commands.keys[other] == key), None)


def _batch_id(records: Records) -> BatchId:
    last = len(records) - 1
    return (
        records.topics[0],
        records.partitions[0],
        records.offsets[0],
        records.offsets[last],
        len(records),
    )


class PreviewWriter(SinkWriter):
    """Shows the commands, one per line, without connecting."""

    def __init__(self, maker: Maker, show: Callable[[str], None]) -> None:
        self._maker = maker
        self._show = show

    def write(self, records: Records, failed: Failed) -> None:
        commands = self._maker.make(records, failed)
        for number in range(len(commands)):
            for data in commands.bytes_of([number]):
                self._show(shown(unpack(data)))


def shown(words: Iterable[bytes]) -> str:
    """A command in the syntax of redis-cli.

    >>> shown([b"SET", b"a key", b"5"])
    'SET "a key" 5'
    """
    return " ".join(map(_shown, words))


def _shown(word: bytes) -> str:
    text = word.decode("utf-8", "backslashreplace")
    if text and all(char.isprintable() and char not in " \"'" for char in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
