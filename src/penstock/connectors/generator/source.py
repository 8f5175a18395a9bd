"""The source of generated records, also under the name of Confluent's datagen connector.

Offsets are datagen's: `{"task.id": 0}` → `{"task.generation": 1, "current.iteration": 500,
"random.seed": 42}`, with the number of the next record and the seed. Records have its headers.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson

from penstock.api import (
    VERSION,
    Column,
    Finding,
    Header,
    Offsets,
    PenstockError,
    Plugin,
    Polled,
    Primitive,
    Props,
    Records,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.schema import INT64, OPTIONAL_STRING, STRING, Value
from penstock.api.settings import Config
from penstock.connectors.generator.settings import (
    AT_END,
    DATAGEN,
    ERROR_RATE,
    INTERVAL,
    ITERATIONS,
    RATE,
    SEED,
    TASK,
    TOPIC,
    Design,
    SchemaUnusable,
    design_of,
)

_TASK_ID: Final = "task.id"
_GENERATION: Final = "task.generation"
_ITERATION: Final = "current.iteration"
_SEED: Final = "random.seed"

BLOCK: Final = 1024
"""Records that are made at once, from one seed."""
_BEHIND_MS: Final = 1_000
"""Late records are sent if they are no later than this."""


class DatagenSource(SourceConnector):
    """Generates records."""

    plugin = Plugin(
        class_name="io.confluent.kafka.connect.datagen.DatagenConnector",
        version=VERSION,
        config=DATAGEN,
        task_class="io.confluent.kafka.connect.datagen.DatagenTask",
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        try:
            design_of(config)
        except SchemaUnusable as error:
            yield Finding(error.setting, error.text)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [{**config.props, TASK.name: str(task)} for task in range(max_tasks)]

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for source_offset in offsets:
            task = source_offset.partition.get(_TASK_ID)
            if isinstance(task, bool) or not isinstance(task, int):
                raise PenstockError(f"Partition objects should contain an integer as '{_TASK_ID}'")
            if source_offset.offset is not None:
                _State.of(source_offset.offset)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        task = config[TASK]
        stored = context.stored_offset({_TASK_ID: task})
        if stored is not None:
            state = _State.of(stored)
        else:
            seed = config[SEED]
            state = _State(0, 0, random.getrandbits(62) if seed is None else seed)
        return GeneratorReader(
            design_of(config),
            config[TOPIC],
            task,
            state,
            _pace(config),
            context,
            end=_end(config),
            error_rate=config[ERROR_RATE],
        )


@dataclass(frozen=True, slots=True)
class _State:
    """Where a task begins."""

    generation: int
    first: int
    seed: int

    @classmethod
    def of(cls, offset: Mapping[str, Primitive]) -> _State:
        """Raises PenstockError for an invalid offset."""
        numbers = []
        for name in (_GENERATION, _ITERATION, _SEED):
            number = offset.get(name)
            if isinstance(number, bool) or not isinstance(number, int):
                raise PenstockError(
                    f"The offset has {number!r} as '{name}', which is not an integer"
                )
            numbers.append(number)
        if numbers[1] < 0:
            raise PenstockError(f"The offset has the negative value {numbers[1]} as '{_ITERATION}'")
        return cls(*numbers)


@dataclass(frozen=True, slots=True)
class _End:
    """The number of records, None if unlimited; and whether the task fails after them."""

    records: int | None
    fails: bool


class GeneratorReader(SourceReader):
    """Makes records when they are due."""

    idle_ms = 0  # `poll` waits

    def __init__(
        self,
        design: Design,
        topic: str,
        task: int,
        state: _State,
        pace: Callable[[], float],
        context: SourceContext,
        *,
        end: _End,
        error_rate: float,
    ) -> None:
        """`pace` returns the time to the next record, in ms."""
        self._design = design
        self._topic = topic
        self._task = task
        self._state = state
        self._pace = pace
        self._context = context
        self._end = end
        self._error_rate = error_rate
        self._next = state.first
        self._stored = state.first
        self._due_ms = _now() + pace()
        self._block: tuple[int, list[Value]] = (-1, [])
        self._size = 0  # approximate bytes of a record

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        remaining = math.inf
        if self._end.records is not None:
            remaining = self._end.records - self._next
        if remaining <= 0:
            self._finish()
            self._context.wait(wait_ms / 1000)
            return None
        now = _now()
        if self._due_ms > now:
            self._context.wait(max(0.0, min(wait_ms, self._due_ms - now)) / 1000)
            now = _now()
            if self._due_ms > now:
                return None
        return self._next_records(self._due(now, min(remaining, self._rows_within(max_bytes))))

    def committed(self, offsets: Offsets) -> None:
        for source_offset in offsets:
            if (
                source_offset.partition.get(_TASK_ID) == self._task
                and source_offset.offset is not None
            ):
                self._stored = _State.of(source_offset.offset).first
        self._context.wake()

    def _finish(self) -> None:
        """After the last record: raises if the task has to fail and all offsets are stored."""
        if self._end.fails and self._stored >= self._next:
            raise PenstockError(
                f"Stopping connector: generated the configured {self._next} number of messages"
            )

    def _rows_within(self, max_bytes: int) -> int:
        if not self._size:
            rows = self._rows(self._next)[:16]
            total_bytes = sum(len(orjson.dumps(row, default=str)) for row in rows)
            self._size = max(1, total_bytes // len(rows))
        return max(1, max_bytes // self._size)

    def _due(self, now: float, limit: float) -> int:
        """How many records are due: at least one, at most `limit`."""
        self._due_ms = max(self._due_ms, now - _BEHIND_MS)
        count = 0
        while count < limit and self._due_ms <= now:
            pause = self._pace()
            if not pause:
                return int(limit)
            self._due_ms += pause
            count += 1
        return count

    def _rows(self, number: int) -> list[Value]:
        """The values from this record to the end of its block."""
        block, within = divmod(number, BLOCK)
        if self._block[0] != block:
            rng = np.random.default_rng([self._state.seed % 2**64, self._task, block])
            self._block = block, self._design.make(rng, block * BLOCK, BLOCK)
        return self._block[1][within:]

    def _next_records(self, count: int) -> Polled:
        first = self._next
        values: list[Value] = []
        while len(values) < count:
            values += self._rows(first + len(values))[: count - len(values)]
        self._next += count
        return Polled(
            Records(
                topics=[self._topic] * count,
                partitions=[None] * count,
                timestamps=[None] * count,
                keys=self._keys(values),
                values=self._with_errors(first, values),
                headers=self._headers(first, count),
            ),
            self._offsets(first + count),
            offsets_before=lambda records: self._offsets(first + records),
        )

    def _offsets(self, next_number: int) -> Offsets:
        next_state: dict[str, Primitive] = {
            _GENERATION: self._state.generation + 1,
            _ITERATION: next_number,
            _SEED: self._state.seed,
        }
        return [SourceOffset({_TASK_ID: self._task}, next_state)]

    def _keys(self, values: Sequence[Value]) -> Column:
        name = self._design.key
        if not name:
            return Column.of([None] * len(values), OPTIONAL_STRING)
        field = self._design.schema.field(name)
        assert field is not None, "it was validated"
        return Column.of([value[name] for value in values], field.schema)

    def _with_errors(self, first: int, values: list[Value]) -> Column:
        """The values; some are replaced by texts, at the error rate."""
        if not self._error_rate:
            return Column.of(values, self._design.schema)
        schema = self._design.schema
        rows = [
            (f"malformed record {number}", STRING)
            if random.Random(f"{self._state.seed} {self._task} {number}").random()
            < self._error_rate
            else (value, schema)
            for number, value in enumerate(values, first)
        ]
        return Column.gather([value for value, _ in rows], [schema for _, schema in rows])

    def _headers(self, first: int, count: int) -> list[Sequence[Header]]:
        generation = Header(_GENERATION, self._state.generation, INT64)
        task = Header(_TASK_ID, self._task, INT64)
        return [
            (generation, task, Header(_ITERATION, number, INT64))
            for number in range(first, first + count)
        ]


def _end(config: Config) -> _End:
    records = config[ITERATIONS]
    return _End(records if records > 0 else None, fails=config[AT_END] == "fail")


def _pace(config: Config) -> Callable[[], float]:
    """Returns a function that returns the time to the next record, in ms; 0: no pause."""
    if (rate := config[RATE]) is not None:
        return lambda: 1000 / rate
    longest = config[INTERVAL]
    return lambda: longest * random.random()


def _now() -> float:
    return time.monotonic() * 1000
