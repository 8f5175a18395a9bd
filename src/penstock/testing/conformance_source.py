"""The tests of the conformance suite for sources; see `conformance`."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import orjson
import pytest

from penstock.api import (
    Header,
    Offsets,
    Polled,
    Records,
    SourceOffset,
    Transaction,
)
from penstock.api.schema import check
from penstock.api.settings import Config
from penstock.testing.conformance_case import SourceCase
from penstock.testing.conformance_connector import ConnectorChecks, check_releases
from penstock.testing.contexts import SourceContextStub

_MAX_BYTES: Final = 1 << 20  # of a worker's polls
_RECORDS: Final = 200
_ARRIVE_S: Final = 20.0  # how long a reader may take to find new records
_PROMPT_S: Final = 2.0  # how long a poll without waiting may take
_WAIT_MS: Final = 200
_REPEATS: Final = (
    "; return False from `SourceConnector.exactly_once` if the source may repeat records"
)


class _Step(NamedTuple):
    """Records that reach Kafka, and the offsets that are stored with them."""

    rows: list[str]
    stored: list[SourceOffset]


class _SourceTask:
    """A reader, driven like a worker's."""

    def __init__(self, case: SourceConformance, config: Config, stored: Offsets) -> None:
        connector = case.connector()
        self.config = config
        self.context = SourceContextStub(_stored(stored))
        self.reader = connector.open(config, self.context)
        self._case = case
        self._defines_transactions = connector.defines_transactions(config)
        self._known = {_name(offset): offset for offset in stored}
        self._closed = False

    def polls(self, max_bytes: int = _MAX_BYTES) -> Iterator[Polled]:
        """Polls until there are no more records."""
        for _ in range(_RECORDS * 10):
            polled = self.reader.poll(max_bytes, self._case.wait_ms)
            if polled is None:
                return
            yield polled
        pytest.fail("polling a finite source does not end: `poll` never returns None")

    def steps(self, max_bytes: int = _MAX_BYTES, *, commit: bool = False) -> Iterator[_Step]:
        """The units whose offsets are stored together: polls, or transactions if the connector
        defines them. With `commit`, calls `committed` for each."""
        rows: list[str] = []
        for polled in self.polls(max_bytes):
            rows += self.rows(polled)
            self._known.update((_name(offset), offset) for offset in polled.offsets)
            if polled.transaction is Transaction.ABORTED:
                rows = []
            if self._defines_transactions and polled.transaction is Transaction.OPEN:
                continue
            stored = _stored(self._known.values())
            if commit:
                self.context.store(stored)
                self.reader.committed(stored)
            yield _Step(rows, stored)
            rows = []
        assert not rows, "the last transaction is neither complete nor aborted"

    def read(self, max_bytes: int = _MAX_BYTES) -> list[str]:
        """All records that exist now."""
        return [row for step in self.steps(max_bytes) for row in step.rows]

    def await_more(self, *, commit: bool = False) -> list[str]:
        """All new records, once there are any."""
        deadline = time.monotonic() + _ARRIVE_S
        while time.monotonic() < deadline:
            if rows := [row for step in self.steps(commit=commit) for row in step.rows]:
                return rows
            self.context.wait(max(10, self.reader.idle_ms) / 1000)
        pytest.fail(f"new records are not found within {_ARRIVE_S:.0f} s{_wait_hint(self._case)}")

    def rows(self, polled: Polled) -> list[str]:
        """The records of a poll; another reader reads those of its parts."""
        if not polled.parts:
            return _rows(polled.records)
        another = self._case._open(self.config)
        rows = [row for part in polled.parts for row in another.part(part)]
        another.close()
        return rows

    def known(self) -> Iterable[SourceOffset]:
        """The offsets of all records read."""
        return self._known.values()

    def timed_poll(self, wait_ms: int) -> float:
        """The seconds that a poll without results takes. Polls that return only offsets, to drop
        source partitions, may precede it."""
        for _ in range(_RECORDS):
            start = time.monotonic()
            polled = self.reader.poll(_MAX_BYTES, wait_ms)
            took = time.monotonic() - start
            assert polled is None or not _has_records(polled), (
                f"a record that was not added, or comes late{_wait_hint(self._case)}"
            )
            if polled is None:
                return took
        pytest.fail("without new records `poll` returns offsets for ever, and never None")

    def part(self, part: str) -> list[str]:
        """The records of one part of a poll."""
        return [row for records in self.reader.read(part) for row in _rows(records)]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.reader.close()


class SourceConformance(ConnectorChecks, SourceCase):
    """The guarantees of a source: `SourceConnector`, `SourceReader`."""

    _opened: list[_SourceTask]

    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        self._opened = []
        yield
        for task in self._opened:
            task.close()

    def test_a_source_without_records_has_nothing_to_read(self) -> None:
        for config in self._tasks():
            assert self._open(config).read() == []

    def test_every_record_is_read_once(self) -> None:
        self._add(_RECORDS)
        read = self._read(self._task())
        self._check_count(read, _RECORDS)
        assert len(set(read)) == _RECORDS, "records of different numbers have to be distinct"

    def test_reading_it_again_reads_the_same(self) -> None:
        self._add(20)
        once, again = self._read(self._task()), self._read(self._task())
        self._check_count(once, 20)
        self._check_count(again, 20)
        assert once == again

    def test_polls_return_nothing_until_records_are_added(self) -> None:
        self._add(10)
        config = self._task()
        task = self._open(config)
        steps = list(task.steps())
        self._check_count([row for step in steps for row in step.rows], 10)
        assert task.read() == []
        again = self._read(config, steps[-1].stored)
        assert not again or self._may_repeat, f"all was stored, and is read again{_REPEATS}"
        self.add(range(10, 15))
        self._check_count(task.await_more(), 5)

    def test_offsets_can_be_stored_as_kafka_connect_stores_them(self) -> None:
        self._add(5)
        polls = [polled for polled in self._open(self._task()).polls() if _has_records(polled)]
        assert polls, f"`poll` returned no record although there are some{_wait_hint(self)}"
        for polled in polls:
            assert polled.offsets, "`poll` returned records without an offset"
            for stored in polled.offsets:
                assert isinstance(stored, SourceOffset)
                assert stored.offset is not None, "an offset of a partition that was read is None"
                for cells in (stored.partition, stored.offset):
                    for name, cell in cells.items():
                        assert isinstance(name, str), f"the name {name!r} is not a string"
                        assert _is_storable(cell), (
                            f"'{name}' is not a JSON string, number or boolean: {cell!r}"
                        )
            assert _stored(polled.offsets) == list(polled.offsets)

    @pytest.mark.parametrize("max_bytes", [1, 100, 1 << 12])
    def test_small_polls_read_the_same_as_large_ones(self, max_bytes: int) -> None:
        self._add(40)
        config = self._task()
        small, large = self._open(config).read(max_bytes), self._read(config)
        self._check_count(large, 40)
        self._check_count(small, 40)
        assert small == large

    def test_polls_respect_max_bytes(self) -> None:
        self._add(_RECORDS)
        config = self._task()
        polls = list(self._open(config).polls())
        if any(polled.parts for polled in polls):
            pytest.skip("reads in parts")
        sizes = [_size(polled.records) for polled in polls]
        self._check_count([row for polled in polls for row in _rows(polled.records)], _RECORDS)
        max_bytes = max(1, sum(sizes) // 10)
        largest = max(_size(polled.records) for polled in self._open(config).polls(max_bytes))
        assert largest <= sum(sizes) / 2, (
            f"`max_bytes` was {max_bytes}, of {sum(sizes)} available, but `poll` returned {largest}"
        )

    def test_the_next_reader_continues_exactly_after_the_stored_offsets(self) -> None:
        self._add(30)
        config = self._task()
        all_rows = self._read(config)
        self._check_count(all_rows, 30)
        done = 0
        for rows, stored in self._open(config).steps(1):
            done += len(rows)
            rest = self._read(config, stored)
            message = f"from {stored!r}, when {done} of {len(all_rows)} were done"
            if self._may_repeat:
                assert Counter(rest) >= Counter(all_rows[done:]), message
            else:
                if rest != all_rows[done:] and Counter(rest) >= Counter(all_rows[done:]):
                    message += _REPEATS
                assert rest == all_rows[done:], message
        assert done == len(all_rows)

    def test_reading_continues_at_any_record_whose_offset_is_known(self) -> None:
        # A record in the middle of a poll has failed the task.
        self._add(30)
        config = self._task()
        all_rows = self._read(config)
        known: list[SourceOffset] = []
        checked = done = 0
        for polled in self._open(config).polls():
            count = len(polled.records)
            if polled.offsets_before is not None and not polled.parts:
                for before in sorted({1, count // 2, count - 1} & set(range(1, count))):
                    stored = _stored([*known, *polled.offsets_before(before)])
                    rest, left = self._read(config, stored), all_rows[done + before :]
                    message = f"from `offsets_before({before})` of a poll: {stored!r}"
                    if self._may_repeat:
                        assert Counter(rest) >= Counter(left), message
                    elif self.resumes_within_polls:
                        assert rest == left, message
                    else:
                        assert rest[-len(left) :] == left, message
                    checked += 1
            known += polled.offsets
            done += count
        if not checked:
            assert not self.resumes_within_polls, "polls have no `offsets_before`"
            pytest.skip("polls have no `offsets_before`, or a single record")

    def test_records_whose_offsets_were_not_stored_are_read_again(self) -> None:
        self._add(25)
        config = self._task()
        task = self._open(config)
        before = task.read()
        task.close()
        self.add(range(25, 40))
        again = self._read(config)
        self._check_count(before, 25)
        self._check_count(again, 40)
        assert again[:25] == before

    def test_parts_can_be_read_in_any_order_and_again(self) -> None:
        self._add(50)
        config = self._task()
        for polled in self._open(config).polls():
            assert isinstance(polled.parts, Sequence)
            assert not (polled.parts and len(polled.records)), "either records or parts"
            once, again = (self._open(config) for _ in range(2))
            first = {part: once.part(part) for part in polled.parts}
            assert len(first) == len(polled.parts), "two parts of a poll are the same"
            for part in reversed(polled.parts):
                assert Counter(again.part(part)) == Counter(first[part])

    def test_all_tasks_together_read_everything(self) -> None:
        self._add(30)
        read = [row for config in self._tasks(3) for row in self._read(config)]
        self._check_count(read, 30)
        assert Counter(read) == Counter(self._read(self._task()))

    def test_reading_continues_after_a_commit(self) -> None:
        self._add(20)
        config = self._task()
        task = self._open(config)
        steps = list(task.steps(1, commit=True))
        self._check_count([row for step in steps for row in step.rows], 20)
        assert task.read() == []
        # The source system may have deleted records with stored offsets, and no others.
        self.add(range(20, 25))
        self._check_count(task.await_more(commit=True), 5)
        self.add(range(25, 30))
        task.close()
        another = self._open(config, _stored(task.known()))
        more = another.await_more()
        if self._may_repeat:
            assert len(set(more)) >= 5, "records that come after a restart are lost"
        else:
            self._check_count(more, 5)

    def test_records_fit_their_schemas(self) -> None:
        self._add(10)
        config = self._task()
        for polled in self._open(config).polls():
            reader = self._open(config).reader
            read = [records for part in polled.parts for records in reader.read(part)]
            for records in [polled.records, *read]:
                _check_shape(records)
                assert not records.offsets, "a source record must not have a Kafka offset"
                assert all(topic for topic in records.topics), "a record without a topic"

    def test_its_declared_properties_are_valid(self) -> None:
        connector, config = self.connector(), self._parsed()
        replan = connector.replan_ms(config)
        assert replan is None or (isinstance(replan, int) and replan > 0)
        assert connector.exactly_once(config) in (True, False, None)
        assert connector.defines_transactions(config) in (True, False)
        self._add(1)
        assert self._open(self._task()).reader.idle_ms >= 0

    def test_a_poll_waits_only_as_long_as_it_may(self) -> None:
        self._add(1)
        task = self._open(self._task())
        task.read()
        assert task.timed_poll(0) < _PROMPT_S, "with `wait_ms` 0 `poll` must not wait"
        waited = task.timed_poll(_WAIT_MS)
        assert waited < _WAIT_MS / 1000 + _PROMPT_S, f"`wait_ms` was {_WAIT_MS}"
        if task.reader.idle_ms == 0:
            assert waited > _WAIT_MS / 2000, (
                "`idle_ms` is 0, but `poll` does not wait: it would be called in a busy loop"
            )

    def test_a_poll_stops_waiting_when_the_task_stops(self) -> None:
        self._add(1)
        task = self._open(self._task())
        task.read()
        task.context.stop()
        assert task.timed_poll(int(_PROMPT_S * 2000)) < _PROMPT_S, (
            "`poll` waits although the task is being stopped: see `SourceContext.wait`"
        )

    def test_closing_releases_files_and_threads(self) -> None:
        self._add(3)
        config = self._task()
        self._read(config)  # fills caches

        def run() -> None:
            self._open(config).close()  # never polled
            task = self._open(config)
            self._check_count(task.read(), 3)
            task.close()

        check_releases(run, culprit="`close`")

    def test_users_may_alter_offsets(self) -> None:
        self._add(3)
        connector, config = self.connector(), self._parsed()
        steps = list(self._open(self._task()).steps())
        self._check_count([row for step in steps for row in step.rows], 3)
        stored = steps[-1].stored
        assert connector.alter_offsets(config, stored) in (True, False)
        reset = [SourceOffset(offset.partition, None) for offset in stored]
        assert connector.alter_offsets(config, reset) in (True, False)

    @property
    def _may_repeat(self) -> bool:
        """Whether the connector says that it may repeat records when it resumes."""
        return self.connector().exactly_once(self._parsed()) is False

    def _check_count(self, rows: Sequence[str], count: int) -> None:
        hint = _wait_hint(self) if len(rows) < count else ""
        assert len(rows) == count, f"{len(rows)} records were read instead of {count}{hint}"

    def _add(self, count: int) -> None:
        self.add(range(count))

    def _task(self) -> Config:
        tasks = self._tasks()
        assert tasks, "`plan_tasks` returned no task although there are records"
        return tasks[0]

    def _open(self, config: Config, stored: Offsets = ()) -> _SourceTask:
        task = _SourceTask(self, config, stored)
        self._opened.append(task)
        return task

    def _read(self, config: Config, stored: Offsets = ()) -> list[str]:
        """All records after the stored offsets, from a new reader."""
        task = self._open(config, stored)
        rows = task.read()
        task.close()
        return rows


def _wait_hint(case: SourceCase) -> str:
    return f"; set `wait_ms` (it is {case.wait_ms}) higher if records take longer to arrive"


def _name(offset: SourceOffset) -> str:
    return orjson.dumps(dict(offset.partition), option=orjson.OPT_SORT_KEYS).decode()


def _has_records(polled: Polled) -> bool:
    return bool(polled.parts) or len(polled.records) > 0


def _size(records: Records) -> int:
    """The approximate size of keys and values in bytes."""
    cells = itertools.chain(records.keys.values, records.values.values)
    return sum(len(repr(cell)) for cell in cells)


def _stored(offsets: Iterable[SourceOffset]) -> list[SourceOffset]:
    """The offsets, stored and read back."""
    pairs = [[dict(stored.partition), stored.offset and dict(stored.offset)] for stored in offsets]
    return [SourceOffset(*pair) for pair in orjson.loads(orjson.dumps(pairs))]


def _is_storable(cell: object) -> bool:
    match cell:
        case None | bool() | str():
            return True
        case int():
            return -(1 << 63) <= cell < 1 << 63
        case float():
            return math.isfinite(cell)
    return False


def _rows(records: Records) -> list[str]:
    """A string per record to compare records by, without timestamps, which may differ."""
    headers: Sequence[Sequence[Header]] = records.headers or [()] * len(records)
    cells = zip(
        records.topics,
        records.partitions,
        records.keys.values,
        records.values.values,
        headers,
        strict=True,
    )
    return [repr((*row[:-1], list(row[-1]))) for row in cells]


def _check_shape(records: Records) -> None:
    """Fails for a batch with inconsistent lists, or with values that do not match their schemas."""
    size = len(records)
    for name in ("topics", "partitions", "timestamps", "keys", "values"):
        assert len(getattr(records, name)) == size, f"`{name}` has another length than `values`"
    assert len(records.headers) in (0, size)
    for name, column in (("key", records.keys), ("value", records.values)):
        stops = [run.stop for run in column.runs]
        assert stops == sorted(set(stops)), f"the runs of the {name}s are not in order"
        assert (stops[-1] if stops else 0) == size, f"the runs of the {name}s do not end with them"
        for schema, start, stop in column.slices():
            if schema is not None:
                for value in column.values[start:stop]:
                    check(schema, value, name)
