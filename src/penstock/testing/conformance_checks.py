"""The tests of the conformance suite; `conformance` is its front door and says what it is."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock.api import (
    Failed,
    Offsets,
    Plugin,
    Props,
    SinkConnector,
    SinkWriter,
    SourceConnector,
    SourceOffset,
    SourceReader,
    Use,
)
from penstock.config import connector as framework
from penstock.config.define import Config
from penstock.convert.json import JsonConverter
from penstock.data.records import Column, Header, Records
from penstock.data.schema import STRING, Schema, Value, check
from penstock.errors import PenstockError
from penstock.kafka.broker import Broker
from penstock.plugins import Found
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

_MOST: Final = 1 << 25  # bytes that a worker asks for at once
_RECORDS: Final = 200
_ARRIVE_S: Final = 120.0
_IMPORT_S: Final = 60.0

_numbers = itertools.count(1)


class _Case(ABC):
    """What the tests of sources and of sinks ask of their subclass alike."""

    bad_configs: ClassVar[Sequence[tuple[Mapping[str, str | None], str]]] = ()
    """Changes to `config` that have to be refused (None takes a setting away), each with a text
    that the message holds, such as the name of the setting."""

    plugin_path: ClassVar[str | Path] = ""
    """Where a worker finds the connector if it is not installed: its `plugin.path`."""

    folder: Path
    """Empty when a test starts, and removed after it."""

    @abstractmethod
    def config(self) -> dict[str, str]:
        """The connector's own settings; nothing about tasks or converters."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "system"
        self.folder.mkdir()

    def _props(self) -> dict[str, str]:
        """The settings as they reach the connector: together with those that all have."""
        plugin = self._connector_class().plugin
        whole = {"name": "conformance", "connector.class": plugin.class_name, "tasks.max": "1"}
        return {**whole, **self.config()}

    def _parsed(self) -> Config:
        return self._connector_class().plugin.config.parse(self._props())

    def _tasks(self, most: int = 1) -> list[Config]:
        """The configurations of the tasks, as they reach `open`: stored and read again."""
        connector = self._connector_class()
        planned = connector().plan_tasks(self._parsed(), most)
        return [connector.plugin.config.parse(orjson.loads(orjson.dumps(dict(p)))) for p in planned]

    def _connector_class(self) -> type[SourceConnector] | type[SinkConnector]:
        return cast("type[SourceConnector] | type[SinkConnector]", type(self).connector)  # type: ignore[attr-defined]


class _ConnectorChecks(_Case):
    """What sources and sinks promise alike."""

    def test_the_plugin_says_what_it_is(self) -> None:
        plugin = self._connector_class().plugin
        assert isinstance(plugin, Plugin)
        assert Found.of(self._connector_class()).plugin is plugin
        assert plugin.class_name.replace(".", "").replace("_", "").replace("$", "").isalnum()
        assert plugin.version.strip() == plugin.version != ""

    def test_every_setting_is_documented(self) -> None:
        bare = [key.name for key in self._connector_class().plugin.config.keys if not key.doc]
        assert not bare, f"settings without a `doc`: {bare}"

    def test_no_setting_takes_the_name_of_one_that_every_connector_has(self) -> None:
        is_source = issubclass(self._connector_class(), SourceConnector)
        taken = {key.name for key in (framework.SOURCE if is_source else framework.SINK).keys}
        own = {key.name for key in self._connector_class().plugin.config.keys}
        assert not own & taken, "these belong to the framework; call yours something else"

    def test_the_configuration_is_valid(self) -> None:
        definition = self._connector_class().plugin.config
        problems = {each.name: each.errors for each in definition.validate(self._props())}
        assert not {name: errors for name, errors in problems.items() if errors}

    def test_a_bad_configuration_is_refused_with_a_reason(self) -> None:
        if not self.bad_configs:
            pytest.skip("no `bad_configs` are given")
        for changes, text in self.bad_configs:
            merged = {**self._props(), **changes}
            props = {name: value for name, value in merged.items() if value is not None}
            with pytest.raises(PenstockError) as refused:
                self._begin(props)
            assert text in str(refused.value), f"{changes} is refused, but not for '{text}'"

    def _begin(self, props: Props) -> None:
        """Everything that is done before the first record is moved."""
        connector = self._connector_class()()
        planned = connector.plan_tasks(connector.plugin.config.parse(props), 1)
        opened = connector.open(connector.plugin.config.parse(planned[0]))
        if isinstance(opened, SinkWriter):
            opened.close()

    @pytest.mark.parametrize("most", [1, 2, 7])
    def test_at_most_so_many_tasks_are_planned(self, most: int) -> None:
        planned = self._connector_class()().plan_tasks(self._parsed(), most)
        assert len(planned) <= most, "see `tasks.max`"
        for props in planned:
            for name, text in props.items():
                assert isinstance(name, str), f"the setting {name!r} is no text"
                assert isinstance(text, str), f"the value of '{name}' is no text: {text!r}"
            self._connector_class().plugin.config.parse(props)

    def test_planning_again_plans_the_same(self) -> None:
        # Where it differs, running tasks are ended and started anew.
        first, second = (
            [dict(props) for props in self._connector_class()().plan_tasks(self._parsed(), 3)]
            for _ in range(2)
        )
        assert first == second

    def test_planning_leaves_the_configuration_as_it_is(self) -> None:
        config = self._parsed()
        before = dict(config.props)
        self._connector_class()().plan_tasks(config, 2)
        assert config.props == before

    def test_nothing_is_open_when_tasks_are_planned(self) -> None:
        config = self._parsed()
        before, threads = _open_files(), set(threading.enumerate())
        connector = self._connector_class()()
        connector.plan_tasks(config, 2)
        assert _open_files() == before, "planning leaves files or connections open"
        assert set(threading.enumerate()) == threads, "planning leaves threads behind"

    def test_the_class_is_found_by_name_in_another_process_and_importing_it_does_nothing(
        self,
    ) -> None:
        connector = self._connector_class()
        assert pickle.loads(pickle.dumps(connector)) is connector
        given = {"module": connector.__module__, "path": sys.path}
        given["pickled"] = pickle.dumps(connector).hex()
        done = subprocess.run(
            [sys.executable, "-c", _IMPORTING, json.dumps(given)],
            capture_output=True,
            text=True,
            timeout=_IMPORT_S,
            check=False,
        )
        assert done.returncode == 0, (
            f"'{connector.__module__}' cannot be imported in a new process; a connector has to be "
            f"in a module that Spark's Python workers can import:\n{done.stderr}"
        )
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["class_name"] == connector.plugin.class_name
        said = done.stdout.splitlines()[:-1] + done.stderr.splitlines()
        assert not said, f"importing it prints: {said}"
        assert not told["changed"], f"importing it changes: {told['changed']}"


_IMPORTING: Final = """
import importlib, json, logging, os, pickle, signal, sys, threading
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
for name in ("penstock.api", "penstock.config.checks", "penstock.data.schema", "penstock.errors"):
    importlib.import_module(name)

def links():
    folder = "/proc/self/fd"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = (os.path.join(folder, name) for name in names)
    return sorted(os.readlink(name) for name in found if os.path.lexists(name))

def seen():
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "open files": [name for name in links() if "/proc/" not in name],
        "the working folder": os.getcwd(),
        "the path of modules": list(sys.path),
        "signal handlers": [str(signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGINT)],
        "handlers of the root logger": [str(each) for each in logging.root.handlers],
        "the level of the root logger": logging.root.level,
    }

before = seen()
importlib.import_module(given["module"])
after = seen()
found = pickle.loads(bytes.fromhex(given["pickled"]))
changed = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
print(json.dumps({"class_name": found.plugin.class_name, "changed": changed}))
"""


def _open_files() -> Counter[str]:
    """What this process holds open, where the system tells."""
    folder = "/proc/self/fd"
    found: Counter[str] = Counter()
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            found[os.readlink(os.path.join(folder, name))] += 1
        except OSError:  # that of the listing itself
            continue
    return found


# ── sources ──────────────────────────────────────────────────────────────────────────────────────


class SourceCase(_Case):
    """A source connector, and how its source gets something to read."""

    connector: ClassVar[type[SourceConnector]]

    @abstractmethod
    def add(self, numbers: range) -> None:
        """Gives the source one more record for each of these numbers, each a record of its own.
        Called several times in a test, with numbers that go up; what comes later is read later."""


class SourceConformance(_ConnectorChecks, SourceCase):
    """The promises of a source: `SourceConnector`, `SourceReader`."""

    def test_a_source_without_records_has_nothing_to_read(self) -> None:
        for config in self._tasks():
            start: Offsets = ()
            assert self._open(config).latest(start, _MOST) == start

    def test_every_record_is_read_once(self) -> None:
        self._add(_RECORDS)
        read = self._read_all(self._task())
        assert len(read) == _RECORDS
        assert len(set(read)) == _RECORDS, "records of different numbers are to be told apart"

    def test_reading_it_again_reads_the_same(self) -> None:
        self._add(20)
        assert self._read_all(self._task()) == self._read_all(self._task())

    def test_when_all_is_read_there_is_no_more_until_more_comes(self) -> None:
        self._add(10)
        config = self._task()
        reader = self._open(config)
        end = self._end(reader)
        assert reader.latest(end, _MOST) == end
        assert self._open(config).latest(_stored(end), _MOST) == end
        self.add(range(10, 15))
        further = self._end(reader, end)
        assert len(self._read(config, end, further)) == 5

    def test_positions_can_be_stored_as_kafka_connect_stores_them(self) -> None:
        self._add(5)
        end = self._end(self._open(self._task()))
        assert end, "`latest` returned no position although there is something to read"
        for each in end:
            assert isinstance(each, SourceOffset)
            assert each.offset is not None, "a position that was reached has an offset"
            for cells in (each.partition, each.offset):
                for name, cell in cells.items():
                    assert isinstance(name, str), f"the name {name!r} is no text"
                    assert _is_storable(cell), (
                        f"'{name}' is no JSON text, number or boolean: {cell!r}"
                    )
        partitions = [json.dumps(dict(each.partition), sort_keys=True) for each in end]
        assert len(set(partitions)) == len(partitions), "a partition has one position"
        assert _stored(end) == list(end)

    @pytest.mark.parametrize("window", [1, 100, 1 << 12])
    def test_small_ranges_read_the_same_as_a_large_one(self, window: int) -> None:
        self._add(40)
        config = self._task()
        whole = self._read_all(config)
        pieces = [self._read(config, *pair) for pair in self._ranges(config, window)]
        assert all(pieces), "a range that `latest` announced holds no record"
        assert list(itertools.chain(*pieces)) == whole

    def test_a_range_is_about_as_large_as_was_asked_for(self) -> None:
        self._add(_RECORDS)
        config = self._task()
        reader = self._open(config)
        size = sum(batch.nbytes for batch in reader.read((), self._end(reader)))
        window = max(1, size // 10)
        largest = max(
            sum(batch.nbytes for batch in self._open(config).read(*pair))
            for pair in self._ranges(config, window)
        )
        assert largest <= size / 2, (
            f"asked for ranges of about {window} bytes, of {size} that there are, `latest` gave "
            f"one of {largest}"
        )

    def test_reading_goes_on_exactly_where_it_was_from_every_position(self) -> None:
        self._add(30)
        config = self._task()
        whole = self._read_all(config)
        done = 0
        for start, end in self._ranges(config, 1):
            # As after a restart: another reader, which knows only what was stored.
            rest = self._read_all(config, _stored(start))
            assert rest == whole[done:], f"from {list(start)!r}, {done} of {len(whole)} were done"
            done += len(self._read(config, start, end))
        assert done == len(whole)

    def test_a_range_can_be_read_again_also_when_there_is_more(self) -> None:
        # Spark runs a part again when its executor dies, and the worker a range that was not done.
        self._add(25)
        config = self._task()
        reader = self._open(config)
        end = self._end(reader)
        before = self._read(config, (), end)
        self.add(range(25, 40))
        assert self._read(config, (), end) == before
        assert self._records(reader, (), end) == before

    def test_the_parts_of_a_range_hold_what_the_range_holds(self) -> None:
        self._add(50)
        config = self._task()
        reader = self._open(config)
        end = self._end(reader)
        parts = [self._read(config, *part) for part in reader.parts((), end)]
        whole = self._read(config, (), end)
        assert Counter(itertools.chain(*parts)) == Counter(whole)
        if len(parts) == 1:
            assert parts[0] == whole

    def test_all_tasks_together_read_everything(self) -> None:
        self._add(30)
        read = [row for config in self._tasks(3) for row in self._read_all(config)]
        assert Counter(read) == Counter(self._read_all(self._task()))

    def test_records_are_whole_and_fit_their_schemas(self) -> None:
        self._add(10)
        config = self._task()
        reader = self._open(config)
        for batch in reader.read((), self._end(reader)):
            assert isinstance(batch, pa.RecordBatch)
            records = reader.records(batch)
            _check_shape(records)
            assert not records.offsets, "where a record is stored is known only to Kafka"
            assert all(topic for topic in records.topics), "a record without a topic"

    def test_what_it_says_of_itself_makes_sense(self) -> None:
        connector, config = self.connector(), self._parsed()
        replan = connector.replan_ms(config)
        assert replan is None or (isinstance(replan, int) and replan > 0)
        assert connector.exactly_once(config) in (True, False, None)
        assert connector.defines_transactions(config) in (True, False)
        self._add(1)
        assert self._open(self._task()).idle_ms > 0

    def test_positions_of_its_own_may_be_set_by_users(self) -> None:
        self._add(3)
        connector, config = self.connector(), self._parsed()
        end = self._end(self._open(self._task()))
        assert connector.alter_offsets(config, _stored(end)) in (True, False)
        gone = [SourceOffset(each.partition, None) for each in end]
        assert connector.alter_offsets(config, gone) in (True, False)

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def _add(self, count: int) -> None:
        self.add(range(count))

    def _task(self) -> Config:
        tasks = self._tasks()
        assert tasks, "no task is planned although there is something to read"
        return tasks[0]

    def _open(self, config: Config) -> SourceReader:
        return self.connector().open(config)

    def _ranges(self, config: Config, window: int) -> Iterator[tuple[Offsets, Offsets]]:
        """Ranges from the beginning to the end of what there is now, as a worker plans them."""
        reader = self._open(config)
        start: Offsets = ()
        for _ in range(_RECORDS * 10):
            end = reader.latest(start, window)
            if end == start:
                return
            yield start, end
            start = end
        pytest.fail(f"reading a finite source does not end; the last range began at {start!r}")

    def _end(self, reader: SourceReader, start: Offsets = ()) -> Offsets:
        """Where what there is now ends."""
        for _ in range(_RECORDS * 10):
            end = reader.latest(start, _MOST)
            if end == start:
                return end
            start = end
        pytest.fail(f"reading a finite source does not end; the last range began at {start!r}")

    def _read(self, config: Config, start: Offsets, end: Offsets) -> list[str]:
        """The records of a range, read as in another process: by a reader that planned nothing."""
        return self._records(self._open(config), _stored(start), _stored(end))

    def _records(self, reader: SourceReader, start: Offsets, end: Offsets) -> list[str]:
        return [row for batch in reader.read(start, end) for row in _rows(reader.records(batch))]

    def _read_all(self, config: Config, start: Offsets = ()) -> list[str]:
        end = self._end(self._open(config), start)
        return self._read(config, start, end) if end != start else []


def _stored(offsets: Offsets) -> list[SourceOffset]:
    """Positions after they were stored and read again."""
    cells = [[dict(each.partition), each.offset and dict(each.offset)] for each in offsets]
    return [SourceOffset(*pair) for pair in orjson.loads(orjson.dumps(cells))]


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
    """A text per record by which records can be compared. Timestamps may be those of reading."""
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
    """Fails for a batch whose lists do not belong together, or whose values are not what their
    schemas say."""
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


# ── sinks ────────────────────────────────────────────────────────────────────────────────────────


def records_of(
    values: Sequence[Value],
    *,
    schema: Schema | None = None,
    keys: Sequence[Value] | None = None,
    key_schema: Schema | None = None,
    topic: str = "conformance",
    first: int = 0,
) -> Records:
    """A batch as a sink is given it: read from one partition, from the offset `first` on."""
    nothing: list[Value] = [None] * len(values)
    return Records(
        topics=[topic] * len(values),
        partitions=[0] * len(values),
        timestamps=[1_700_000_000_000 + first + row for row in range(len(values))],
        keys=Column.of([*(nothing if keys is None else keys)], key_schema),
        values=Column.of([*values], schema),
        offsets=[first + row for row in range(len(values))],
    )


class SinkCase(_Case):
    """A sink connector, and how to look into its target."""

    connector: ClassVar[type[SinkConnector]]

    idempotent: ClassVar[bool] = False
    """Writing the same records again changes nothing: an upsert, for example. Without it, records
    may stand in the target more than once after a failure, and the connector's documentation says
    so."""

    ordered: ClassVar[bool] = True
    """The target keeps the order in which it was written to."""

    @abstractmethod
    def contents(self) -> list[Any]:
        """What the target holds now, an entry per record; nothing when there is no target yet."""

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        """One record for each number, with schemas or without; None if the sink takes only the
        others. By default texts, with a text as the key."""
        kind = STRING if schema else None
        return records_of(
            [f"value {number}" for number in numbers],
            schema=kind,
            keys=[f"key-{number}" for number in numbers],
            key_schema=kind,
            first=numbers.start,
        )

    def expected(self, records: Records) -> list[Any]:
        """What `contents` has of records that were written; by default their values."""
        return list(records.values.values)

    def bad_records(self) -> Records | None:
        """Records that the target refuses, each of them; None when it takes anything."""
        return None

    def target_away(self) -> AbstractContextManager[object] | None:
        """While the context is entered, the target cannot be written to, as when its server is
        down. None when that cannot be arranged."""
        return None


class SinkConformance(_ConnectorChecks, SinkCase):
    """The promises of a sink: `SinkConnector`, `SinkWriter`."""

    @pytest.fixture
    def writer(self) -> Iterator[SinkWriter]:
        """A writer of the one task there is."""
        writer = self._open()
        yield writer
        writer.close()

    @pytest.mark.parametrize("schema", [True, False], ids=["with-schema", "schemaless"])
    def test_when_write_returns_the_target_has_the_records(
        self, writer: SinkWriter, schema: bool
    ) -> None:
        records = self.records(range(50), schema=schema)
        if records is None:
            pytest.skip("not the records of this sink")
        assert self._write(writer, records) == {}
        self._holds(self.expected(records))

    def test_batches_are_written_one_after_the_other(self, writer: SinkWriter) -> None:
        batches = [self._some(range(first, first + 7)) for first in range(0, 35, 7)]
        for batch in batches:
            self._write(writer, batch)
        self._holds([entry for batch in batches for entry in self.expected(batch)])

    def test_an_empty_batch_changes_nothing(self, writer: SinkWriter) -> None:
        self._write(writer, self._some(range(3)))
        before = self.contents()
        assert self._write(writer, self._some(range(3)).only([])) == {}
        assert self.contents() == before

    def test_another_writer_goes_on_where_the_last_one_stopped(self) -> None:
        first, second = self._some(range(5)), self._some(range(5, 12))
        for batch in (first, second):
            writer = self._open()
            self._write(writer, batch)
            writer.close()
        self._holds([*self.expected(first), *self.expected(second)])

    def test_two_writers_write_side_by_side(self) -> None:
        # The partitions of one task, or several tasks, each by a writer of its own.
        one, other = self._open(), self._open()
        written: list[Any] = []
        try:
            for number in range(4):
                for writer, first in ((one, number), (other, 100 + number)):
                    batch = self._some(range(first, first + 1))
                    self._write(writer, batch)
                    written += self.expected(batch)
        finally:
            one.close()
            other.close()
        self._holds(written)

    def test_a_range_that_is_written_again(self) -> None:
        # After a failure a task goes on at the last commit: records come once more.
        records = self._some(range(10))
        for start in (0, 4):
            writer = self._open()
            self._write(writer, records.only(range(start, 10)))
            writer.close()
        expected = Counter(map(repr, self.expected(records)))
        found = Counter(map(repr, self.contents()))
        if self.idempotent:
            assert found == expected, "`idempotent` says that writing again changes nothing"
        else:
            assert found.keys() == expected.keys()
            assert all(found[entry] >= count for entry, count in expected.items())

    def test_what_is_given_stays_as_it_is(self, writer: SinkWriter) -> None:
        records = self._some(range(5))
        before = deepcopy(records)
        self._write(writer, records)
        assert records == before

    def test_a_tombstone_is_written_or_refused_and_its_neighbours_are_written(
        self, writer: SinkWriter
    ) -> None:
        around = self._some(range(3))
        values = [*around.values.values]
        schemas = around.values.schemas()
        values[1], schemas[1] = None, None
        batch = around.with_values(Column.gather(values, schemas))
        failed = self._write(writer, batch)
        assert set(failed) <= {1}, "neighbours of a record without a value were refused"
        for neighbour in self.expected(around.only([0, 2])):
            assert neighbour in self.contents()

    def test_a_record_that_is_refused_is_named_and_its_neighbours_are_written(
        self, writer: SinkWriter
    ) -> None:
        bad = self.bad_records()
        if bad is None:
            pytest.skip("no `bad_records` are given")
        good = self._some(range(len(bad) + 1))
        # Good and bad ones in turn, a good one at both ends.
        parts: list[Records] = []
        for row in range(len(good)):
            parts.append(good.only([row]))
            parts += [bad.only([row])] if row < len(bad) else []
        for place, part in enumerate(parts):
            part.origins = [place]
        batch = Records.together(*parts)
        failed = self._write(writer, batch)
        assert sorted(failed) == list(range(1, len(batch), 2))
        self._holds(self.expected(good))

    def test_a_target_that_is_away_gets_the_batch_when_it_is_back(self) -> None:
        away = self.target_away()
        if away is None:
            pytest.skip("`target_away` cannot be arranged")
        records = self._some(range(5))
        writer = self._open()
        try:
            with away, pytest.raises(Exception) as failure:  # noqa: PT011 - any that is retriable
                self._write(writer, records)
            assert getattr(failure.value, "retriable", False), (
                f"{failure.value!r} has no `retriable`, so the task would fail"
            )
            self._write(writer, records)
        finally:
            writer.close()
        self._holds(self.expected(records))

    def test_closing_lets_go_of_everything(self) -> None:
        self._open().close()  # what is made once and for all is made now
        before = _open_files()
        writer = self._open()
        self._write(writer, self._some(range(3)))
        writer.close()
        assert _open_files() == before

    def test_offsets_may_be_set_by_users(self) -> None:
        connector, config = self.connector(), self._parsed()
        changes: Mapping[tuple[str, int], int | None] = {("t", 0): 5, ("t", 1): None}
        assert connector.alter_offsets(config, changes) in (True, False)

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    def _open(self) -> SinkWriter:
        return self.connector().open(self._tasks()[0])

    def _some(self, numbers: range) -> Records:
        return _either(self, numbers)[0]

    def _write(self, writer: SinkWriter, records: Records) -> Failed:
        failed: Failed = {}
        writer.write(records, failed)
        assert set(failed) <= set(range(len(records))), "a row was refused that does not exist"
        assert all(isinstance(error, Exception) for error in failed.values())
        return failed

    def _holds(self, expected: list[Any]) -> None:
        found = self.contents()
        if self.ordered:
            assert found == expected
        else:
            assert Counter(map(repr, found)) == Counter(map(repr, expected))


def _either(case: SinkCase, numbers: range) -> tuple[Records, bool]:
    """Records with schemas if the sink takes such, and whether they are."""
    for schema in (True, False):
        records = case.records(numbers, schema=schema)
        if records is not None:
            return records, schema
    raise AssertionError("`records` has to make records with schemas, without, or both")


# ── end to end ───────────────────────────────────────────────────────────────────────────────────


class Running:
    """A worker process with the connector, and the broker's topics."""

    def __init__(self, worker: WorkerProcess, topics: Topics) -> None:
        self.worker = worker
        self.topics = topics

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Creates a connector, and waits until it runs."""
        self.worker.create(name, config)
        self.await_running(name)

    def await_running(self, name: str) -> None:
        """Waits until the connector and all of its tasks run; raises with the trace if it fails."""

        def runs() -> bool:
            status = self.worker.status(name)
            parts = [status["connector"], *status["tasks"]] if status else []
            for part in parts:
                if part["state"] == "FAILED":
                    pytest.fail(f"'{name}' has failed: {part.get('trace')}")
            return len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts)

        wait_until(runs, _ARRIVE_S, f"'{name}' to run")

    def restart(self) -> None:
        """Ends the worker in order, and starts it again."""
        assert self.worker.stop() == 0, self.worker.log_text()
        self.worker.start().await_rest()

    def append(
        self, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None]
    ) -> None:
        """Appends records, and returns when all are stored."""
        producer = Producer(
            {"bootstrap.servers": self.topics.bootstrap, "enable.idempotence": True}
        )
        for key, value in zip(keys, values, strict=True):
            producer.produce(topic, value, key)
        assert producer.flush(_ARRIVE_S) == 0, f"Kafka does not take records of '{topic}'"

    def topics_of(self, name: str) -> list[str]:
        """The topics that a connector has used."""
        told = self.worker.request("GET", f"/connectors/{name}/topics").json()
        return cast("list[str]", told.get(name, {}).get("topics", []))


class _EndToEnd(_Case):
    """A test with a real worker, Spark and a broker."""

    @pytest.fixture
    def running(
        self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Running]:
        """A worker that has the connector; the broker is that of a fixture `broker`, or its own."""
        folder = tmp_path_factory.mktemp("worker")
        try:
            broker: Broker = request.getfixturevalue("broker")
        except pytest.FixtureLookupError:
            with Broker(tmp_path_factory.mktemp("broker")) as own:
                yield from self._worker(folder, own)
        else:
            yield from self._worker(folder, broker)

    def _worker(self, folder: Path, broker: Broker) -> Iterator[Running]:
        settings = worker_settings(broker.bootstrap, f"conformance-{os.getpid()}-{next(_numbers)}")
        if self.plugin_path:
            settings["plugin.path"] = str(self.plugin_path)
        worker = WorkerProcess(folder, settings)
        try:
            worker.start().await_rest()
            yield Running(worker, Topics(broker.bootstrap))
        finally:
            worker.close()


def _json(schema: bool) -> JsonConverter:
    settings = {"schemas.enable": str(schema).lower(), "converter.type": "value"}
    return JsonConverter(JsonConverter.plugin.config.parse(settings), Use.VALUE)


def _json_settings(schema: bool) -> dict[str, str]:
    name = JsonConverter.plugin.class_name
    return {
        "key.converter": name,
        "value.converter": name,
        "key.converter.schemas.enable": str(schema).lower(),
        "value.converter.schemas.enable": str(schema).lower(),
    }


class SourceEndToEnd(_EndToEnd, SourceCase):
    """A source in a real worker: through Spark into Kafka. The topics it writes to are its own."""

    def test_records_reach_kafka_and_a_restart_neither_loses_nor_repeats_any(
        self, running: Running
    ) -> None:
        name = f"conformance-{next(_numbers)}"
        self.add(range(_RECORDS))
        config = {**self._props(), **_json_settings(schema=True), "name": name}
        running.create(name, config)
        self._arrive(running, name, _RECORDS)
        running.restart()
        running.await_running(name)
        self.add(range(_RECORDS, _RECORDS + 20))
        self._arrive(running, name, _RECORDS + 20)
        # What is sent now comes after whatever a restart might have repeated.
        self.add(range(_RECORDS + 20, _RECORDS + 21))
        self._arrive(running, name, _RECORDS + 21)

    def _arrive(self, running: Running, name: str, count: int) -> None:
        """Waits for so many different records in the topics, and no more than that many."""

        def found() -> list[tuple[str, bytes | None, bytes | None]]:
            return [
                (topic, row.key, row.value)
                for topic in running.topics_of(name)
                for row in running.topics.read(topic)
            ]

        def arrived() -> bool:
            return len(found()) >= count

        wait_until(arrived, _ARRIVE_S, f"{count} records", poll_s=0.5)
        rows = found()
        assert len(set(rows)) == len(rows) == count


class SinkEndToEnd(_EndToEnd, SinkCase):
    """A sink in a real worker: from Kafka through Spark into the target."""

    def test_records_reach_the_target_and_a_restart_neither_loses_nor_repeats_any(
        self, running: Running
    ) -> None:
        name = f"conformance-{next(_numbers)}"
        topic = running.topics.create(f"{name}-{os.getpid()}")
        expected = self._send(running, topic, range(_RECORDS))
        schema = _either(self, range(1))[1]
        config = {**self._props(), **_json_settings(schema), "name": name, "topics": topic}
        running.create(name, config)
        self._arrive(expected)
        running.restart()
        running.await_running(name)
        expected += self._send(running, topic, range(_RECORDS, _RECORDS + 20))
        self._arrive(expected)

    def _send(self, running: Running, topic: str, numbers: range) -> list[Any]:
        """Produces records; what the target is to hold of them."""
        records, schema = _either(self, numbers)
        converter = _json(schema)
        failed: Failed = {}
        columns = (records.keys, records.values)
        keys, values = (converter.from_connect(records.topics, each, failed) for each in columns)
        assert not failed, f"the records are no JSON: {failed}"
        running.append(topic, keys, values)
        return self.expected(records)

    def _arrive(self, expected: list[Any]) -> None:
        wait_until(
            lambda: len(self.contents()) >= len(expected),
            _ARRIVE_S,
            f"{len(expected)} records in the target",
            poll_s=0.2,
        )
        found = self.contents()
        if self.ordered:
            assert found == expected
        else:
            assert Counter(map(repr, found)) == Counter(map(repr, expected))
