"""What `penstock preview` shows of files, of SQLite tables and of a made-up source."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.api import (
    Column,
    Header,
    Plugin,
    Polled,
    Props,
    Records,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
    Transaction,
)
from penstock.api import schema as s
from penstock.api.settings import INT, STRING, Config, ConfigDef, Key
from penstock.cli.previews import source as preview
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.json import JsonConverter
from penstock.plugins import path as plugin_path
from penstock.plugins.registry import Registry

from .workers import FakeClock, FakeWorkers, Penstock, Result

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a connector's file."""

    def written(**settings: object) -> str:
        config = {name.replace("__", "."): str(value) for name, value in settings.items()}
        file = tmp_path / "connector.json"
        file.write_text(json.dumps({"name": "c", **config}))
        return str(file)

    return written


@pytest.fixture
def lines(tmp_path: Path, write: Write) -> Write:
    """A file source; its file has the numbers from 0 to 99."""
    data = tmp_path / "in.txt"
    data.write_text("".join(f"{number}\n" for number in range(100)))
    source = {"connector__class": "FileStreamSource", "file": data, "topic": "lines"}
    return lambda **settings: write(**{**source, **settings})


def documents(result: Result) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.lines]


TRANSFORMS = "org.apache.kafka.connect.transforms"


def test_the_first_lines_of_a_file_are_shown_and_no_cluster_is_asked(
    penstock: Penstock, lines: Write, workers: FakeWorkers
) -> None:
    schema, *records = documents(penstock("preview", lines()))
    assert schema == {"topic": "lines", "schema": {"key": None, "value": "STRING"}}
    assert records == [{"topic": "lines", "key": None, "value": str(n)} for n in range(10)]
    assert workers.asked == []


@pytest.mark.parametrize("rows", [1, 99, 100, 1000])
def test_as_many_are_shown_as_are_asked_for_and_there(
    penstock: Penstock, lines: Write, rows: int
) -> None:
    shown = documents(penstock("preview", lines(), "--rows", str(rows)))
    assert [each["value"] for each in shown[1:]] == [str(n) for n in range(min(rows, 100))]


def test_transforms_are_applied_and_what_they_leave_out_is_not_shown(
    penstock: Penstock, lines: Write
) -> None:
    file = lines(
        **{
            "transforms": "some,hoist,route,mark",
            "transforms.some.type": f"{TRANSFORMS}.Filter",
            "transforms.some.predicate": "other",
            "predicates": "other",
            "predicates.other.type": f"{TRANSFORMS}.predicates.TopicNameMatches",
            "predicates.other.pattern": "others",
            "transforms.hoist.type": f"{TRANSFORMS}.HoistField$Value",
            "transforms.hoist.field": "line",
            "transforms.route.type": f"{TRANSFORMS}.RegexRouter",
            "transforms.route.regex": "(.*)",
            "transforms.route.replacement": "$1-new",
            "transforms.mark.type": f"{TRANSFORMS}.InsertHeader",
            "transforms.mark.header": "from",
            "transforms.mark.value.literal": "here",
        }
    )
    schema, record = documents(penstock("preview", file, "--rows", "1"))
    assert schema == {"topic": "lines-new", "schema": {"key": None, "value": "{line STRING}"}}
    assert record == {
        "topic": "lines-new",
        "headers": [["from", "here"]],
        "key": None,
        "value": {"line": "0"},
    }
    result = penstock("preview", file, "--set", "predicates.other.pattern=lines")
    assert (result.code, result.out) == (0, "")
    assert result.err == "'c' finds no records that the transforms keep.\n"


CASTS = {
    "transforms": "cast",
    "transforms.cast.type": f"{TRANSFORMS}.Cast$Value",
    "transforms.cast.spec": "int8",
}


def test_a_record_that_would_fail_the_task_ends_it_with_its_reason(
    penstock: Penstock, lines: Write, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("1\nx\n3\n")
    result = penstock("preview", lines(**CASTS))
    assert result.code == 4
    assert "The task c-0 would fail: TRANSFORMATION failed in class" in result.err
    assert "errors.tolerance=all" in result.err
    result = penstock("preview", lines(**CASTS), "--set", "errors.tolerance=all")
    assert [each["value"] for each in documents(result)[1:]] == [1, 3]
    assert "A record is skipped: TRANSFORMATION" in result.err


def test_a_missing_file_is_waited_for_only_if_that_is_wished(
    penstock: Penstock,
    lines: Write,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = tmp_path / "in.txt"
    data.unlink()
    begun = clock.ms
    result = penstock("preview", lines())
    assert (result.code, result.out, result.err) == (0, "", "'c' finds no records.\n")
    assert clock.ms == begun
    result = penstock("preview", lines(), "--wait", "2")
    assert (result.code, result.out, clock.ms) == (0, "", begun + 2000)

    def appears(_: float) -> None:
        data.write_text("at last\n")

    monkeypatch.setattr(clock, "wait", appears)
    _, record = documents(penstock("preview", lines(), "--wait", "2"))
    assert record["value"] == "at last"


def test_nothing_in_a_record_is_obeyed_by_a_terminal_and_all_of_it_is_json(
    penstock: Penstock, lines: Write, tmp_path: Path
) -> None:
    text = "\x1b[2J\u202eé\U000e0041"
    (tmp_path / "in.txt").write_text(text + "\n")
    result = penstock("preview", lines())
    assert documents(result)[1]["value"] == text
    assert all(c.isprintable() or c == "\n" for c in result.out)
    assert "é" in result.out


@pytest.fixture
def tables(tmp_path: Path, write: Write) -> Write:
    """A JDBC source of two tables."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, price DECIMAL(10,2), at TIMESTAMP);"
            "CREATE TABLE lines (id INTEGER PRIMARY KEY, note TEXT NOT NULL);"
        )
        shop.executemany("INSERT INTO lines VALUES (?, 'x')", [(n,) for n in range(1, 100)])
        shop.execute("INSERT INTO orders VALUES (1, 10.50, '2024-01-02 03:04:05')")
        shop.execute("INSERT INTO orders VALUES (2, NULL, NULL)")
    source = {
        "connector__class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection__url": f"jdbc:sqlite:{tmp_path / 'shop.db'}",
        "mode": "incrementing",
        "topic__prefix": "shop-",
    }
    return lambda **settings: write(**{**source, **settings})


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("mode", ["incrementing", "bulk"])
def test_the_first_rows_of_every_table_are_shown_and_nothing_is_written(
    penstock: Penstock, tables: Write, tmp_path: Path, mode: str, tasks: int
) -> None:
    before = (tmp_path / "shop.db").read_bytes()
    result = penstock("preview", tables(mode=mode, tasks__max=tasks), "--rows", "2")
    assert documents(result) == [
        {
            "topic": "shop-lines",
            "schema": {"key": None, "value": "lines {id INT32, note STRING}"},
        },
        {"topic": "shop-lines", "key": None, "value": {"id": 1, "note": "x"}},
        {"topic": "shop-lines", "key": None, "value": {"id": 2, "note": "x"}},
        {
            "topic": "shop-orders",
            "schema": {
                "key": None,
                "value": "orders {id INT32, price Decimal(2)?, at Timestamp?}",
            },
        },
        {
            "topic": "shop-orders",
            "key": None,
            "value": {"id": 1, "price": 10.5, "at": 1704164645000},
        },
        {"topic": "shop-orders", "key": None, "value": {"id": 2, "price": None, "at": None}},
    ]
    assert '"price":10.50' in result.out
    assert (tmp_path / "shop.db").read_bytes() == before


def test_small_tables_are_shown_although_a_large_one_comes_before_them(
    penstock: Penstock, tables: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "_WINDOW_BYTES", 100)  # some rows of the large one
    shown = documents(penstock("preview", tables(), "--rows", "3"))
    assert [each["topic"] for each in shown if "value" in each] == [
        *["shop-lines"] * 3,
        *["shop-orders"] * 2,
    ]


def test_objections_of_the_database_to_the_configuration_are_reported(
    penstock: Penstock, tables: Write
) -> None:
    result = penstock("preview", tables(table__whitelist="order"))
    assert (result.code, result.out) == (3, "")
    assert "penstock: The configuration is invalid.\ntable.whitelist: Invalid " in result.err
    assert result.err.endswith("; similar: orders\n")


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        (
            {"connector__class": "FileStreamSink", "topics": "t"},
            2,
            "'c' is a sink connector",
        ),
        ({"connector__class": "Nothing"}, 5, "There is no connector 'Nothing' here."),
        ({"topic": "t"}, 3, 'Missing required configuration "connector.class"'),
        ({"connector__class": "FileStreamSource"}, 3, 'topic: Missing required configuration "to'),
        (
            {"connector__class": "FileStreamSource", "topic": "t", "transforms": "x"},
            3,
            "transforms.x.type",
        ),
        ({"connector__class": "FileStreamSource", "topic": "t"}, 3, "Set 'file'."),
    ],
)
def test_a_preview_that_is_impossible_is_refused_with_a_reason(
    penstock: Penstock, write: Write, settings: dict[str, object], code: int, said: str
) -> None:
    result = penstock("preview", write(**settings))
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_placeholders_are_those_of_the_worker_that_is_named(
    penstock: Penstock, lines: Write, tmp_path: Path
) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("config.providers=d\nconfig.providers.d.class=DirectoryConfigProvider\n")
    (tmp_path / "topic").write_text("secret-topic")
    file = lines(topic=f"${{d:{tmp_path}:topic}}")
    shown = documents(penstock("preview", file, "--worker", str(worker), "--rows", "1"))
    assert {each["topic"] for each in shown} == {"secret-topic"}


ROWS = Key("rows", INT, default=0, doc="How many of each topic a poll has; -1: it breaks.")
HOW = Key("how", STRING, default="", doc="'parts': every poll has two; 'aborted': every other is.")


class Made(SourceConnector):
    """Two tasks, each with a topic; everything that a record can have."""

    plugin = Plugin("test.Made", "1", ConfigDef(ROWS, HOW))
    endings: ClassVar[list[int]] = []
    closed: ClassVar[list[str]] = []

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [{**config.props, "topic": f"t{number}"} for number in range(max_tasks)]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        assert context.stored_offsets == ()
        return MadeReader(config.props["topic"], config[ROWS], config[HOW])


class MadeReader(SourceReader):
    """Always has more rows."""

    def __init__(self, topic: str, rows: int, how: str) -> None:
        self.topic, self.rows, self.how = topic, rows, how
        self.at = 0

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        assert wait_ms == 0
        if self.rows < 0:
            raise ZeroDivisionError("division by zero")
        self.at += self.rows
        Made.endings.append(self.at)
        offsets = [SourceOffset({"topic": self.topic}, {"at": self.at})]
        if self.how == "parts":
            parts = [f"{self.at}-{part}" for part in range(2)]
            return Polled(self.some("whole"), offsets, parts=parts)
        odd = len(Made.endings) % 2 == 1
        aborted = self.how == "aborted" and odd
        state = Transaction.ABORTED if aborted else Transaction.COMPLETE
        return Polled(self.some("aborted" if aborted else "k"), offsets, state)

    def read(self, part: str) -> Iterator[Records]:
        yield self.some(part)

    def committed(self, offsets: object) -> None:
        pytest.fail("nothing is stored")

    def close(self) -> None:
        Made.closed.append(self.topic)

    def some(self, key: str) -> Records:
        values: Sequence[Any] = [{"n": 1}] * (self.rows - 1) + [None]
        return Records(
            topics=[self.topic] * self.rows,
            partitions=[3] * self.rows,
            timestamps=[1_700_000_000_000] * self.rows,
            keys=Column.of([key.encode()] * self.rows, s.BYTES),
            values=Column.of([*values], s.struct({"n": s.INT8}, name="a.b.N", optional=True)),
            headers=[[Header("h", 1.5, s.FLOAT64)]] * self.rows,
        )


@pytest.fixture
def made(write: Write, monkeypatch: pytest.MonkeyPatch) -> Write:
    registry = Registry([Made, JsonConverter, SimpleHeaderConverter])
    monkeypatch.setattr(plugin_path, "registry", lambda settings: registry)
    monkeypatch.setattr(Made, "endings", [])
    monkeypatch.setattr(Made, "closed", [])
    return lambda **settings: write(connector__class="test.Made", **settings)


def test_everything_that_a_record_has_is_shown_for_each_task(
    penstock: Penstock, made: Write
) -> None:
    shown = documents(penstock("preview", made(rows=2, tasks__max=2), "--rows", "2"))
    assert [each["topic"] for each in shown] == ["t0"] * 3 + ["t1"] * 3
    assert shown[0]["schema"] == {"key": "BYTES", "value": "N {n INT8}?"}
    assert shown[1] == {
        "topic": "t0",
        "partition": 3,
        "timestamp": 1_700_000_000_000,
        "headers": [["h", 1.5]],
        "key": "aw==",
        "value": {"n": 1},
    }
    assert shown[2]["value"] is None
    assert Made.closed == ["t0", "t1"]


def test_no_more_is_read_of_a_source_without_end_than_is_shown(
    penstock: Penstock, made: Write
) -> None:
    shown = documents(penstock("preview", made(rows=4), "--rows", "10"))
    assert len(shown) == 11
    assert Made.endings == [4, 8, 12, 16]


def keys(result: Result) -> list[str]:
    shown = [each for each in documents(result) if "key" in each]
    return [base64.b64decode(each["key"]).decode() for each in shown]


def test_parts_of_a_poll_are_read_in_a_preview(penstock: Penstock, made: Write) -> None:
    result = penstock("preview", made(rows=2, how="parts"), "--rows", "6")
    assert keys(result) == ["2-0", "2-0", "2-1", "2-1", "4-0", "4-0"]


def test_records_of_an_aborted_transaction_are_not_shown(penstock: Penstock, made: Write) -> None:
    result = penstock("preview", made(rows=2, how="aborted"), "--rows", "6")
    assert keys(result) == ["k"] * 6
    assert len(Made.endings) == 8  # the last one is not shown


def test_an_error_of_a_connector_is_reported_as_the_tasks_failure(
    penstock: Penstock, made: Write
) -> None:
    result = penstock("preview", made(rows=-1))
    assert (result.code, result.out) == (4, "")
    assert result.err == "penstock: The task c-0 would fail: ZeroDivisionError: division by zero\n"
