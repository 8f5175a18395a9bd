"""The tests of the conformance suite; see `conformance`."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, cast

import orjson
import pytest
from confluent_kafka import Producer

from penstock.api import (
    Column,
    Failed,
    Header,
    Offsets,
    PenstockError,
    Plugin,
    Polled,
    Props,
    Records,
    SinkConnector,
    SourceConnector,
    SourceOffset,
    TopicPartition,
    Transaction,
    Use,
)
from penstock.api.schema import STRING, Schema, Value, check
from penstock.api.settings import Config
from penstock.config import connector as connector_config
from penstock.convert.json import JsonConverter
from penstock.kafka.broker import Broker
from penstock.plugins.registry import Found
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

_MOST: Final = 1 << 20  # `max_bytes` of a worker's polls
_RECORDS: Final = 200
_ARRIVE_S: Final = 120.0
_IMPORT_S: Final = 60.0
_COME_S: Final = 20.0  # how long a reader may take to find new records
_PROMPT_S: Final = 2.0  # how long a poll may take that does not wait
_WAIT_MS: Final = 200

_numbers = itertools.count(1)


class _Case(ABC):
    """What a subclass defines for both sources and sinks."""

    bad_configs: ClassVar[Sequence[tuple[Mapping[str, str | None], str]]] = ()
    """Changes to `config` that make it invalid (None removes a setting), each with a text of the
    error message, such as the name of the setting."""

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
        """The complete settings of the connector, including the common ones."""
        plugin = self._connector_class().plugin
        whole = {"name": "conformance", "connector.class": plugin.class_name, "tasks.max": "1"}
        return {**whole, **self.config()}

    def _parsed(self) -> Config:
        return self._connector_class().plugin.config.parse(self._props())

    def _tasks(self, most: int = 1) -> list[Config]:
        """The task configurations as `open` gets them: stored and read again."""
        connector = self._connector_class()
        planned = connector().plan_tasks(self._parsed(), most)
        return [connector.plugin.config.parse(orjson.loads(orjson.dumps(dict(p)))) for p in planned]

    def _connector_class(self) -> type[SourceConnector] | type[SinkConnector]:
        return cast("type[SourceConnector] | type[SinkConnector]", type(self).connector)  # type: ignore[attr-defined]


class _ConnectorChecks(_Case):
    """The guarantees of both sources and sinks."""

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
        taken = {
            key.name
            for key in (connector_config.SOURCE if is_source else connector_config.SINK).keys
        }
        own = {key.name for key in self._connector_class().plugin.config.keys}
        assert not own & taken, "these names belong to the framework; use other ones"

    def test_the_configuration_is_valid(self) -> None:
        definition = self._connector_class().plugin.config
        problems = {each.name: each.errors for each in definition.validate(self._props())}
        assert not {name: errors for name, errors in problems.items() if errors}

    def test_a_bad_configuration_is_refused_with_a_reason(self) -> None:
        if not self.bad_configs:
            pytest.skip("`bad_configs` are not defined")
        for changes, text in self.bad_configs:
            merged = {**self._props(), **changes}
            props = {name: value for name, value in merged.items() if value is not None}
            with pytest.raises(PenstockError) as refused:
                self._begin(props)
            assert text in str(refused.value), (
                f"{changes} is refused, but the message lacks '{text}'"
            )

    def _begin(self, props: Props) -> None:
        """Everything that is done before the first record is moved."""
        connector = self._connector_class()()
        planned = connector.plan_tasks(connector.plugin.config.parse(props), 1)
        config = connector.plugin.config.parse(planned[0])
        if isinstance(connector, SourceConnector):
            connector.open(config, SourceContextStub()).close()
        else:
            connector.open(config, SinkContextStub()).close()

    @pytest.mark.parametrize("most", [1, 2, 7])
    def test_at_most_so_many_tasks_are_planned(self, most: int) -> None:
        planned = self._connector_class()().plan_tasks(self._parsed(), most)
        assert len(planned) <= most, "see `tasks.max`"
        for props in planned:
            for name, text in props.items():
                assert isinstance(name, str), f"the setting {name!r} is not a string"
                assert isinstance(text, str), f"the value of '{name}' is not a string: {text!r}"
            self._connector_class().plugin.config.parse(props)

    def test_planning_again_plans_the_same(self) -> None:
        # A different result would restart the running tasks.
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
        assert _open_files() == before, "`plan_tasks` leaves files or connections open"
        assert set(threading.enumerate()) == threads, "`plan_tasks` leaves threads running"

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
for name in ("penstock.api", "penstock.api.schema", "penstock.api.settings"):
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
    """The open files of this process, if the system lists them."""
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
    """A source connector, and how to add records to its source."""

    connector: ClassVar[type[SourceConnector]]

    wait_ms: ClassVar[int] = 0
    """How long a poll may wait for existing records: after that time without records, the source
    has none."""

    @abstractmethod
    def add(self, numbers: range) -> None:
        """Adds one distinct record for each of these numbers to the source. Called several times in
        a test, with increasing numbers; later records are read later."""


class _Step(NamedTuple):
    """Records that reach Kafka, and the offsets that are stored with them."""

    rows: list[str]
    stored: list[SourceOffset]


class _SourceTask:
    """A reader, polled as a worker polls it."""

    def __init__(self, case: SourceConformance, config: Config, stored: Offsets) -> None:
        connector = case.connector()
        self.config = config
        self.context = SourceContextStub(_stored(stored))
        self.reader = connector.open(config, self.context)
        self._case = case
        self._whole = connector.defines_transactions(config)
        self._known = {_name(each): each for each in stored}
        self._closed = False

    def polls(self, max_bytes: int = _MOST) -> Iterator[Polled]:
        """Polls until there are no more records."""
        for _ in range(_RECORDS * 10):
            polled = self.reader.poll(max_bytes, self._case.wait_ms)
            if polled is None:
                return
            yield polled
        pytest.fail("polling a finite source does not end: `poll` never returns None")

    def steps(self, max_bytes: int = _MOST, *, commit: bool = False) -> Iterator[_Step]:
        """The units whose offsets are stored together: polls, or transactions if the connector
        defines them. With `commit`, calls `committed` for each."""
        rows: list[str] = []
        for polled in self.polls(max_bytes):
            rows += self.rows(polled)
            self._known.update((_name(each), each) for each in polled.offsets)
            if polled.transaction is Transaction.ABORTED:
                rows = []
            if self._whole and polled.transaction is Transaction.OPEN:
                continue
            stored = _stored(self._known.values())
            if commit:
                self.context.store(stored)
                self.reader.committed(stored)
            yield _Step(rows, stored)
            rows = []
        assert not rows, "the last transaction is neither complete nor aborted"

    def read(self, max_bytes: int = _MOST) -> list[str]:
        """All records that exist now."""
        return [row for step in self.steps(max_bytes) for row in step.rows]

    def await_more(self, *, commit: bool = False) -> list[str]:
        """All new records, once there are any."""
        deadline = time.monotonic() + _COME_S
        while time.monotonic() < deadline:
            if rows := [row for step in self.steps(commit=commit) for row in step.rows]:
                return rows
            self.context.wait(max(10, self.reader.idle_ms) / 1000)
        pytest.fail(f"new records are not found within {_COME_S:.0f} s")

    def rows(self, polled: Polled) -> list[str]:
        """The records of a poll; those of its parts are read by another reader."""
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
        """How many seconds a poll without records takes."""
        begun = time.monotonic()
        polled = self.reader.poll(_MOST, wait_ms)
        took = time.monotonic() - begun
        assert polled is None or not _has_records(polled), "a record that was not added"
        return took

    def part(self, part: str) -> list[str]:
        """The records of one part of a poll."""
        return [row for records in self.reader.read(part) for row in _rows(records)]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.reader.close()


class SourceConformance(_ConnectorChecks, SourceCase):
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
        assert len(read) == _RECORDS
        assert len(set(read)) == _RECORDS, "records of different numbers have to be distinct"

    def test_reading_it_again_reads_the_same(self) -> None:
        self._add(20)
        assert self._read(self._task()) == self._read(self._task())

    def test_when_all_is_read_there_is_no_more_until_more_comes(self) -> None:
        self._add(10)
        config = self._task()
        task = self._open(config)
        stored = list(task.steps())[-1].stored
        assert task.read() == []
        assert self._read(config, stored) == []
        self.add(range(10, 15))
        assert len(task.await_more()) == 5

    def test_offsets_can_be_stored_as_kafka_connect_stores_them(self) -> None:
        self._add(5)
        polls = [polled for polled in self._open(self._task()).polls() if _has_records(polled)]
        assert polls, "`poll` returned no record although there are some"
        for polled in polls:
            assert polled.offsets, "`poll` returned records without an offset"
            for each in polled.offsets:
                assert isinstance(each, SourceOffset)
                assert each.offset is not None, "an offset of a partition that was read is None"
                for cells in (each.partition, each.offset):
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
        assert self._open(config).read(max_bytes) == self._read(config)

    def test_a_poll_is_about_as_large_as_was_asked_for(self) -> None:
        self._add(_RECORDS)
        config = self._task()
        sizes = [_size(polled.records) for polled in self._open(config).polls()]
        if not sum(sizes):
            pytest.skip("reads in parts")
        asked = max(1, sum(sizes) // 10)
        largest = max(_size(polled.records) for polled in self._open(config).polls(asked))
        assert largest <= sum(sizes) / 2, (
            f"`max_bytes` was {asked}, of {sum(sizes)} available, but `poll` returned {largest}"
        )

    def test_another_reader_goes_on_exactly_after_the_stored_offsets(self) -> None:
        self._add(30)
        config = self._task()
        whole = self._read(config)
        may_repeat = self.connector().exactly_once(self._parsed()) is False
        done = 0
        for rows, stored in self._open(config).steps(1):
            done += len(rows)
            rest = self._read(config, stored)
            told = f"from {stored!r}, when {done} of {len(whole)} were done"
            if may_repeat:
                assert Counter(rest) >= Counter(whole[done:]), told
            else:
                assert rest == whole[done:], told
        assert done == len(whole)

    def test_what_was_read_but_not_stored_is_read_again_also_when_there_is_more(self) -> None:
        self._add(25)
        config = self._task()
        task = self._open(config)
        before = task.read()
        task.close()
        self.add(range(25, 40))
        again = self._read(config)
        assert again[:25] == before
        assert len(again) == 40

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
        assert Counter(read) == Counter(self._read(self._task()))

    def test_a_reader_that_is_told_what_is_stored_goes_on(self) -> None:
        self._add(20)
        config = self._task()
        task = self._open(config)
        steps = list(task.steps(1, commit=True))
        assert sum(len(step.rows) for step in steps) == 20
        assert task.read() == []
        # The source system may have deleted records with stored offsets, and no others.
        self.add(range(20, 25))
        assert len(task.await_more(commit=True)) == 5
        self.add(range(25, 30))
        task.close()
        another = self._open(config, _stored(task.known()))
        assert len(another.await_more()) == 5

    def test_records_are_whole_and_fit_their_schemas(self) -> None:
        self._add(10)
        config = self._task()
        for polled in self._open(config).polls():
            reader = self._open(config).reader
            read = [records for part in polled.parts for records in reader.read(part)]
            for records in [polled.records, *read]:
                _check_shape(records)
                assert not records.offsets, "a source record must not have a Kafka offset"
                assert all(topic for topic in records.topics), "a record without a topic"

    def test_what_it_says_of_itself_makes_sense(self) -> None:
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

    def test_closing_lets_go_of_everything(self) -> None:
        self._add(3)
        config = self._task()
        self._read(config)  # what is made once and for all is made now
        before, threads = _open_files(), set(threading.enumerate())
        self._open(config).close()  # never polled
        task = self._open(config)
        assert len(task.read()) == 3
        task.close()
        assert _open_files() == before
        assert set(threading.enumerate()) <= threads, "threads are left behind"

    def test_offsets_of_its_own_may_be_set_by_users(self) -> None:
        self._add(3)
        connector, config = self.connector(), self._parsed()
        stored = list(self._open(self._task()).steps())[-1].stored
        assert connector.alter_offsets(config, stored) in (True, False)
        gone = [SourceOffset(each.partition, None) for each in stored]
        assert connector.alter_offsets(config, gone) in (True, False)

    # ── reading ──────────────────────────────────────────────────────────────────────────────

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


def _name(offset: SourceOffset) -> str:
    return orjson.dumps(dict(offset.partition), option=orjson.OPT_SORT_KEYS).decode()


def _has_records(polled: Polled) -> bool:
    return bool(polled.parts) or len(polled.records) > 0


def _size(records: Records) -> int:
    """About how many bytes the keys and values are."""
    cells = itertools.chain(records.keys.values, records.values.values)
    return sum(len(repr(cell)) for cell in cells)


def _stored(offsets: Iterable[SourceOffset]) -> list[SourceOffset]:
    """Offsets after they were stored and read again."""
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
    """A batch for a sink: records of one partition, from the offset `first` on."""
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
    """A sink connector, and how to read its target."""

    connector: ClassVar[type[SinkConnector]]

    idempotent: ClassVar[bool] = False
    """Whether repeated writes of the same records have no effect, as with an upsert. Otherwise the
    target may have duplicates after a failure, which the connector's documentation should say."""

    ordered: ClassVar[bool] = True
    """Whether the target keeps the order of writes."""

    @abstractmethod
    def contents(self) -> list[Any]:
        """The contents of the target, an entry per record; empty if it does not exist yet."""

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
        """Records that the target rejects; None if it accepts everything."""
        return None

    def target_away(self) -> AbstractContextManager[object] | None:
        """A context in which the target is unavailable, as when its server is down. None if the
        test cannot do that."""
        return None


class _SinkTask:
    """A writer, called as a worker calls it."""

    def __init__(self, connector: SinkConnector, config: Config) -> None:
        tolerance = config.props.get("errors.tolerance", "none")
        self.context = SinkContextStub(tolerates_errors=tolerance == "all")
        self.writer = connector.open(config, self.context)
        self.reached: dict[TopicPartition, int] = {}
        self._closed = False

    def write(self, records: Records) -> Failed:
        """Writes and flushes records; returns the rejected ones."""
        failed = self.deliver(records)
        return {**failed, **self.flush(records)}

    def deliver(self, records: Records) -> Failed:
        failed: Failed = {}
        first = dict(reversed(_places(records)))
        if fresh := {place: at for place, at in first.items() if place not in self.reached}:
            self.writer.assigned(fresh)
            self.reached.update(fresh)
        most = self.writer.batching.records or len(records) or 1
        for start in range(0, len(records) or 1, most):
            part = records.only(range(start, min(start + most, len(records))))
            refused: Failed = {}
            self.writer.write(records if len(part) == len(records) else part, refused)
            assert set(refused) <= set(range(len(part))), "`failed` has a row that does not exist"
            failed.update((start + row, error) for row, error in refused.items())
        self.reached.update((place, offset + 1) for place, offset in _places(records))
        return failed

    def flush(self, records: Records) -> Failed:
        """Flushes; returns those of `records` that were reported."""
        self.writer.flush()
        rows = {place: row for row, place in enumerate(_places(records))}
        failed: Failed = {}
        for ref, error in self.context.reported:
            place = (TopicPartition(ref.topic, ref.partition), ref.offset)
            assert place in rows, f"{ref} was reported but not written"
            failed[rows[place]] = error
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
        for place, offset in allowed.items():
            assert 0 <= offset <= self.reached[place], (
                f"`pre_commit` allows {place} up to {offset}; only what is before "
                f"{self.reached[place]} was written"
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


def _places(records: Records) -> list[tuple[TopicPartition, int]]:
    """Where each of the records was read."""
    cells = zip(records.topics, records.partitions, records.offsets, strict=True)
    return [(TopicPartition(topic, partition or 0), offset) for topic, partition, offset in cells]


class SinkConformance(_ConnectorChecks, SinkCase):
    """The guarantees of a sink: `SinkConnector`, `SinkWriter`."""

    @pytest.fixture
    def task(self) -> Iterator[_SinkTask]:
        """The one task there is."""
        task = self._open()
        yield task
        task.close()

    @pytest.mark.parametrize("schema", [True, False], ids=["with-schema", "schemaless"])
    def test_when_flush_returns_the_target_has_the_records(
        self, task: _SinkTask, schema: bool
    ) -> None:
        records = self.records(range(50), schema=schema)
        if records is None:
            pytest.skip("not the records of this sink")
        assert task.write(records) == {}
        self._holds(self.expected(records))

    def test_batches_are_written_one_after_the_other(self, task: _SinkTask) -> None:
        batches = [self._some(range(first, first + 7)) for first in range(0, 35, 7)]
        for batch in batches:
            task.deliver(batch)
        task.writer.flush()
        self._holds([entry for batch in batches for entry in self.expected(batch)])

    def test_an_empty_batch_changes_nothing(self, task: _SinkTask) -> None:
        task.write(self._some(range(3)))
        before = self.contents()
        assert task.write(self._some(range(3)).only([])) == {}
        assert self.contents() == before

    def test_flushing_again_changes_nothing(self, task: _SinkTask) -> None:
        task.writer.flush()
        assert task.pre_commit() == {}
        task.write(self._some(range(3)))
        before = self.contents()
        task.writer.flush()
        task.pre_commit()
        assert self.contents() == before

    def test_what_may_be_committed_is_not_needed_again(self) -> None:
        # The worker dies after a commit: only later records are written again.
        records = self._some(range(10))
        task = self._open()
        task.deliver(records)
        allowed = dict(task.pre_commit())
        task.close()
        rest = [
            row for row, (at, offset) in enumerate(_places(records)) if offset >= allowed.get(at, 0)
        ]
        another = self._open()
        another.write(records.only(rest))
        another.stop()
        expected = Counter(map(repr, self.expected(records)))
        assert Counter(map(repr, self.contents())) >= expected

    def test_partitions_may_go_and_come_back(self, task: _SinkTask) -> None:
        records = self._some(range(10))
        for lost, rows in ((False, range(4)), (True, range(4, 8)), (False, range(4, 10))):
            task.write(records.only(rows))
            task.revoke(lost=lost)
        self._holds_again(records)

    def test_another_writer_goes_on_where_the_last_one_stopped(self) -> None:
        first, second = self._some(range(5)), self._some(range(5, 12))
        for batch in (first, second):
            task = self._open()
            task.write(batch)
            task.stop()
        self._holds([*self.expected(first), *self.expected(second)])

    def test_two_writers_write_side_by_side(self) -> None:
        # As several tasks do.
        one, other = self._open(), self._open()
        written: list[Any] = []
        try:
            for number in range(4):
                for task, first in ((one, number), (other, 100 + number)):
                    batch = self._some(range(first, first + 1))
                    task.write(batch)
                    written += self.expected(batch)
        finally:
            one.close()
            other.close()
        self._holds(written)

    def test_records_that_are_written_again(self) -> None:
        # After a failure a task resumes at the last commit: records are written again.
        records = self._some(range(10))
        for start in (0, 4):
            task = self._open()
            task.write(records.only(range(start, 10)))
            task.stop()
        self._holds_again(records)

    def test_what_is_given_stays_as_it_is(self, task: _SinkTask) -> None:
        records = self._some(range(5))
        before = deepcopy(records)
        task.write(records)
        assert records == before

    def test_a_tombstone_is_written_or_refused_and_its_neighbours_are_written(
        self, task: _SinkTask
    ) -> None:
        around = self._some(range(3))
        values = [*around.values.values]
        schemas = around.values.schemas()
        values[1], schemas[1] = None, None
        batch = around.with_values(Column.gather(values, schemas))
        failed = task.write(batch)
        assert set(failed) <= {1}, "a tombstone affected other records of its batch"
        for neighbour in self.expected(around.only([0, 2])):
            assert neighbour in self.contents()

    def test_a_record_that_is_refused_is_named_and_its_neighbours_are_written(
        self, task: _SinkTask
    ) -> None:
        bad = self.bad_records()
        if bad is None:
            pytest.skip("`bad_records` are not defined")
        good = self._some(range(len(bad) + 1))
        # Good and bad ones alternate, with a good one at both ends.
        parts: list[Records] = []
        for row in range(len(good)):
            parts.append(good.only([row]))
            parts += [bad.only([row])] if row < len(bad) else []
        for place, part in enumerate(parts):
            part.origins = [place]
        batch = Records.together(*parts)
        batch.offsets = list(range(len(batch)))
        failed = task.write(batch)
        assert sorted(failed) == list(range(1, len(batch), 2))
        self._holds(self.expected(good))

    def test_a_target_that_is_away_gets_the_batch_when_it_is_back(self) -> None:
        away = self.target_away()
        if away is None:
            pytest.skip("`target_away` is not defined")
        records = self._some(range(5))
        task = self._open()
        held = False

        def write() -> None:
            nonlocal held
            if not held:
                task.deliver(records)
            held = True  # a `flush` that failed is called again, without the records
            task.writer.flush()

        try:
            with away, pytest.raises(Exception) as failure:  # noqa: PT011 - any that is retriable
                write()
            assert getattr(failure.value, "retriable", False), (
                f"{failure.value!r} has no `retriable`, so the task would fail"
            )
            write()
        finally:
            task.close()
        self._holds(self.expected(records))

    def test_closing_lets_go_of_everything(self) -> None:
        self._open().close()  # what is made once and for all is made now
        before, threads = _open_files(), set(threading.enumerate())
        task = self._open()
        task.write(self._some(range(3)))
        task.stop()
        assert _open_files() == before
        assert set(threading.enumerate()) <= threads, "threads are left behind"

    def test_offsets_may_be_set_by_users(self) -> None:
        connector, config = self.connector(), self._parsed()
        changes: Mapping[tuple[str, int], int | None] = {("t", 0): 5, ("t", 1): None}
        assert connector.alter_offsets(config, changes) in (True, False)

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    def _open(self) -> _SinkTask:
        return _SinkTask(self.connector(), self._tasks()[0])

    def _some(self, numbers: range) -> Records:
        return _either(self, numbers)[0]

    def _holds(self, expected: list[Any]) -> None:
        found = self.contents()
        if self.ordered:
            assert found == expected
        else:
            assert Counter(map(repr, found)) == Counter(map(repr, expected))

    def _holds_again(self, records: Records) -> None:
        """Checks that the target has the records; duplicates only if allowed."""
        expected = Counter(map(repr, self.expected(records)))
        found = Counter(map(repr, self.contents()))
        if self.idempotent:
            assert found == expected, "`idempotent` is set, but a repeated write changed the target"
        else:
            assert found.keys() == expected.keys()
            assert all(found[entry] >= count for entry, count in expected.items())


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
        """Stops the worker gracefully, and starts it again."""
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
        assert producer.flush(_ARRIVE_S) == 0, f"failed to produce records to '{topic}'"

    def topics_of(self, name: str) -> list[str]:
        """The active topics of a connector."""
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
    """A source in a real worker, through Spark to Kafka. Its topics are its own."""

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
        # These records come after any that the restart repeated.
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
    """A sink in a real worker, from Kafka through Spark to the target."""

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
        """Produces records; returns their expected contents in the target."""
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
