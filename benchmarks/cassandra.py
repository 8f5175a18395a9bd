"""Topics into tables of Cassandra and back, next to the driver alone: its `execute_concurrent` of
the same rows, one statement each, and its pages, in one process. The server runs on the same cores.
"""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.inputs import JSON, PARTITIONS, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import Load, Note, Scenario, note_curve
from benchmarks.watching import peak_memory, topic_ends, watch
from tests.servers.cassandra import DATACENTER, CassandraServer

_SINK: Final = "com.datastax.oss.kafka.sink.CassandraSinkConnector"
_SOURCE: Final = "io.lenses.streamreactor.connect.cassandra.source.CassandraSourceConnector"
_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseSerialGC")
_AT_ONCE: Final = 500
_JSON_CONVERTER: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_COLUMNS: Final = "name, id, city, score, active"
_TABLE: Final = (
    "CREATE TABLE bench.rows (name text, id int, city text, score double, active boolean, "
    "PRIMARY KEY (name, id))"
)


def _server() -> CassandraServer:
    return CassandraServer(options=_OPTIONS, durable=False)


def _prepare(server: CassandraServer) -> None:
    server.execute(
        "CREATE KEYSPACE bench WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    server.execute(_TABLE)


def _into_table(session: Session, load: Load, note: Note) -> None:
    topic = load.topic(JSON)
    rate = None
    for run in ("cold", "warm"):
        name = session.name("rows")
        with _server() as server:
            _prepare(server)
            config = {
                "connector.class": _SINK,
                "topics": topic,
                "tasks.max": str(PARTITIONS),
                "contactPoints": "127.0.0.1",
                "port": str(server.port),
                "loadBalancing.localDc": DATACENTER,
                f"topic.{topic}.bench.rows.mapping": ", ".join(
                    f"{column}=value.{column}" for column in _COLUMNS.split(", ")
                ),
                **_JSON_CONVERTER,
            }

            def stored(name: str = name) -> int:
                return sum(session.topics.committed(f"connect-{name}", topic).values())

            with (
                peak_memory(session.worker.pid) as peak,
                session.running({name: config}) as began,
            ):
                curve = watch(stored, load.records, began, load.timeout_s, session.check)
            _check(server, load.records)
        note_curve(note, run, curve)
        rate = curve.rate
        note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
    with _server() as server:
        _prepare(server)
        spent = _insert(server, load.records)
        _check(server, load.records)
    alone = load.records / spent
    note("hand", alone)
    note("share", None if rate is None else rate / alone)


def _insert(server: CassandraServer, records: int) -> float:
    """Inserts as many rows with the driver alone; returns the seconds."""
    from cassandra.concurrent import execute_concurrent_with_args

    marks = ", ".join("?" for _ in _COLUMNS.split(", "))
    prepared = server.session.prepare(f"INSERT INTO bench.rows ({_COLUMNS}) VALUES ({marks})")
    rows = (
        (f"name-{number % 1_000}", number, "Graz", number / 2, True) for number in range(records)
    )
    began = time.monotonic()
    results: Any = execute_concurrent_with_args(
        server.session, prepared, rows, concurrency=_AT_ONCE, results_generator=True
    )
    for succeeded, result in results:
        if not succeeded:
            raise result
    return time.monotonic() - began


def _out_of_table(session: Session, load: Load, note: Note) -> None:
    with _server() as server:
        _prepare(server)
        _insert(server, load.records)
        rate = None
        for run in ("cold", "warm"):
            name = session.name("rows-source")
            topic = session.topics.create(name)
            written = topic_ends(session.topics, [topic])
            config = {
                "connector.class": _SOURCE,
                "tasks.max": "1",
                "connect.cassandra.contact.points": "127.0.0.1",
                "connect.cassandra.port": str(server.port),
                "connect.cassandra.key.space": "bench",
                "connect.cassandra.import.poll.interval": "3600000",
                "connect.cassandra.kcql": f"INSERT INTO {topic} SELECT * FROM rows",
                **_JSON_CONVERTER,
            }

            with (
                peak_memory(session.worker.pid) as peak,
                session.running({name: config}) as began,
            ):
                curve = watch(written, load.records, began, load.timeout_s, session.check)
            note_curve(note, run, curve)
            rate = curve.rate
            note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
        began_s = time.monotonic()
        rows = sum(1 for _ in server.session.execute(f"SELECT {_COLUMNS} FROM bench.rows"))
        alone = rows / (time.monotonic() - began_s)
        if rows != load.records:
            raise WrongOutcome(f"{load.records:,} rows were to be read, {rows:,} are there")
    note("hand", alone)
    note("share", None if rate is None else rate / alone)


def _check(server: CassandraServer, records: int) -> None:
    rows = sum(1 for _ in server.session.execute("SELECT id FROM bench.rows", timeout=120))
    if rows != records:
        raise WrongOutcome(f"{records:,} rows were to be stored, {rows:,} are there")


SCENARIOS: Final = (
    Scenario(
        "cassandra-insert",
        "topic → Cassandra",
        _into_table,
        {"offset.flush.interval.ms": "200"},  # offsets tell how much is stored
        alone=True,
    ),
    Scenario("cassandra-read", "Cassandra → topic", _out_of_table, alone=True),
)
