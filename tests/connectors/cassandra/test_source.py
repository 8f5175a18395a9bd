"""The Cassandra source, against the server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any, ClassVar

import orjson
import pytest
from cassandra.util import Duration, uuid_from_time

from penstock.api import ConfigInvalid, PenstockError, Polled, SourceOffset, Unavailable
from penstock.api.schema import check
from penstock.connectors.cassandra.source import CassandraSource
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub
from penstock.testing.proxy import Proxy
from tests.servers.cassandra import CassandraServer, shared

pytestmark = pytest.mark.timeout(300)

NUMBERS = count()
KS = "sources"
P = "connect.cassandra."
BEGIN_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def server() -> CassandraServer:
    running = shared()
    running.execute(
        f"CREATE KEYSPACE IF NOT EXISTS {KS} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    return running


@pytest.fixture
def table() -> str:
    return f"t{next(NUMBERS)}"


def settings(server_port: int, kcql: str, **given: str) -> dict[str, str]:
    return {
        f"{P}contact.points": "127.0.0.1",
        f"{P}port": str(server_port),
        f"{P}key.space": KS,
        f"{P}slice.delay.ms": "0",
        f"{P}import.poll.interval": "50",
        f"{P}kcql": kcql,
        **{f"{P}{name.replace('_', '.')}": value for name, value in given.items()},
    }


class Conformance(SourceConformance):
    resumes_within_polls = True
    connector = CassandraSource
    server: ClassVar[CassandraServer]
    key_type: ClassVar[str]
    primary: ClassVar[str]
    mode: ClassVar[str]
    wait_ms = 0
    bad_configs = (
        ({f"{P}key.space": ""}, f"{P}key.space"),
        ({f"{P}kcql": "INSERT INTO x"}, f"{P}kcql"),
        ({f"{P}kcql": None}, f"{P}kcql"),
        ({f"{P}initial.offset": "then"}, f"{P}initial.offset"),
        ({f"{P}bucket.timeseries.mode": "YEAR"}, f"{P}bucket.timeseries.mode"),
        ({f"{P}error.policy": "HIDE"}, f"{P}error.policy"),
    )

    @pytest.fixture(autouse=True)
    def _server(self, server: CassandraServer) -> None:
        type(self).server = server
        self.table = f"c{next(NUMBERS)}"
        server.execute(
            f"CREATE TABLE {KS}.{self.table} "
            f"(p int, at {self.key_type}, name text, PRIMARY KEY ({self.primary}))"
        )

    def config(self) -> dict[str, str]:
        kcql = f"INSERT INTO rows SELECT * FROM {self.table} PK at INCREMENTALMODE={self.mode}"
        return settings(self.server.port, kcql)

    def add(self, numbers: range) -> None:
        for number in numbers:
            self.server.execute(
                f"INSERT INTO {KS}.{self.table} (p, at, name) VALUES (%s, %s, %s)",
                (number % 3, self.key(number), f"name {number}"),
            )

    def key(self, number: int) -> Any:
        return BEGIN_MS + number * 1000


class TestByTimestamp(Conformance):
    key_type, primary, mode = "timestamp", "p, at", "timestamp"


class TestByTimeuuid(Conformance):
    key_type, primary, mode = "timeuuid", "p, at", "timeuuid"

    def key(self, number: int) -> Any:
        return uuid_from_time(BEGIN_MS / 1000 + number, node=1, clock_seq=1)


class Reader:
    """A reader, and what it has read."""

    def __init__(self, props: dict[str, str], stored: list[SourceOffset] | None = None) -> None:
        self.config = CassandraSource.plugin.config.parse(props)
        self.context = SourceContextStub(stored or [])
        self.reader = CassandraSource().open(self.config, self.context)

    def polls(self, most: int = 1 << 20) -> Iterator[Polled]:
        idle = 0
        while idle < 3:
            polled = self.reader.poll(most, 0)
            if polled is None:
                idle += 1
                self.context.wait(0.06)
            else:
                idle = 0
                yield polled

    def values(self, most: int = 1 << 20) -> list[Any]:
        return [value for polled in self.polls(most) for value in polled.records.values.values]

    def close(self) -> None:
        self.reader.close()


MakeReader = Callable[..., Reader]


@pytest.fixture
def make_reader(server: CassandraServer) -> Iterator[MakeReader]:
    made: list[Reader] = []

    def make(kcql: str, stored: list[SourceOffset] | None = None, **given: str) -> Reader:
        made.append(Reader(settings(given.pop("at", str(server.port)), kcql, **given), stored))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_tokens_are_walked_through_and_partitions_stay_whole(
    server: CassandraServer, table: str, make_reader: MakeReader
) -> None:
    server.execute(f"CREATE TABLE {KS}.{table} (id uuid, n int, PRIMARY KEY (id, n))")
    ids = [uuid.UUID(int=number) for number in range(12)]
    for each in ids:
        for n in range(5):
            server.execute(f"INSERT INTO {KS}.{table} (id, n) VALUES (%s, %s)", (each, n))
    kcql = f"INSERT INTO rows SELECT * FROM {table} PK id INCREMENTALMODE=token"
    whole: list[Any] = []
    resumed = 0
    for polled in make_reader(kcql, fetch_size="7").polls(100):
        whole += polled.records.values.values
        if polled.offsets and resumed < 4:
            (offset,) = polled.offsets
            assert dict(offset.partition) == {f"{P}assigned.tables": table}
            assert offset.offset == {"id": whole[-1]["id"]}
            rest = make_reader(kcql, [offset], fetch_size="7").values()
            assert len(whole) + len(rest) == 60
            resumed += 1
    assert resumed == 4
    assert sorted((row["id"], row["n"]) for row in whole) == sorted(
        (str(each), n) for each in ids for n in range(5)
    )


def test_a_table_without_a_column_is_read_in_parts_again_and_again(
    server: CassandraServer, table: str, make_reader: MakeReader
) -> None:
    server.execute(f"CREATE TABLE {KS}.{table} (a int, b text, c int, PRIMARY KEY ((a, b)))")
    for number in range(200):
        server.execute(
            f"INSERT INTO {KS}.{table} (a, b, c) VALUES (%s, %s, %s)", (number, "x", number)
        )
    reader = make_reader(f"INSERT INTO rows SELECT * FROM {table}", fetch_size="30")
    other = make_reader(f"INSERT INTO rows SELECT * FROM {table}", fetch_size="30")
    for _ in range(2):
        polled = reader.reader.poll(1 << 20, 0)
        while polled is None:
            reader.context.wait(0.05)
            polled = reader.reader.poll(1 << 20, 0)
        assert len(polled.parts) == 8
        found = [
            row["c"]
            for part in polled.parts
            for records in other.reader.read(part)
            for row in records.values.values
        ]
        assert sorted(found) == list(range(200))
    config = CassandraSource.plugin.config.parse(
        settings(server.port, f"INSERT INTO a SELECT * FROM {table}")
    )
    assert CassandraSource().exactly_once(config) is False


TYPES: list[tuple[str, Any, str, Any]] = [
    ("ascii", "a", "STRING", "a"),
    ("bigint", 1 << 60, "INT64", 1 << 60),
    ("blob", b"\x01", "BYTES", b"\x01"),
    ("boolean", True, "BOOLEAN", True),
    ("date", date(2026, 1, 31), "INT32", date(2026, 1, 31)),
    ("decimal", Decimal("1.5"), "BYTES", Decimal("1.500000000000000000")),
    ("double", 0.5, "FLOAT64", 0.5),
    ("duration", Duration(1, 2, 3_000_000_000), "STRING", "1mo2d3000000000ns"),
    ("float", 0.5, "FLOAT32", 0.5),
    ("inet", "::1", "STRING", "/0:0:0:0:0:0:0:1"),
    ("int", 7, "INT32", 7),
    ("smallint", 300, "INT16", 300),
    ("text", "grün", "STRING", "grün"),
    ("time", 5_000_000_007, "INT64", 5_000_000_007),
    (
        "timestamp",
        datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
        "INT64",
        datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
    ),
    ("tinyint", -5, "INT8", -5),
    ("uuid", uuid.UUID(int=5), "STRING", str(uuid.UUID(int=5))),
    ("varint", 1 << 60, "INT64", 1 << 60),
    ("list<int>", [2, 1], "STRING", "[2,1]"),
    ("set<text>", {"b", "a"}, "STRING", '["a","b"]'),
    ("map<text, int>", {"a": 1}, "STRING", '{"a":1}'),
    ("tuple<int, text>", (1, "it's"), "STRING", "(1,'it''s')"),
    ("vector<float, 2>", [0.5, 1.5], "STRING", "[0.5,1.5]"),
    ("frozen<home>", ("s", [1, 2]), "STRING", "{street:'s',numbers:[1,2]}"),
]


def test_every_type_is_read(server: CassandraServer, table: str, make_reader: MakeReader) -> None:
    server.execute(f"CREATE TYPE IF NOT EXISTS {KS}.home (street text, numbers frozen<list<int>>)")
    names = [f"c{number}" for number in range(len(TYPES))]
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in zip(names, TYPES, strict=True))
    server.execute(
        f"CREATE TABLE {KS}.{table} (id int, at timestamp, {columns}, PRIMARY KEY (id, at))"
    )
    marks = ", ".join("?" for _ in names)
    prepared = server.session.prepare(
        f"INSERT INTO {KS}.{table} (id, at, {', '.join(names)}) VALUES (?, ?, {marks})"
    )
    server.execute(prepared, (1, BEGIN_MS, *[value for _, value, _, _ in TYPES]))
    server.execute(prepared, (2, BEGIN_MS + 1, *[None for _ in TYPES]))
    kcql = f"INSERT INTO rows SELECT * FROM {table} IGNORE id PK at INCREMENTALMODE=timestamp"
    (polled,) = make_reader(kcql).polls()
    first, second = polled.records.values.values
    (schema,) = set(polled.records.values.schemas())
    assert schema is not None
    assert schema.name == f"{KS}.{table}"
    assert "id" not in first
    check(schema, first)
    check(schema, second)
    for name, (kind, _, schema_type, expected) in zip(names, TYPES, strict=True):
        assert first[name] == expected, kind
        assert schema.field(name).schema.type.value == schema_type, kind
        assert second[name] is None
    (polled,) = make_reader(kcql, mapping_collection_to_json="false").polls()
    value = polled.records.values.values[0]
    found = {kind: value[name] for name, (kind, *_) in zip(names, TYPES, strict=True)}
    assert found["list<int>"] == [2, 1]
    assert found["set<text>"] == ["a", "b"]
    assert found["map<text, int>"] == {"a": 1}
    assert found["vector<float, 2>"] == [0.5, 1.5]


def test_columns_are_selected_and_unwrapped(
    server: CassandraServer, table: str, make_reader: MakeReader
) -> None:
    server.execute(
        f"CREATE TABLE {KS}.{table} (id int, at timestamp, v text, PRIMARY KEY (id, at))"
    )
    server.execute(f"INSERT INTO {KS}.{table} (id, at, v) VALUES (1, {BEGIN_MS}, 'x')")
    tail = f"FROM {table} PK at INCREMENTALMODE=timestamp"
    assert make_reader(f"INSERT INTO t SELECT id, at {tail}").values()[0].keys() == {"id", "at"}
    unwrapped = f"FROM {table} PK at WITHUNWRAP INCREMENTALMODE=timestamp"
    assert make_reader(f"INSERT INTO t SELECT id, v, at {unwrapped}").values()[0].startswith("1,x,")
    unwrapped = (
        f"FROM {table} IGNORE at PK at WITHFORMAT json WITHUNWRAP INCREMENTALMODE=timestamp "
        "WITHKEY(id, v)"
    )
    (polled,) = make_reader(f"INSERT INTO t SELECT * {unwrapped}").polls()
    assert orjson.loads(polled.records.values.values[0]) == {"id": 1, "v": "x"}
    assert polled.records.keys.values == ["1,x"]


def test_buckets_are_those_of_the_range(
    server: CassandraServer, table: str, make_reader: MakeReader
) -> None:
    server.execute(
        f"CREATE TABLE {KS}.{table} (bucket text, at timestamp, PRIMARY KEY (bucket, at))"
    )
    for day in range(1, 10):
        server.execute(
            f"INSERT INTO {KS}.{table} (bucket, at) VALUES (%s, %s)",
            (f"2026-01-0{day}", datetime(2026, 1, day, 12, tzinfo=UTC)),
        )
    found = make_reader(
        f"INSERT INTO t SELECT * FROM {table} PK at INCREMENTALMODE=buckettimeseries",
        bucket_timeseries_mode="DAY",
        bucket_timeseries_format="yyyy-MM-dd",
        initial_offset="2026-01-03 00:00:00.000Z",
        slice_duration="100000000",
    ).values()
    assert [row["bucket"] for row in found] == [f"2026-01-0{day}" for day in range(3, 10)]


def test_a_slice_that_is_too_large_to_be_put_in_order_has_one_offset(
    server: CassandraServer, table: str, make_reader: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.cassandra.read.reader._MAX_SORTED", 20)
    server.execute(f"CREATE TABLE {KS}.{table} (id int, at timestamp, PRIMARY KEY (id, at))")
    for number in range(100):
        server.execute(
            f"INSERT INTO {KS}.{table} (id, at) VALUES (%s, %s)", (number, BEGIN_MS + number)
        )
    kcql = f"INSERT INTO t SELECT * FROM {table} PK at INCREMENTALMODE=timestamp"
    polls = list(make_reader(kcql, fetch_size="10").polls(400))
    assert sorted(row["id"] for each in polls for row in each.records.values.values) == list(
        range(100)
    )
    assert [bool(each.offsets) for each in polls] == [False] * (len(polls) - 1) + [True]
    (offset,) = polls[-1].offsets
    assert make_reader(kcql, [offset]).values() == []


def test_unknown_names_are_reported_at_validation(server: CassandraServer, table: str) -> None:
    server.execute(f"CREATE TABLE {KS}.{table} (id int, at timestamp, PRIMARY KEY (id, at))")
    cases = {
        f"SELECT * FROM {table} PK no INCREMENTALMODE=timestamp": "do not exist",
        f"SELECT * FROM {table} PK id INCREMENTALMODE=timestamp": "needs a timestamp",
        f"SELECT * FROM {table} PK at INCREMENTALMODE=timeuuid": "needs a timeuuid",
        f"SELECT * FROM {table} PK at INCREMENTALMODE=token": "not the partition key",
        f"SELECT id FROM {table} PK at INCREMENTALMODE=timestamp": "must appear",
        "SELECT * FROM nowhere": "Table nowhere does not exist",
        f"SELECT * FROM {table} PK at INCREMENTALMODE=dsesearchtimestamp": "DSE Search",
        f"SELECT * FROM {table} PK at INCREMENTALMODE=often": "is not one of",
        f"SELECT * FROM {table} INCREMENTALMODE=timestamp": "Only one primary key column",
    }
    for kcql, text in cases.items():
        props = settings(server.port, f"INSERT INTO t {kcql}")
        config = CassandraSource.plugin.config.parse(props)
        ((setting, error),) = [
            (each.setting, each.error or "") for each in CassandraSource().validate_live(config)
        ]
        assert (setting, text in error) == (f"{P}kcql", True), error
    props = settings(server.port, f"INSERT INTO t SELECT * FROM {table}", key_space="none")
    config = CassandraSource.plugin.config.parse(props)
    ((setting, error),) = [
        (each.setting, each.error) for each in CassandraSource().validate_live(config)
    ]
    assert setting == f"{P}key.space"


def test_tables_are_shared_by_tasks_and_offsets_checked(server: CassandraServer) -> None:
    kcql = ";".join(f"INSERT INTO t{n} SELECT * FROM t{n}" for n in range(5))
    config = CassandraSource.plugin.config.parse(settings(server.port, kcql))
    tasks = CassandraSource().plan_tasks(config, 3)
    assert [each[f"{P}assigned.tables"] for each in tasks] == ["t0,t1", "t2,t3", "t4"]
    partition = {f"{P}assigned.tables": "t1"}
    assert CassandraSource().alter_offsets(config, [SourceOffset(partition, None)])
    for bad in (SourceOffset({"x": "y"}, None), SourceOffset(partition, {"a": 1})):
        with pytest.raises(PenstockError):
            CassandraSource().alter_offsets(config, [bad])
    wrong = settings(server.port, "INSERT INTO t SELECT * FROM t INCREMENTALMODE=often")
    config = CassandraSource.plugin.config.parse(wrong)
    with pytest.raises(ConfigInvalid):
        CassandraSource().plan_tasks(config, 1)


def test_pages_that_cannot_be_read_are_read_again(
    server: CassandraServer, table: str, make_reader: MakeReader
) -> None:
    server.execute(f"CREATE TABLE {KS}.{table} (id int, at timestamp, PRIMARY KEY (id, at))")
    for number in range(60):
        server.execute(
            f"INSERT INTO {KS}.{table} (id, at) VALUES (%s, %s)", (number, BEGIN_MS + number)
        )
    kcql = f"INSERT INTO t SELECT * FROM {table} PK at INCREMENTALMODE=timestamp"
    with Proxy(server.port) as proxy:
        reader = make_reader(kcql, at=str(proxy.port), fetch_size="10", read_timeout_ms="1000")
        found: list[int] = []
        broken = 0
        for _ in range(400):
            try:
                polled = reader.reader.poll(100, 0)
            except Unavailable:
                broken += 1
                proxy.restore()
                reader.context.wait(0.3)
                continue
            if polled is not None:
                found += [row["id"] for row in polled.records.values.values]
                if len(found) in range(10, 14) and not broken:
                    server.execute(
                        f"INSERT INTO {KS}.{table} (id, at) VALUES (99, {BEGIN_MS + 99})"
                    )
                    proxy.cut()
            elif 99 in found:
                break
            else:
                reader.context.wait(0.05)
        assert broken
        assert sorted(found) == [*range(60), 99]
