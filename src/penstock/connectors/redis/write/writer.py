"""Writes the records of one sink task.

A batch is sent in pipelines. What the server refuses costs only its record; what it cannot take now
(it is busy, full, loading, or a replica) is sent again, and after a while the engine repeats the
batch: then only what was not answered is sent. Of several values of a key only the last is sent,
where each replaces the whole.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api import (
    Batching,
    Failed,
    PenstockError,
    Records,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.connectors.keyed.batches import last_ones
from penstock.connectors.redis.client.access import Access
from penstock.connectors.redis.client.errors import RecordRefused, RedisUnavailable
from penstock.connectors.redis.client.packing import unpack
from penstock.connectors.redis.client.servers import Servers
from penstock.connectors.redis.write.commands import Commands
from penstock.connectors.redis.write.offsets import read_offsets, store_offsets
from penstock.connectors.redis.write.pipeline import Outcome, Pipeline
from penstock.connectors.redis.write.plan import Maker, SinkPlan

log = logging.getLogger(__name__)

_LONGEST_MS: Final = 2_000
_OFFSET_ATTEMPTS: Final = 5
_OFFSET_WAIT_S: Final = 0.5
_MOVES: Final = 2  # how often keys are looked for elsewhere at once

Place = tuple[str, int | None, int, int, int]


@dataclass(slots=True)
class _Left:
    """Of a batch that is to be repeated: the commands that were not done, and the refused ones."""

    place: Place
    numbers: list[int]
    refused: dict[int, str]


class RedisWriter(SinkWriter):
    """Writes a task's records with the commands of its plan."""

    batching = Batching(by_partition=False)

    def __init__(self, plan: SinkPlan, access: Access, context: SinkContext) -> None:
        self._plan = plan
        self._context = context
        self._access = access
        self._servers = Servers(access, context.wait)
        self._pipeline = Pipeline(self._servers, plan.limits)
        self._left: _Left | None = None
        self._stored: dict[TopicPartition, int] = {}

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
        if not self._plan.offsets or not partitions:
            return
        found = self._offsets(partitions)
        self._stored.update(found)
        elsewhere = {at: found[at] for at in partitions if found[at] != partitions[at]}
        if elsewhere:
            for at, offset in elsewhere.items():
                log.info("Redis has %s up to offset %d: going on there", at, offset)
            self._context.seek(elsewhere)

    def _offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets in Redis, tried some times: here an error fails the task."""
        for _ in range(_OFFSET_ATTEMPTS):
            try:
                return read_offsets(self._servers, self._plan.offsets, partitions)
            except RedisUnavailable:
                if self._context.wait(_OFFSET_WAIT_S):
                    break
        return read_offsets(self._servers, self._plan.offsets, partitions)

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        for at in partitions if lost else ():
            self._stored.pop(at, None)

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        commands = self._plan.maker.make(records, failed)
        place = _place(records)
        left, self._left = self._left, None
        before: dict[int, int | None] = {}
        if commands.replaces:
            before = last_ones(commands.keys)
        if left is None or left.place != place:
            numbers = list(before) if commands.replaces else list(range(len(commands)))
            left = _Left(place, numbers, {})
        attempt = 0
        try:
            while left.numbers:
                outcome = self._pipeline.send(commands, left.numbers)
                _account(commands, left, outcome, before)
                if not left.numbers:
                    break
                attempt += 1
                if outcome.waits or attempt > _MOVES:
                    self._back_off(attempt, outcome)
            self._pipeline.confirm()
        except PenstockError as error:
            if error.retriable:
                self._left = left
            raise
        for number, text in left.refused.items():
            self._refuse(commands.rows[number], text, records, failed)

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Stores the offsets, if they are kept in Redis; commits nothing where that fails."""
        if not self._plan.offsets:
            return reached
        new = {at: offset for at, offset in reached.items() if self._stored.get(at) != offset}
        try:
            store_offsets(self._servers, self._plan.offsets, new)
        except PenstockError as error:
            if not error.retriable:
                raise
            log.warning("Offsets are not stored in Redis, and not committed: %s", error)
            return {}
        self._stored.update(new)
        return reached

    def close(self) -> None:
        self._servers.close()

    def _back_off(self, attempt: int, outcome: Outcome) -> None:
        """Waits before the next attempt, longer each time. Raises RedisUnavailable when there
        were enough."""
        plan, access = self._plan, self._access
        enough, most_s = plan.busy_attempts, min(plan.backoff_ms * 2**attempt, _LONGEST_MS) / 1000
        if outcome.broken:
            enough, most_s = access.attempts, access.delay_s
        if attempt >= enough or self._context.wait(most_s * random.uniform(0.5, 1)):
            raise RedisUnavailable(outcome.why)

    def _refuse(self, row: int, text: str, records: Records, failed: Failed) -> None:
        if self._plan.drops_refused:
            log.warning(
                "Redis refuses the record at %s-%s@%d, which is left out: %s",
                records.topics[row], records.partitions[row], records.offsets[row], text,
            )  # fmt: skip
        else:
            failed.setdefault(row, RecordRefused(f"Redis refuses the record: {text}"))


def _account(
    commands: Commands, left: _Left, outcome: Outcome, before: dict[int, int | None]
) -> None:
    """Takes what was done from what is left."""
    again = set(outcome.again)
    left.refused.update(outcome.refused)
    for number in outcome.refused:
        earlier = before.get(number)
        if earlier is not None:
            again.add(earlier)  # the last value of the key that may count
            before.setdefault(earlier, _earlier(commands, earlier))
    if again and not commands.replaces:
        # What follows a repeated command of a key is repeated, too: the last one counts.
        firsts: dict[bytes, int] = {}
        for number in sorted(again - commands.once):
            firsts.setdefault(commands.keys[number], number)
        again.update(
            number
            for number in left.numbers
            if number not in commands.once
            and number not in outcome.refused
            and firsts.get(commands.keys[number], number) < number
        )
    left.numbers = sorted(again)


def _earlier(commands: Commands, number: int) -> int | None:
    key = commands.keys[number]
    return next((each for each in range(number - 1, -1, -1) if commands.keys[each] == key), None)


def _place(records: Records) -> Place:
    last = len(records) - 1
    return (
        records.topics[0],
        records.partitions[0],
        records.offsets[0],
        records.offsets[last],
        len(records),
    )


class ToldWriter(SinkWriter):
    """Connects to nothing, and tells the commands, a line each."""

    def __init__(self, maker: Maker, tell: Callable[[str], None]) -> None:
        self._maker = maker
        self._tell = tell

    def write(self, records: Records, failed: Failed) -> None:
        commands = self._maker.make(records, failed)
        for number in range(len(commands)):
            for data in commands.bytes_of([number]):
                self._tell(shown(unpack(data)))


def shown(words: Iterable[bytes]) -> str:
    """A command as redis-cli takes it.

    >>> shown([b"SET", b"a key", b"5"])
    'SET "a key" 5'
    """
    return " ".join(map(_shown, words))


def _shown(word: bytes) -> str:
    text = word.decode("utf-8", "backslashreplace")
    if text and all(each.isprintable() and each not in " \"'" for each in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
