"""The tests of the conformance suite for sinks; see `conformance`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from penstock.api import (
    Column,
    Failed,
    PenstockError,
    Records,
    SinkConnector,
    TopicPartition,
)
from penstock.api.settings import Config
from penstock.testing.conformance_case import OTHER_RECORDS, SinkCase, compare, either_records
from penstock.testing.conformance_connector import ConnectorChecks, check_releases
from penstock.testing.contexts import SinkContextStub


class _SinkTask:
    """A writer, driven like a worker's."""

    def __init__(self, connector: SinkConnector, config: Config, *, tolerates: bool) -> None:
        tolerates = tolerates or config.props.get("errors.tolerance", "none") == "all"
        self.context = SinkContextStub(tolerates_errors=tolerates)
        self.writer = connector.open(config, self.context)
        self.reached: dict[TopicPartition, int] = {}
        self._closed = False

    def write(self, records: Records) -> Failed:
        """Writes and flushes records; returns the rejected ones."""
        failed = self.deliver(records)
        return {**failed, **self.flush(records)}

    def deliver(self, records: Records) -> Failed:
        failed: Failed = {}
        positions = _positions(records)
        first = dict(reversed(positions))
        if assigned := {
            partition: offset
            for partition, offset in first.items()
            if partition not in self.reached
        }:
            self.writer.assigned(assigned)
            self.reached.update(assigned)
            self._apply_seeks()
        remaining = [
            row
            for row, (partition, offset) in enumerate(positions)
            if offset >= self.reached[partition]
        ]
        most = self.writer.batching.records or len(records) or 1
        for start in range(0, len(remaining) or 1, most):
            rows = remaining[start : start + most]
            part = records if len(rows) == len(records) else records.only(rows)
            refused: Failed = {}
            self.writer.write(part, refused)
            assert set(refused) <= set(range(len(part))), "`failed` has a row that does not exist"
            failed.update((rows[row], error) for row, error in refused.items())
            self.reached.update((partition, offset + 1) for partition, offset in _positions(part))
            self._apply_seeks()
        return failed

    def _apply_seeks(self) -> None:
        """Seeks to the offsets that the writer has requested."""
        for offsets in self.context.sought:
            self.reached.update(offsets)
        self.context.sought.clear()

    def flush(self, records: Records) -> Failed:
        """Flushes; returns the rows of `records` that were reported, with their errors."""
        self.writer.flush()
        rows = {position: row for row, position in enumerate(_positions(records))}
        failed: Failed = {}
        for ref, error in self.context.reported:
            position = (TopicPartition(ref.topic, ref.partition), ref.offset)
            assert position in rows, f"{ref} was reported but not written"
            failed[rows[position]] = error
        self.context.reported.clear()
        assert all(isinstance(error, Exception) for error in failed.values())
        return failed

    def pre_commit(self) -> Mapping[TopicPartition, int]:
        """The offsets of `pre_commit`, checked against the written records."""
        self.writer.flush()
        allowed = self.writer.pre_commit(dict(self.reached))
        assert allowed.keys() <= self.reached.keys(), (
            "offsets of partitions that are not in `reached`"
        )
        for partition, offset in allowed.items():
            assert 0 <= offset <= self.reached[partition], (
                f"`pre_commit` allows {partition} up to {offset}; only what is before "
                f"{self.reached[partition]} was written"
            )
        return allowed

    def revoke(self, *, lost: bool = False) -> None:
        """Revokes all partitions."""
        if self.reached:
            self.writer.flush()
            self.writer.revoked(frozenset(self.reached), lost=lost)
            if not lost:
                self.pre_commit()
        self.reached = {}

    def stop(self) -> None:
        """Stops the task gracefully."""
        self.revoke()
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.writer.close()


def _positions(records: Records) -> list[tuple[TopicPartition, int]]:
    """The topic partition and offset of each record."""
    cells = zip(records.topics, records.partitions, records.offsets, strict=True)
    return [(TopicPartition(topic, partition or 0), offset) for topic, partition, offset in cells]


class SinkConformance(ConnectorChecks, SinkCase):
    """The guarantees of a sink: `SinkConnector`, `SinkWriter`."""

    @pytest.fixture
    def task(self) -> Iterator[_SinkTask]:
        """The connector's only task."""
        task = self._open()
        yield task
        task.close()

    @pytest.fixture
    def tolerant_task(self) -> Iterator[_SinkTask]:
        """The same with `errors.tolerance=all`: without it a writer may stop at a refused record,
        as the task fails."""
        task = self._open(tolerates=True)
        yield task
        task.close()

    @pytest.mark.parametrize("schema", [True, False], ids=["with-schema", "schemaless"])
    def test_when_flush_returns_the_target_has_the_records(
        self, task: _SinkTask, schema: bool
    ) -> None:
        records = self.records(range(50), schema=schema)
        if records is None:
            pytest.skip("not the records of this sink")
        try:
            assert task.write(records) == {}
        except Exception as error:
            if self.records(range(1), schema=not schema) is not None:
                error.add_note(
                    f"return None from `records` for `schema={schema}` if the sink takes only "
                    f"records {'without schemas' if schema else 'with schemas'}"
                )
            raise
        self._check_target(self.expected(records))

    def test_batches_are_written_in_order(self, task: _SinkTask) -> None:
        batches = [self._make_records(range(first, first + 7)) for first in range(0, 35, 7)]
        for batch in batches:
            task.deliver(batch)
        task.writer.flush()
        self._check_target([entry for batch in batches for entry in self.expected(batch)])

    def test_an_empty_batch_changes_nothing(self, task: _SinkTask) -> None:
        task.write(self._make_records(range(3)))
        before = self.contents()
        assert task.write(self._make_records(range(3)).only([])) == {}
        assert self.contents() == before

    def test_flushing_again_changes_nothing(self, task: _SinkTask) -> None:
        task.writer.flush()
        assert task.pre_commit() == {}
        task.write(self._make_records(range(3)))
        before = self.contents()
        task.writer.flush()
        task.pre_commit()
        assert self.contents() == before

    def test_committed_records_are_not_needed_again(self) -> None:
        # The worker dies after a commit: only later records are written again.
        records = self._make_records(range(10))
        task = self._open()
        task.deliver(records)
        allowed = dict(task.pre_commit())
        task.close()
        uncommitted = [
            row
            for row, (partition, offset) in enumerate(_positions(records))
            if offset >= allowed.get(partition, 0)
        ]
        successor = self._open()
        successor.write(records.only(uncommitted))
        successor.stop()
        expected = Counter(map(repr, self.expected(records)))
        assert Counter(map(repr, self.contents())) >= expected, (
            "the target does not have all records whose offsets may be committed; see `expected`"
        )

    def test_partitions_may_be_revoked_and_assigned_again(self, task: _SinkTask) -> None:
        records = self._make_records(range(10))
        for lost, rows in ((False, range(4)), (True, range(4, 8)), (False, range(4, 10))):
            task.write(records.only(rows))
            task.revoke(lost=lost)
        self._check_repeated(records)

    def test_the_next_writer_continues_where_the_last_one_stopped(self) -> None:
        first, second = self._make_records(range(5)), self._make_records(range(5, 12))
        for batch in (first, second):
            task = self._open()
            task.write(batch)
            task.stop()
        self._check_target([*self.expected(first), *self.expected(second)])

    def test_two_writers_write_side_by_side(self) -> None:
        # As several tasks do, each with its own partitions.
        one, other = self._open(), self._open()
        written: list[Any] = []
        try:
            for number in range(4):
                for task, first in ((one, number), (other, 100 + number)):
                    batch = self._make_records(range(first, first + 1))
                    batch.partitions = [first // 100] * len(batch)
                    task.write(batch)
                    written += self.expected(batch)
        finally:
            one.close()
            other.close()
        self._check_target(written)

    def test_records_that_are_written_again(self) -> None:
        # After a failure a task resumes at the last commit: records are written again.
        records = self._make_records(range(10))
        for start in (0, 4):
            task = self._open()
            task.write(records.only(range(start, 10)))
            task.stop()
        self._check_repeated(records)

    def test_write_does_not_modify_the_batch(self, task: _SinkTask) -> None:
        records = self._make_records(range(5))
        before = deepcopy(records)
        task.write(records)
        assert records == before

    def test_a_tombstone_is_written_or_refused_and_its_neighbours_are_written(
        self, tolerant_task: _SinkTask
    ) -> None:
        records = self._make_records(range(3))
        values = [*records.values.values]
        schemas = records.values.schemas()
        values[1], schemas[1] = None, None
        batch = records.with_values(Column.gather(values, schemas))
        failed = tolerant_task.write(batch)
        assert set(failed) <= {1}, "a tombstone affected other records of its batch"
        for neighbour in self.expected(records.only([0, 2])):
            assert neighbour in self.contents(), (
                "the target does not have the neighbours of a tombstone; see `expected`"
            )

    def test_a_record_that_is_refused_is_named_and_its_neighbours_are_written(
        self, tolerant_task: _SinkTask
    ) -> None:
        bad = self.bad_records()
        if bad is None:
            pytest.skip("`bad_records` are not defined")
        good = self._make_records(range(len(bad) + 1))
        # Good and bad records alternate, with a good one at both ends.
        parts: list[Records] = []
        for row in range(len(good)):
            parts.append(good.only([row]))
            parts += [bad.only([row])] if row < len(bad) else []
        for row, part in enumerate(parts):
            part.origins = [row]
        batch = Records.together(*parts)
        batch.offsets = list(range(len(batch)))
        failed = tolerant_task.write(batch)
        accepted = sorted(set(range(1, len(batch), 2)) - set(failed))
        assert not accepted, (
            f"{len(accepted)} of {len(bad)} bad records were written; return from "
            "`bad_records` only records that the target rejects, or None if it accepts everything"
        )
        assert sorted(failed) == list(range(1, len(batch), 2)), "good records were refused"
        self._check_target(self.expected(good))

    def test_an_unreachable_target_gets_the_batch_once_it_is_reachable(self) -> None:
        away = self.unreachable_target()
        if away is None:
            pytest.skip("`unreachable_target` is not defined")
        records = self._make_records(range(5))
        task = self._open()
        delivered = False

        def write() -> None:
            nonlocal delivered
            if not delivered:
                task.deliver(records)
            delivered = True  # a failed `flush` is retried, without the records
            task.writer.flush()

        try:
            with away:
                failure = _failure_of(write)
            assert failure is not None, (
                "a write succeeds while the target is unreachable; return None from "
                "`unreachable_target` if the "
                "test cannot make it unavailable"
            )
            assert getattr(failure, "retriable", False), (
                f"{failure!r} has no `retriable`, so the task would fail"
            )
            write()
        finally:
            task.close()
        self._check_target(self.expected(records))

    @pytest.mark.parametrize("flushes", ["once", "again"])
    def test_a_flush_after_a_fatal_error_never_succeeds(self, flushes: str) -> None:
        # Or offsets of records would be committed that the target does not have.
        refusing = self.refusing_target()
        if refusing is None:
            pytest.skip("`refusing_target` is not defined")
        task = self._open()
        accepted: list[Any] = []

        def deliver(numbers: range) -> None:
            batch = self._make_records(numbers)
            rejected = task.deliver(batch)
            kept = [row for row in range(len(batch)) if row not in rejected]
            accepted.extend(self.expected(batch.only(kept)))

        def write() -> None:
            deliver(range(5, 10))
            task.writer.flush()

        def stored() -> bool:
            expected = Counter(map(repr, accepted))
            return Counter(map(repr, self.contents())) >= expected

        try:
            deliver(range(5))
            with refusing:
                failure = _failure_of(write)
                assert failure is not None, (
                    "a write succeeds while the target refuses; return None from "
                    "`refusing_target` if the test cannot make it refuse"
                )
                assert not getattr(failure, "retriable", False), (
                    f"{failure!r} is `retriable`; `refusing_target` is about errors that are not"
                )
                if flushes == "again":
                    again = _failure_of(task.writer.flush)
                    assert again is not None or stored(), (
                        "`flush` returned after a fatal error, although the target lacks records"
                    )
            again = _failure_of(task.writer.flush)
            assert again is not None or stored(), (
                "`flush` returned after a fatal error, although the target lacks records"
            )
        finally:
            task.close()

    def test_closing_releases_files_and_threads(self) -> None:
        self._open().close()  # fills caches

        def run() -> None:
            task = self._open()
            task.write(self._make_records(range(3)))
            task.stop()

        check_releases(run, culprit="`stop`")

    def test_offsets_may_be_set_by_users(self) -> None:
        connector, config = self.connector(), self._parsed()
        changes: Mapping[tuple[str, int], int | None] = {("t", 0): 5, ("t", 1): None}
        with suppress(PenstockError):  # refused
            assert connector.alter_offsets(config, changes) in (True, False)

    def _open(self, *, tolerates: bool = False) -> _SinkTask:
        return _SinkTask(self.connector(), self._tasks()[0], tolerates=tolerates)

    def _make_records(self, numbers: range) -> Records:
        return either_records(self, numbers)[0]

    def _check_target(self, expected: list[Any]) -> None:
        compare(self, self.contents(), expected)

    def _check_repeated(self, records: Records) -> None:
        """Checks that the target has the records; duplicates only if allowed."""
        expected = Counter(map(repr, self.expected(records)))
        contents = Counter(map(repr, self.contents()))
        if self.idempotent:
            assert contents.keys() == expected.keys(), OTHER_RECORDS
            assert contents == expected, (
                "a repeated write changed the target; set `idempotent = False` if records that are "
                "written again may leave duplicates"
            )
        else:
            assert contents.keys() == expected.keys(), OTHER_RECORDS
            assert all(contents[entry] >= count for entry, count in expected.items())


def _failure_of(act: Callable[[], None]) -> Exception | None:
    try:
        act()
    except Exception as failure:
        return failure
    return None
