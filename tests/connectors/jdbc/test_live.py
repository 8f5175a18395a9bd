"""Validation findings of real PostgreSQL and MariaDB servers, also for users with few rights."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymysql
import pytest

from penstock.api import Failed, Finding
from penstock.cli.app import run
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.source import JdbcSource
from penstock.data.records import Column, Records
from penstock.data.schema import INT32, STRING, TIMESTAMP, struct
from penstock.kafka.broker import free_port
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from tests.servers.databases import DatabaseServer, PostgresServer

PASSWORD = "a-clerk's"


@dataclass
class Clerk:
    """A user without privileges, with some tables that the owner creates."""

    server: DatabaseServer
    name: str
    made: list[str] = field(default_factory=list)

    @property
    def is_postgresql(self) -> bool:
        return isinstance(self.server, PostgresServer)

    @property
    def account(self) -> str:
        return f'"{self.name}"' if self.is_postgresql else f"'{self.name}'@'%'"

    def owner(self, *statements: str) -> None:
        """As the owner of everything; `{clerk}` stands for the user."""
        with self.server.connect() as connection:
            for statement in statements:
                connection.execute(statement.replace("{clerk}", self.account))

    def table(self, name: str, columns: str) -> str:
        made = f"{name}_{self.name}"
        self.owner(f"CREATE TABLE {made} ({columns})")
        self.made.append(made)
        return made

    def grant(self, rights: str, table: str) -> None:
        self.owner(f"GRANT {rights} ON {table} TO {{clerk}}")

    def source(self, table: str = "", **settings: object) -> list[Finding]:
        whitelist = {"table.whitelist": table} if table else {}
        props = {"topic.prefix": "x-", "mode": "bulk", **self._given(settings), **whitelist}
        return list(JdbcSource().validate_live(JDBC_SOURCE.parse(props)))

    def sink(self, table: str, **settings: object) -> list[Finding]:
        props = {"topics": table, **self._given(settings)}
        return list(JdbcSink().validate_live(JDBC_SINK.parse(props)))

    def grant_temporary(self) -> None:
        if self.is_postgresql:
            self.grant("TEMPORARY", "DATABASE shop")
        else:
            self.grant("CREATE TEMPORARY TABLES", "shop.*")

    def write(self, table: str, deletes: bool, settings: Mapping[str, object]) -> None:
        """Writes like a sink with this configuration: a row, and a deletion."""
        props = {"topics": table, **self._given(dict(settings))}
        values: list[object] = [{"made": datetime.now(UTC), "note": "x"}]
        values += [None] if deletes else []
        count = len(values)
        records = Records(
            topics=[table] * count,
            partitions=[0] * count,
            timestamps=[None] * count,
            keys=Column.of([*range(count)], INT32),
            values=Column.of(values, struct({"made": TIMESTAMP, "note": STRING}, optional=True)),
            offsets=list(range(count)),
        )
        refused: Failed = {}
        writer = JdbcSink().open(JDBC_SINK.parse(props), SinkContextStub())
        try:
            writer.write(records, refused)
        finally:
            writer.close()
        assert refused == {}

    def _given(self, settings: dict[str, object]) -> dict[str, str]:
        own = {
            "connection.url": self.server.url,
            "connection.user": self.name,
            "connection.password": PASSWORD,
        }
        given = {name.replace("__", "."): value for name, value in settings.items()}
        return {key: str(v) for key, v in {**own, **given}.items() if v is not None}


@pytest.fixture(params=["postgresql", "mariadb"])
def clerk(request: pytest.FixtureRequest, unique: Callable[[str], str]) -> Iterator[Clerk]:
    server = request.getfixturevalue(request.param)
    assert isinstance(server, DatabaseServer)
    made = Clerk(server, unique("c").replace("-", "_")[:24].lower())
    password = PASSWORD.replace("'", "''")
    if made.is_postgresql:
        made.owner(f"CREATE ROLE {{clerk}} LOGIN PASSWORD '{password}'")
        made.owner("REVOKE TEMPORARY ON DATABASE shop FROM PUBLIC")
    else:
        made.owner(f"CREATE USER {{clerk}} IDENTIFIED BY '{password}'")
        # A user needs a privilege in a database to enter it.
        made.owner("GRANT LOCK TABLES ON shop.* TO {clerk}")
    try:
        yield made
    finally:
        made.owner(*(f"DROP TABLE IF EXISTS {each}" for each in made.made))
        if made.is_postgresql:
            made.owner("GRANT TEMPORARY ON DATABASE shop TO PUBLIC", "DROP OWNED BY {clerk}")
            made.owner("DROP ROLE {clerk}")
        else:
            made.owner("DROP USER {clerk}")


def errors(found: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(each.setting, each.error) for each in found if each.error is not None]


def only(found: Iterable[Finding]) -> tuple[str, str]:
    (one,) = errors(found)
    return one


def blamed(found: Iterable[Finding]) -> list[str]:
    return [setting for setting, _ in errors(found)]


def offered(found: Iterable[Finding], setting: str) -> list[object]:
    values = (each.recommended for each in found if each.setting == setting)
    return list(next((each for each in values if each is not None), ()))


def test_a_port_where_nobody_listens_is_an_error_of_the_url(clerk: Clerk) -> None:
    url = clerk.server.url.replace(f":{clerk.server.port}/", f":{free_port()}/")
    for found in (clerk.source(connection__url=url), clerk.sink("t", connection__url=url)):
        setting, text = only(found)
        assert setting == "connection.url"
        assert text.endswith("Check that the database is running, and its host and port.")


def test_a_host_that_swallows_everything_is_an_error_soon(clerk: Clerk) -> None:
    # 192.0.2.0/24 is unused (RFC 5737); some networks say so at once.
    url = clerk.server.url.replace("127.0.0.1", "192.0.2.1")
    begun = time.monotonic()
    assert only(clerk.source(connection__url=url))[0] == "connection.url"
    assert time.monotonic() - begun < 10


def test_a_wrong_login_is_an_error_of_user_and_password(clerk: Clerk) -> None:
    for wrong in ({"connection__password": "guess"}, {"connection__user": "nobody-at-all"}):
        found = errors(clerk.source(**wrong))
        assert [name for name, _ in found] == ["connection.user", "connection.password"]
        assert all(text.endswith("The user or the password is wrong.") for _, text in found)
        assert "guess" not in str(found)
        assert PASSWORD not in str(found)


def test_a_password_that_is_missing_is_asked_for(clerk: Clerk) -> None:
    setting, text = only(clerk.sink("t", connection__password=None))
    assert setting == "connection.password"
    assert "set connection.password" in text


def test_a_login_in_the_url_is_blamed_there(clerk: Clerk) -> None:
    url = f"{clerk.server.url}?user={clerk.name}&password=guess"
    found = clerk.source(connection__url=url, connection__user=None, connection__password=None)
    setting, text = only(found)
    assert setting == "connection.url"
    assert "guess" not in text


def test_a_database_that_does_not_exist_is_an_error_of_the_url(clerk: Clerk) -> None:
    url = clerk.server.url.replace("/shop", "/shopp")
    owner = {
        "connection__user": clerk.server.user,
        "connection__password": clerk.server.password,
    }
    setting, text = only(clerk.source(connection__url=url, **owner))
    assert setting == "connection.url"
    assert "shopp" in text


@pytest.mark.parametrize("clerk", ["mariadb"], indirect=True)
def test_a_database_that_would_be_created_is_no_error_and_is_not_created(clerk: Clerk) -> None:
    name = f"later_{clerk.name}"
    url = clerk.server.url.replace("/shop", f"/{name}?createDatabaseIfNotExist=true")
    clerk.grant("ALL", f"{name}.*")
    assert errors(clerk.sink("t", connection__url=url, auto__create=True)) == []
    with clerk.server.connect() as connection:
        assert connection.rows(f"SHOW DATABASES LIKE '{name}'") == []


def test_a_database_that_the_user_may_not_enter_is_an_error_of_the_user(clerk: Clerk) -> None:
    if clerk.is_postgresql:
        clerk.owner("REVOKE CONNECT ON DATABASE shop FROM PUBLIC")
    else:
        clerk.owner("REVOKE LOCK TABLES ON shop.* FROM {clerk}")
    try:
        setting, text = only(clerk.source())
    finally:
        if clerk.is_postgresql:
            clerk.owner("GRANT CONNECT ON DATABASE shop TO PUBLIC")
    assert setting == "connection.user"
    assert text.endswith("Use another user, or grant the privilege.")


ORDERS = "id INT PRIMARY KEY, made TIMESTAMP NOT NULL, paid TIMESTAMP NULL, note VARCHAR(20)"


def test_tables_and_columns_there_are_are_offered(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.grant("SELECT", orders)
    found = clerk.source(orders)
    assert errors(found) == []
    assert orders in offered(found, "table.whitelist")
    whole = f"public.{orders}" if clerk.is_postgresql else f"shop.{orders}"
    assert whole in offered(found, "table.include.list")
    assert offered(found, "incrementing.column.name") == ["id"]
    assert offered(found, "timestamp.column.name") == ["made"]


def test_a_table_that_may_not_be_read_is_an_error(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.grant("INSERT", orders)  # so that MariaDB's users see it
    setting, text = only(clerk.source(orders))
    assert setting == "table.whitelist"
    assert orders in text
    assert f"Grant the user '{clerk.name}' SELECT on it" in text
    setting, _ = only(clerk.source(table__include__list=f".*{orders}"))
    assert setting == "table.include.list"
    clerk.grant("SELECT", orders)
    assert errors(clerk.source(orders)) == []


def test_a_table_that_does_not_exist_is_an_error_with_the_nearest_names(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.grant("SELECT", orders)
    setting, text = only(clerk.source(orders.replace("orders", "order")))
    assert setting == "table.whitelist"
    assert f"or the user '{clerk.name}' may not see it; similar: {orders}" in text
    assert errors(clerk.source(table__include__list="later_.*")) == []


def test_columns_that_rows_cannot_be_found_by_are_errors(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.grant("SELECT", orders)
    for settings, setting, said in (
        ({"mode": "incrementing"}, "incrementing.column.name", "exactly one auto-increment column"),
        (
            {"mode": "incrementing", "incrementing__column__name": "note"},
            "incrementing.column.name",
            "is not an integer column",
        ),
        (
            {"mode": "timestamp", "timestamp__column__name": "mad"},
            "timestamp.column.name",
            "has no column 'mad'",
        ),
        (
            {"mode": "timestamp", "timestamp__column__name": "paid"},
            "timestamp.column.name",
            "may be null",
        ),
    ):
        blamed, text = only(clerk.source(orders, **settings))
        assert blamed == setting
        assert said in text


@pytest.mark.parametrize("clerk", ["postgresql"], indirect=True)
def test_a_table_that_has_nothing_to_read_is_an_error(clerk: Clerk) -> None:
    shapes = clerk.table("shapes", "area polygon, mid point")
    clerk.grant("SELECT", shapes)
    setting, text = only(clerk.source(shapes))
    assert setting == "table.whitelist"
    assert "has no column of a supported type" in text


@pytest.mark.parametrize("clerk", ["postgresql"], indirect=True)
def test_tables_of_one_name_in_two_schemas_are_an_error(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    schema = f"s_{clerk.name}"
    clerk.owner(f"CREATE SCHEMA {schema} CREATE TABLE {orders} ({ORDERS})")
    try:
        clerk.owner(f"GRANT USAGE ON SCHEMA {schema} TO {{clerk}}")
        clerk.grant("SELECT", f"{schema}.{orders}, public.{orders}")
        found = clerk.source(orders)
        setting, text = only(found)
        assert setting == "table.whitelist"
        assert f"shop.{schema}.{orders}" in text
        assert {f"public.{orders}", f"{schema}.{orders}"} <= {*offered(found, "table.whitelist")}
        assert errors(clerk.source(f"{schema}.{orders}")) == []
    finally:
        clerk.owner(f"DROP SCHEMA {schema} CASCADE")


def test_a_query_that_the_database_refuses_is_an_error_of_it(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    for query in (f"SELECT id FROM {orders}", "SELECT nothing FROM nowhere", "SELECT FROM WHERE"):
        setting, text = only(clerk.source(query=query))
        assert setting == "query"
        assert text.startswith("The database rejected the query: ")
    clerk.grant("SELECT", orders)
    found = clerk.source(query=f"SELECT id + 1 AS nr, made FROM {orders}")
    assert errors(found) == []
    assert offered(found, "incrementing.column.name") == ["nr"]
    assert offered(found, "timestamp.column.name") == ["made"]


def test_a_table_that_is_missing_is_an_error_unless_it_may_be_created(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.grant("INSERT", orders)
    missing = orders.replace("orders", "order")
    setting, text = only(clerk.sink(missing))
    assert setting == "table.name.format"
    assert f"similar: {orders}" in text
    setting, text = only(clerk.sink(missing, auto__create=True))
    assert setting == "auto.create"
    assert f"The user '{clerk.name}' may not create table \"{missing}\"" in text
    if clerk.is_postgresql:
        clerk.owner("GRANT CREATE ON SCHEMA public TO {clerk}")
    else:
        clerk.owner("GRANT CREATE ON shop.* TO {clerk}")
    assert errors(clerk.sink(missing, auto__create=True)) == []
    with clerk.server.connect() as connection:
        names = "SELECT count(*) FROM information_schema.tables WHERE table_name = %s"
        assert connection.rows(names, (missing,)) == [(0,)]


def test_a_schema_that_is_missing_is_an_error(clerk: Clerk) -> None:
    setting, text = only(
        clerk.sink("t", auto__create=True, table__name__format="no_schema.${topic}")
    )
    assert setting == "auto.create"
    assert "no_schema" in text


NEEDED = {
    ("insert", False): {"INSERT"},
    ("upsert", False): {"INSERT", "UPDATE", "SELECT"},
    ("update", False): {"UPDATE", "SELECT", "TEMPORARY"},
    ("insert", True): {"INSERT", "DELETE", "SELECT", "TEMPORARY"},
    ("upsert", True): {"INSERT", "UPDATE", "DELETE", "SELECT", "TEMPORARY"},
}


@pytest.mark.parametrize(("mode", "deletes"), NEEDED)
def test_every_privilege_that_writing_needs_is_asked_for_and_no_other(
    clerk: Clerk, mode: str, deletes: bool
) -> None:
    orders = clerk.table("orders", ORDERS)
    settings: dict[str, object] = {
        "insert__mode": mode,
        "pk__mode": "record_key",
        "pk__fields": "id",
        "delete__enabled": deletes,
    }
    needed = set(NEEDED[mode, deletes])
    if clerk.is_postgresql and mode == "upsert":
        needed.add("TEMPORARY")
    if not clerk.is_postgresql:
        clerk.grant("REFERENCES", orders)  # to make it visible at all
    setting, text = only(clerk.sink(orders, **settings))
    assert setting == "connection.user"
    assert {word for word in re.split(r"\W+", text) if word.isupper()} == needed
    for privilege in sorted(needed):
        # The database refuses as long as one is missing.
        with pytest.raises(DatabaseRefused):
            clerk.write(orders, deletes, settings)
        if privilege == "TEMPORARY":
            clerk.grant_temporary()
        else:
            clerk.grant(privilege, orders)
        left = errors(clerk.sink(orders, **settings))
        assert all(privilege not in text for _, text in left)
    assert left == []
    clerk.write(orders, deletes, settings)


def test_a_privilege_for_a_column_is_enough_to_be_tried(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.owner(f"GRANT INSERT (id, made, note) ON {orders} TO {{clerk}}")
    assert errors(clerk.sink(orders)) == []


def test_an_upsert_needs_a_unique_index_over_its_keys(clerk: Clerk) -> None:
    lines = clerk.table("lines", "a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE (b, a)")
    clerk.grant("SELECT, INSERT, UPDATE", lines)
    clerk.grant_temporary()
    upsert = {"insert__mode": "upsert", "pk__mode": "record_value"}
    assert errors(clerk.sink(lines, pk__fields="a,b", **upsert)) == []
    setting, text = only(clerk.sink(lines, pk__fields="a", **upsert))
    assert setting == "pk.fields"
    assert "over (a); it has (a, b)." in text
    # MariaDB replaces rows of the same (a, b), and so of (a, b, c); PostgreSQL wants the index.
    wider = blamed(clerk.sink(lines, pk__fields="a,b,c", **upsert))
    assert wider == (["pk.fields"] if clerk.is_postgresql else [])
    bare = clerk.table("bare", "a INT")
    clerk.grant("SELECT, INSERT, UPDATE", bare)
    setting, text = only(clerk.sink(bare, **upsert))
    assert setting == "pk.mode"
    assert "over any columns; it has none." in text


def test_the_table_of_offsets_is_looked_at_too(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.grant("INSERT", orders)
    exactly = {"penstock__exactly__once": True, "penstock__offsets__table": f"kept_{clerk.name}"}
    setting, text = only(clerk.sink(orders, **exactly))
    assert setting == "penstock.offsets.table"
    assert "may not create table" in text
    kept = clerk.table("kept", "connector INT")
    clerk.grant("SELECT", kept)
    setting, text = only(clerk.sink(orders, **exactly))
    assert setting == "penstock.offsets.table"
    assert "grant it INSERT, UPDATE on the table" in text
    clerk.grant("INSERT, UPDATE", kept)
    assert errors(clerk.sink(orders, **exactly)) == []


@pytest.mark.parametrize("clerk", ["mariadb"], indirect=True)
def test_a_time_zone_that_the_server_does_not_know_is_an_error(clerk: Clerk) -> None:
    orders = clerk.table("orders", ORDERS)
    clerk.grant("INSERT", orders)
    setting, text = only(clerk.sink(orders, db__timezone="Europe/Berlin"))
    assert setting == "db.timezone"
    assert "mysql_tzinfo_to_sql" in text


def test_a_preview_shows_the_first_rows_of_each_table_that_the_user_may_read(
    clerk: Clerk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, lines = clerk.table("orders", ORDERS), clerk.table("lines", "nr INT, price REAL")
    clerk.owner(
        f"INSERT INTO {orders} VALUES (1, '2024-01-02 03:04:05', NULL, 'x'), "
        "(2, '2024-01-02 03:04:05', NULL, NULL), (3, '2024-01-02 03:04:05', NULL, NULL)",
        f"INSERT INTO {lines} VALUES (7, 1.5)",
    )
    clerk.grant("SELECT", orders)
    clerk.grant("SELECT", lines)
    props = {
        "name": "p",
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": clerk.server.url,
        "connection.user": clerk.name,
        "connection.password": PASSWORD,
        "mode": "bulk",
        "topic.prefix": "x-",
        "table.whitelist": f"{orders},{lines}",
    }
    file = tmp_path / "p.json"
    file.write_text(json.dumps(props))
    assert run(["preview", str(file), "--rows", "2"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["topic"], each["value"]) for each in shown if "value" in each] == [
        (f"x-{lines}", {"nr": 7, "price": 1.5}),
        (f"x-{orders}", {"id": 1, "made": 1704164645000, "paid": None, "note": "x"}),
        (f"x-{orders}", {"id": 2, "made": 1704164645000, "paid": None, "note": None}),
    ]
    clerk.owner(f"REVOKE SELECT ON {lines} FROM {{clerk}}")
    assert run(["preview", str(file)]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert lines in said.err
    assert PASSWORD not in said.err


@pytest.mark.parametrize("clerk", ["mariadb"], indirect=True)
def test_rows_that_nobody_wants_any_more_are_not_read(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = clerk.table("big", "id INT PRIMARY KEY")
    clerk.owner(f"INSERT INTO {big} SELECT seq FROM seq_1_to_100000")
    clerk.grant("SELECT", big)
    packets = itertools.count()
    read = pymysql.connections.Connection._read_packet

    def counted(self: Any, *args: Any) -> Any:
        next(packets)
        return read(self, *args)

    monkeypatch.setattr(pymysql.connections.Connection, "_read_packet", counted)
    props = {"topic.prefix": "x-", "mode": "bulk", "table.whitelist": big, **clerk._given({})}
    (task,) = JdbcSource().plan_tasks(JDBC_SOURCE.parse(props), 1)
    reader = JdbcSource().open(JDBC_SOURCE.parse(task), SourceContextStub())
    given = reader.poll(1 << 20, 0)
    assert given is not None
    assert len(given.records) < 100_000
    before = next(packets)
    reader.close()
    assert next(packets) - before == 1, "more was read although nobody asked for it"
    reader = JdbcSource().open(JDBC_SOURCE.parse(task), SourceContextStub())
    count = 0
    while count < 100_000:
        given = reader.poll(1 << 20, 0)
        assert given is not None
        count += len(given.records)
    assert count == 100_000
    assert reader.poll(1 << 20, 0) is None
    reader.close()
