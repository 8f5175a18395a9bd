"""The JDBC connectors on a real worker: tables of real servers become topics, topics tables."""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final

import orjson
import pytest
from confluent_kafka import Producer

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Cell, Stored, Topics
from penstock.testing.waiting import wait_until
from tests.servers.databases import DatabaseServer, MariaDbServer

WAIT_S: Final = 120.0
RUNNING: Final = ["RUNNING", "RUNNING"]
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS: Final = {"key.converter": JSON, "value.converter": JSON}
SOURCE: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
SINK: Final = "io.confluent.connect.jdbc.JdbcSinkConnector"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def worker(shared_worker: WorkerProcess) -> WorkerProcess:
    return shared_worker


@pytest.fixture(scope="module")
def cluster(shared_worker: WorkerProcess) -> str:
    """The prefix of the topics of the worker's group."""
    return shared_worker.settings["group.id"]


@pytest.fixture
def table(unique: Callable[[str], str]) -> str:
    return unique("t").replace("-", "_")[:30]


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, DatabaseServer)
    return found


def run(server: DatabaseServer, *statements: str) -> None:
    with server.connect() as connection:
        for statement in statements:
            connection.execute(statement)


def rows(server: DatabaseServer, sql: str) -> list[tuple[Any, ...]]:
    with server.connect() as connection:
        return connection.rows(sql)


def source(server: DatabaseServer, prefix: str, **settings: str) -> dict[str, str]:
    """A source connector; in the names of settings an underscore is a dot."""
    return {
        "connector.class": SOURCE,
        "tasks.max": "1",
        **CONVERTERS,
        **server.settings(),
        "topic.prefix": prefix,
        "poll.interval.ms": "100",
        **{name.replace("_", "."): text for name, text in settings.items()},
    }


def sink(server: DatabaseServer, topic: str, table: str, **settings: str) -> dict[str, str]:
    """A sink connector; in the names of settings an underscore is a dot."""
    return {
        "connector.class": SINK,
        "tasks.max": "1",
        **CONVERTERS,
        **server.settings(),
        "topics": topic,
        "table.name.format": table,
        **{name.replace("_", "."): text for name, text in settings.items()},
    }


def payloads(topics: Topics, topic: str) -> list[dict[str, Any]]:
    return [orjson.loads(value)["payload"] for value in topics.values(topic) if value]


def ids(topics: Topics, topic: str) -> list[int]:
    return [payload["id"] for payload in payloads(topics, topic)]


def await_records(topics: Topics, topic: str, count: int) -> None:
    wait_until(lambda: topics.count(topic) >= count, WAIT_S, f"{count} records in '{topic}'")
    assert topics.count(topic) == count


def positions(topics: Topics, cluster: str, connector: str) -> dict[tuple[Cell, int], Any]:
    """A connector's stored offsets, by key and partition of the offsets topic."""
    found: dict[tuple[Cell, int], Any] = {}
    for row in topics.read(f"{cluster}-offset"):
        if row.key is not None and orjson.loads(row.key)[0] == connector:
            found[row.key, row.partition] = None if row.value is None else orjson.loads(row.value)
    return found


COUNT: Final = 3_000


def test_rows_become_records_and_their_position_is_stored_as_the_jvms_connector_does(
    worker: WorkerProcess, postgresql: DatabaseServer, topics: Topics, cluster: str, table: str
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id serial PRIMARY KEY, item text NOT NULL, price numeric(8,2), "
        "changed timestamptz NOT NULL)",
        f"INSERT INTO {table} (item, price, changed) "
        "SELECT 'item ' || n, CASE WHEN n % 2 = 0 THEN n * 12.5 END, "
        "timestamptz '2024-01-01 00:00:00.000250+00' + n * interval '1 s' "
        f"FROM generate_series(1, {COUNT}) n",
    )
    topic = topics.create(f"{cluster}-{table}")
    worker.create(
        table,
        source(
            postgresql,
            f"{cluster}-",
            mode="timestamp+incrementing",
            incrementing_column_name="id",
            timestamp_column_name="changed",
            table_whitelist=table,
        ),
    )
    await_records(topics, topic, COUNT)
    found = topics.read(topic)
    assert {row.key for row in found} == {None}
    assert ids(topics, topic) == list(range(1, COUNT + 1))
    decimal = {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2"},
        "field": "price",
    }
    moment = {
        "type": "int64",
        "optional": False,
        "name": "org.apache.kafka.connect.data.Timestamp",
        "version": 1,
        "field": "changed",
    }
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": False, "field": "item"},
        decimal,
        moment,
    ]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": table}
    start_ms = 1_704_067_200_000
    price = b64encode((2_500).to_bytes(2, "big")).decode()
    assert [orjson.loads(row.value or b"") for row in found[:2]] == [
        {
            "schema": schema,
            "payload": {"id": number, "item": f"item {number}", "price": cell, "changed": at},
        }
        for number, cell, at in ((1, None, start_ms + 1_000), (2, price, start_ms + 2_000))
    ]

    key = f'["{table}",{{"protocol":"1","table":"shop.public.{table}"}}]'.encode()

    def stored() -> list[Any]:
        return [
            value for (held, _), value in positions(topics, cluster, table).items() if held == key
        ]

    seconds = COUNT
    reached = {
        "incrementing": COUNT,
        "timestamp": start_ms + seconds * 1_000,
        "timestamp_nanos": 250_000,
    }
    wait_until(lambda: stored() == [reached], 30, f"{reached}, not {stored()}")
    assert [held for held, _ in positions(topics, cluster, table)] == [key]

    run(
        postgresql,
        f"INSERT INTO {table} (item, changed) VALUES ('late', '2024-02-01 00:00:00+00')",
        f"UPDATE {table} SET item = 'again', changed = '2024-02-02 00:00:00.001+00' WHERE id = 5",
    )
    await_records(topics, topic, COUNT + 2)
    assert [(each["id"], each["item"]) for each in payloads(topics, topic)[COUNT:]] == [
        (COUNT + 1, "late"),
        (5, "again"),
    ]
    reached = {
        "incrementing": 5,
        "timestamp": 1_706_832_000_001,
        "timestamp_nanos": 1_000_000,
    }
    wait_until(lambda: stored() == [reached], 30, f"{reached}, not {stored()}")


def test_tasks_follow_the_tables_there_are(
    worker: WorkerProcess, postgresql: DatabaseServer, topics: Topics, cluster: str, table: str
) -> None:
    def make(name: str, count: int) -> str:
        run(
            postgresql,
            f"CREATE TABLE {table}_{name} AS SELECT n AS id FROM generate_series(1, {count}) n",
            f"ALTER TABLE {table}_{name} ALTER id SET NOT NULL",
        )
        return f"{cluster}-{table}_{name}"

    for name in ("first", "second", "third"):
        topics.create(f"{cluster}-{table}_{name}")
    first = make("first", 100)
    worker.create(
        table,
        source(
            postgresql,
            f"{cluster}-",
            tasks_max="4",
            mode="incrementing",
            incrementing_column_name="id",
            table_include_list=rf"shop\.public\.{table}_.*",
            table_poll_interval_ms="500",
        ),
    )
    await_records(topics, first, 100)
    worker.await_states(table, RUNNING)

    others = {make("second", 200): 200, make("third", 300): 300}
    worker.await_states(table, ["RUNNING"] * 4)
    for topic, count in others.items():
        await_records(topics, topic, count)
    run(postgresql, f"INSERT INTO {table}_first VALUES (101)")
    await_records(topics, first, 101)

    run(postgresql, f"DROP TABLE {table}_first", f"DROP TABLE {table}_third")
    worker.await_states(table, RUNNING)
    run(postgresql, f"INSERT INTO {table}_second VALUES (201)")
    second = f"{cluster}-{table}_second"
    await_records(topics, second, 201)
    for topic, count in {first: 101, second: 201, f"{cluster}-{table}_third": 300}.items():
        assert ids(topics, topic) == list(range(1, count + 1))
    assert worker.request("DELETE", f"/connectors/{table}").status_code == 204


# Offsets that the JVM connector wrote: members in the order of its hash maps.
LEFT: Final[Sequence[tuple[str, str, str, dict[str, str]]]] = [
    (
        "whole-name",
        '{"protocol":"1","table":"shop.public.@"}',
        '{"incrementing":1200}',
        {"mode": "incrementing"},
    ),
    (
        "no-catalog",
        '{"protocol":"1","table":"public.@"}',
        '{"timestamp_nanos":250000,"incrementing":1200,"timestamp":1704068400000}',
        {"mode": "timestamp+incrementing"},
    ),
    (
        "before-protocol-1",
        '{"table":"@"}',
        '{"timestamp":1704068400001,"incrementing":1200}',
        {"mode": "timestamp+incrementing"},
    ),
    (
        "timestamp",
        '{"protocol":"1","table":"shop.public.@"}',
        '{"timestamp_nanos":250000,"timestamp":1704068400000}',
        {"mode": "timestamp"},
    ),
    ("query", '{"query":"query"}', '{"incrementing":1200}', {"mode": "incrementing"}),
]


@pytest.mark.parametrize(("partition", "offset", "more"), [pytest.param(*case[1:], id=case[0])
                                                           for case in LEFT])  # fmt: skip
def test_reading_continues_at_the_offsets_of_the_jvm_connector(
    worker: WorkerProcess,
    postgresql: DatabaseServer,
    topics: Topics,
    cluster: str,
    table: str,
    partition: str,
    offset: str,
    more: dict[str, str],
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id integer PRIMARY KEY, changed timestamptz NOT NULL)",
        f"INSERT INTO {table} SELECT n, "
        "timestamptz '2024-01-01 00:00:00.000250+00' + n * interval '1 s' "
        f"FROM generate_series(1, 2000) n",
    )
    topic = topics.create(f"{cluster}-{table}")
    key = f'["{table}",{partition.replace("@", table)}]'.encode()
    # Into the same partition as Java's producer; later offsets must go there, too.
    producer = Producer({"bootstrap.servers": topics.bootstrap, "partitioner": "murmur2_random"})
    producer.produce(f"{cluster}-offset", offset.encode(), key)
    assert producer.flush(30) == 0
    ((_, place),) = positions(topics, cluster, table)

    what = {"topic.prefix": f"{cluster}-", "table.whitelist": table}
    if "query" in partition:
        what = {"topic.prefix": topic, "query": f"SELECT * FROM {table}"}
    columns = {"incrementing.column.name": "id", "timestamp.column.name": "changed"}
    config = {**source(postgresql, ""), **what, **columns, **more}
    worker.create(table, config)
    await_records(topics, topic, 800)
    run(postgresql, f"INSERT INTO {table} VALUES (2001, '2024-02-01 00:00:00+00')")
    await_records(topics, topic, 801)
    assert ids(topics, topic) == list(range(1201, 2002))

    # No other key or partition, so that the JVM connector resumes there after migrating back.
    reached = {"incrementing": 2001, "timestamp": 1_706_745_600_000, "timestamp_nanos": 0}
    expected = {(key, place): {n: at for n, at in reached.items() if n in expected_of(more)}}
    wait_until(
        lambda: positions(topics, cluster, table) == expected,
        30,
        f"{expected}, not {positions(topics, cluster, table)}",
    )


def expected_of(more: Mapping[str, str]) -> set[str]:
    """The members of an offset in this mode."""
    found = set[str]()
    if "incrementing" in more["mode"]:
        found.add("incrementing")
    if "timestamp" in more["mode"]:
        found |= {"timestamp", "timestamp_nanos"}
    return found


KEY: Final = {
    "type": "struct",
    "fields": [{"type": "int64", "optional": False, "field": "id"}],
    "optional": False,
}
NAME: Final = {"type": "string", "optional": True, "field": "name"}
AMOUNT: Final = {"type": "int64", "optional": True, "field": "amount"}
NOTE: Final = {"type": "string", "optional": True, "field": "note"}


def key_of(number: int) -> bytes:
    return orjson.dumps({"schema": KEY, "payload": {"id": number}})


def value_of(row: Mapping[str, Any], *fields: Mapping[str, Any]) -> bytes:
    schema = {"type": "struct", "fields": list(fields), "optional": False}
    return orjson.dumps({"schema": schema, "payload": dict(row)})


def send(topics: Topics, topic: str, pairs: Iterable[tuple[bytes, Cell]]) -> None:
    """Appends records; records with the same key stay in order."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "enable.idempotence": True})
    for key, value in pairs:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def await_written(worker: WorkerProcess, topics: Topics, connector: str, topic: str) -> None:
    """Waits until everything in the topic is written and committed."""

    def written() -> bool:
        assert "FAILED" not in worker.states(connector), worker.status(connector)
        return topics.committed(f"connect-{connector}", topic) == topics.ends(topic)

    wait_until(written, WAIT_S, f"{topics.ends(topic)} of '{topic}' to be committed")


def test_a_table_is_what_the_topic_says_last_of_each_key(
    worker: WorkerProcess, server: DatabaseServer, topics: Topics, cluster: str, table: str
) -> None:
    random = Random(7)
    topic = topics.create(f"{cluster}-{table}", partitions=3)
    wanted: dict[int, dict[str, Any]] = {}

    def some(count: int, *more: Mapping[str, Any]) -> list[tuple[bytes, Cell]]:
        pairs: list[tuple[bytes, Cell]] = []
        for at in range(count):
            number = random.randrange(500)
            if random.random() < 0.2:
                wanted.pop(number, None)
                pairs.append((key_of(number), None))
                continue
            row: dict[str, Any] = {"name": f"n{at} ü", "amount": at if at % 3 else None}
            before = wanted.get(number, {}).get("note")
            wanted[number] = {**row, "note": before}
            if more:
                row["note"] = wanted[number]["note"] = f"note {at}"
            pairs.append((key_of(number), value_of(row, NAME, AMOUNT, *more)))
        return pairs

    settings = {
        "tasks.max": "2",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
    }
    send(topics, topic, some(2_000))
    worker.create(table, {**sink(server, topic, table), **settings})
    await_written(worker, topics, table, topic)
    send(topics, topic, some(2_000, NOTE))
    await_written(worker, topics, table, topic)
    send(topics, topic, some(500))  # records without the new column leave it unchanged
    await_written(worker, topics, table, topic)

    assert rows(server, f"SELECT id, name, amount, note FROM {table} ORDER BY id") == [
        (number, row["name"], row["amount"], row["note"]) for number, row in sorted(wanted.items())
    ]
    assert worker.states(table) == [*RUNNING, "RUNNING"]


def test_rows_that_are_refused_go_to_the_dead_letter_topic_and_the_others_are_written(
    worker: WorkerProcess, server: DatabaseServer, topics: Topics, cluster: str, table: str
) -> None:
    run(
        server,
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, name varchar(10) NOT NULL, amount bigint)",
    )
    topic = topics.create(f"{cluster}-{table}")
    dead = topics.create(f"{cluster}-{table}-dead")
    long, missing, alone = 17, 400, 999
    names: dict[int, str | None] = {long: "x" * 11, missing: None, alone: "y" * 200}
    sent = [
        (
            key_of(number),
            value_of({"name": names.get(number, f"n{number}"), "amount": number}, NAME, AMOUNT),
        )
        for number in range(1_000)
    ]
    send(topics, topic, sent)
    worker.create(
        table,
        sink(
            server,
            topic,
            table,
            pk_mode="record_key",
            errors_tolerance="all",
            errors_deadletterqueue_topic_name=dead,
            errors_deadletterqueue_topic_replication_factor="1",
            errors_deadletterqueue_context_headers_enable="true",
        ),
    )
    await_written(worker, topics, table, topic)
    assert rows(server, f"SELECT id, name FROM {table} ORDER BY id") == [
        (number, f"n{number}") for number in range(1_000) if number not in names
    ]
    letters = topics.read(dead)
    assert [(letter.key, letter.value) for letter in letters] == [
        sent[number] for number in sorted(names)
    ]
    for number, letter in zip(sorted(names), letters, strict=True):
        reported = header(letter, "exception.message")
        assert table in reported
        assert f"topic='{topic}', partition=0, offset={number}" in reported
        assert "column" in reported.lower()
        assert "name" in reported.replace(table, "")
        assert header(letter, "stage") == "TASK_PUT"
        assert header(letter, "offset") == str(number)
    assert worker.states(table) == RUNNING


def header(letter: Stored, name: str) -> str:
    found = dict(letter.headers)[f"__connect.errors.{name}"]
    return (found or b"").decode()


_users = itertools.count(1)


def test_a_password_that_is_no_longer_right_fails_the_task_which_says_so(
    worker: WorkerProcess, server: DatabaseServer, topics: Topics, cluster: str, table: str
) -> None:
    user, postgresql = f"clerk_{next(_users)}", not isinstance(server, MariaDbServer)
    account = user if postgresql else f"'{user}'@'%'"
    word = "PASSWORD" if postgresql else "IDENTIFIED BY"
    run(
        server,
        f"CREATE TABLE {table} (id bigint NOT NULL, name varchar(10), amount bigint)",
        f"CREATE USER {account} {word} 'first-secret'",
        f"GRANT SELECT, INSERT ON {table} TO {account}",
    )
    topic = topics.create(f"{cluster}-{table}")
    row = {"name": "n", "amount": 1}
    send(topics, topic, [(key_of(1), value_of(row, NAME, AMOUNT))])
    own = {"connection.user": user, "connection.password": "first-secret", "pk.mode": "record_key"}
    worker.create(table, {**sink(server, topic, table), **own})
    await_written(worker, topics, table, topic)

    run(server, f"ALTER USER {account} {word} 'second-secret'")
    assert worker.request("POST", f"/connectors/{table}/tasks/0/restart").status_code == 204
    sent = [1]

    def has_failed() -> bool:  # when it reconnects to write the next record
        sent.append(len(sent) + 1)
        send(topics, topic, [(key_of(sent[-1]), value_of(row, NAME, AMOUNT))])
        return worker.states(table) == ["RUNNING", "FAILED"]

    wait_until(has_failed, 90, "the task to fail", 0.2)
    [task] = worker.status(table)["tasks"]
    trace: str = task["trace"]
    assert f"Cannot connect to {server.url} (connection.url) as '{user}'" in trace
    assert ("password authentication failed" if postgresql else "Access denied") in trace
    assert "secret" not in trace
    assert "org.apache.spark" not in trace
    assert "restarted by itself" not in trace

    config = {**sink(server, topic, table), **own, "connection.password": "second-secret"}
    assert worker.request("PUT", f"/connectors/{table}/config", config).status_code == 200
    worker.await_states(table, RUNNING)
    await_written(worker, topics, table, topic)
    assert sorted(rows(server, f"SELECT id FROM {table}")) == [(id,) for id in sent]
