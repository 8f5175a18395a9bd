"""Values of every Cassandra type go through the sink into the server, and back through the
source."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.api.schema import check, float32
from penstock.connectors.cassandra.read.values import reading
from penstock.connectors.cassandra.sink import CassandraSink
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from tests.servers.cassandra import DATACENTER, CassandraServer, shared

pytestmark = pytest.mark.timeout(300)

KS = "types"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
MOMENT = st.integers(-60_000_000_000_000, 250_000_000_000_000).map(
    lambda ms: EPOCH + timedelta(milliseconds=ms)
)
UUID1 = st.tuples(st.integers(0, (1 << 60) - 1), st.integers(0, (1 << 62) - 1)).map(
    lambda parts: uuid.UUID(
        fields=(
            parts[0] & 0xFFFFFFFF,
            parts[0] >> 32 & 0xFFFF,
            (parts[0] >> 48 & 0x0FFF) | 0x1000,
            (parts[1] >> 56 & 0x3F) | 0x80,
            parts[1] >> 48 & 0xFF,
            parts[1] & 0xFFFFFFFFFFFF,
        )
    )
)


def _java_address(text: str) -> str:
    address = ipaddress.ip_address(text)
    if address.version == 4:
        return f"/{address}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


def _nanos(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * 1_000


def same(value: Any) -> Any:
    return value


CASES: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "ascii": (st.text(st.characters(codec="ascii"), max_size=20), same),
    "text": (TEXT, same),
    "boolean": (st.booleans(), same),
    "tinyint": (st.integers(-128, 127), same),
    "smallint": (st.integers(-(1 << 15), (1 << 15) - 1), same),
    "int": (INT, same),
    "bigint": (st.integers(-(1 << 63), (1 << 63) - 1), same),
    "varint": (st.integers(-(1 << 63), (1 << 63) - 1), same),
    "float": (st.floats(width=32, allow_nan=False), float32),
    "double": (st.floats(allow_nan=False), same),
    "decimal": (
        st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**25),
                    max_value=10**25),
        same,
    ),
    "blob": (st.binary(max_size=50), same),
    "date": (st.dates(date(1, 1, 2), date(9999, 12, 30)), same),
    "time": (st.times(), _nanos),
    "timestamp": (MOMENT, same),
    "uuid": (st.uuids().map(str), same),
    "timeuuid": (UUID1.map(str), same),
    "inet": (st.ip_addresses().map(str), _java_address),
    "list<int>": (st.lists(INT, min_size=1, max_size=5), same),
    "set<text>": (st.lists(TEXT, min_size=1, max_size=5), lambda v: sorted(set(v), key=str.encode)),
    "map<text, bigint>": (st.dictionaries(TEXT, INT, min_size=1, max_size=5), same),
    "frozen<list<frozen<map<int, frozen<list<text>>>>>>": (
        st.lists(st.dictionaries(INT, st.lists(TEXT, max_size=3), max_size=3), min_size=1,
                 max_size=3),
        same,
    ),
    "vector<float, 3>": (
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3,
                 max_size=3),
        same,
    ),
}  # fmt: skip
NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> CassandraServer:
    running = shared()
    running.execute(
        f"CREATE KEYSPACE IF NOT EXISTS {KS} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    return running


@pytest.fixture
def sink(server: CassandraServer, kind: str) -> Iterator[tuple[str, Any]]:
    table = f"t{next(NUMBERS)}"
    server.execute(f"CREATE TABLE {KS}.{table} (id int PRIMARY KEY, v {kind})")
    config = CassandraSink.plugin.config.parse(
        {
            "contactPoints": "127.0.0.1",
            "loadBalancing.localDc": DATACENTER,
            "port": str(server.port),
            f"topic.{table}.{KS}.{table}.mapping": "id=key, v=value.v",
        }
    )
    writer = CassandraSink().open(config, SinkContextStub(tolerates_errors=True))
    yield table, writer
    writer.close()


@pytest.mark.parametrize("kind", CASES)
def test_values_are_the_same_when_they_come_back(
    server: CassandraServer, sink: tuple[str, Any], kind: str
) -> None:
    table, writer = sink
    values, expected = CASES[kind]
    offsets = count(0, 100)

    @settings(
        max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
    )
    @given(rows=st.lists(values, min_size=1, max_size=30))
    def holds(rows: list[Any]) -> None:
        failed: dict[int, Exception] = {}
        records = records_of(
            [{"v": value} for value in rows],
            keys=list(range(len(rows))),
            topic=table,
            first=next(offsets),
        )
        now_ms = 1_700_000_000_000 + records.offsets[0]
        records.timestamps[:] = [now_ms] * len(rows)
        writer.write(records, failed)
        assert failed == {}
        found = server.session.execute(f"SELECT id, v FROM {KS}.{table}")
        schema, convert = reading(found.column_types[1], as_json=False)
        stored = {number: convert(value) for number, value in found}
        for number, value in enumerate(rows):
            check(schema, stored[number])
            assert stored[number] == expected(value)

    holds()


@pytest.mark.parametrize("kind", ["map<text, int>"])
def test_texts_of_json_are_what_they_would_be_parsed(
    server: CassandraServer, sink: tuple[str, Any], kind: str
) -> None:
    table, writer = sink
    failed: dict[int, Exception] = {}
    texts = [orjson.dumps({"v": {"ä": number}}).decode() for number in range(10)]
    writer.write(records_of(texts, keys=list(range(10)), topic=table), failed)
    assert failed == {}
    found = server.execute(f"SELECT id, v FROM {KS}.{table}")
    assert {key: dict(value) for key, value in found} == {n: {"ä": n} for n in range(10)}
