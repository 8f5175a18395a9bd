"""What a validation finds in SQLite files; the integration tests cover servers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.api import Finding
from penstock.config.define import ConfigDef
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import DatabaseAway, DatabaseRefused
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.source import JdbcSource
from penstock.connectors.jdbc.validation import connecting
from penstock.errors import ConfigInvalid, PenstockError

SCHEMA = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL, paid TIMESTAMP, note TEXT);
CREATE TABLE lines (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL, count INT NOT NULL, price REAL);
CREATE TABLE free (a TEXT, b INT, c TIMESTAMP);
CREATE VIEW paid AS SELECT * FROM orders WHERE paid IS NOT NULL;
"""


class Shop:
    """A database in a file, and its findings."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self(SCHEMA)

    def __call__(self, sql: str) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.executescript(sql)

    def source(self, **settings: object) -> list[Finding]:
        props = {"topic.prefix": "shop-", "mode": "incrementing", **self._given(settings)}
        return list(JdbcSource().validate_live(_parsed(JDBC_SOURCE, props)))

    def sink(self, **settings: object) -> list[Finding]:
        props = {"topics": "orders", **self._given(settings)}
        return list(JdbcSink().validate_live(_parsed(JDBC_SINK, props)))

    def _given(self, settings: dict[str, object]) -> dict[str, str]:
        given = {name.replace("__", "."): str(value) for name, value in settings.items()}
        return {"connection.url": f"jdbc:sqlite:{self.file}", **given}


def _parsed(definition: ConfigDef, props: dict[str, str]) -> Any:
    return definition.parse(props)


def errors(found: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(each.setting, each.error) for each in found if each.error is not None]


def offered(found: Iterable[Finding], setting: str) -> Sequence[object] | None:
    values = [each.recommended for each in found if each.setting == setting]
    return next((each for each in values if each is not None), None)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop.db")


def test_a_file_that_is_no_database_is_an_error_of_the_url(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    file.write_text("x" * 5000)
    shop = Shop.__new__(Shop)
    shop.file = file
    ((setting, text),) = errors(shop.source())
    assert setting == "connection.url"
    assert "file is not a database" in text
    assert "Check connection.url." in text


def test_a_missing_folder_is_an_error_of_the_url(tmp_path: Path) -> None:
    shop = Shop.__new__(Shop)
    shop.file = tmp_path / "nowhere" / "shop.db"
    for found in (shop.source(), shop.sink(auto__create=True)):
        ((setting, text),) = errors(found)
        assert setting == "connection.url"
        assert text.endswith("Check the path.")


def test_a_file_that_is_not_there_yet_is_an_empty_database_and_is_not_made(tmp_path: Path) -> None:
    shop = Shop.__new__(Shop)
    shop.file = tmp_path / "shop.db"
    assert errors(shop.source()) == []
    assert errors(shop.sink(auto__create=True)) == []
    found = [*shop.source(table__whitelist="orders"), *shop.sink()]
    assert [setting for setting, _ in errors(found)] == ["table.whitelist", "table.name.format"]
    assert list(tmp_path.iterdir()) == []


def test_looking_changes_nothing(shop: Shop) -> None:
    before = shop.file.read_bytes()
    shop.source()
    shop.sink(penstock__exactly__once=True, insert__mode="upsert", pk__mode="record_key")
    shop.sink(topics="new", auto__create=True)
    assert shop.file.read_bytes() == before
    assert [each.name for each in shop.file.parent.iterdir()] == ["shop.db"]


LOGIN = ["connection.user", "connection.password"]


@pytest.mark.parametrize(
    ("error", "login", "settings"),
    [
        (DatabaseAway("timed out"), {}, ["connection.url"]),
        (ConfigInvalid(["no such key file"]), {}, ["connection.url"]),
        (DatabaseRefused('FATAL: database "x" does not exist'), {}, ["connection.url"]),
        (DatabaseRefused('FATAL: password authentication failed for user "u"'), {}, LOGIN),
        (DatabaseRefused("Wrong user name or password (SQLSTATE 28000)"), {}, LOGIN),
        (DatabaseRefused('FATAL: role "u" does not exist'), {}, ["connection.user"]),
        (DatabaseRefused("FATAL: no pg_hba.conf entry for host"), {}, ["connection.user"]),
        (
            DatabaseRefused("fe_sendauth: no password supplied"),
            {"connection.password": None},
            ["connection.password"],
        ),
        (
            DatabaseRefused('FATAL: password authentication failed for user "u"'),
            {
                "connection.url": "jdbc:postgresql://h/x?user=u&password=p",
                "connection.user": None,
                "connection.password": None,
            },
            ["connection.url"],
        ),
    ],
)
def test_a_failed_connection_names_the_setting_that_can_change_it(
    monkeypatch: pytest.MonkeyPatch,
    error: PenstockError,
    login: dict[str, str | None],
    settings: list[str],
) -> None:
    def refuse(database: Database) -> None:
        assert database.attempts == 1
        assert database.url.options["connect_timeout"] == 3
        raise error

    monkeypatch.setattr(Database, "connect", refuse)
    given: dict[str, str | None] = {
        "connection.url": "jdbc:postgresql://h/x",
        "connection.user": "u",
        "connection.password": "p",
        "topics": "t",
        **login,
    }
    found = list(JdbcSink().validate_live(JDBC_SINK.parse(given)))
    assert [setting for setting, _ in errors(found)] == settings
    assert all(str(error) in text for _, text in errors(found))


def test_tables_there_are_are_offered(shop: Shop) -> None:
    shop('CREATE TABLE "odd$name" (id INTEGER PRIMARY KEY); CREATE TABLE "a,b" (id INT)')
    found = shop.source(mode="bulk")
    assert errors(found) == []
    for setting in ("table.whitelist", "table.blacklist"):
        assert offered(found, setting) == ["free", "lines", "odd$name", "orders"]
    for setting in ("table.include.list", "table.exclude.list"):
        assert offered(found, setting) == ["free", "lines", r"odd\$name", "orders"]


def test_columns_are_offered_that_every_chosen_table_has_and_that_fit(shop: Shop) -> None:
    found = shop.source(table__whitelist="orders,lines")
    assert errors(found) == []
    assert offered(found, "incrementing.column.name") == ["id"]
    assert offered(found, "timestamp.column.name") == ["at"]
    found = shop.source(table__whitelist="orders", incrementing__column__name="nr")
    assert len(errors(found)) == 1
    assert offered(found, "incrementing.column.name") == ["id"], "what would do is offered"
    found = shop.source(table__whitelist="lines")
    assert offered(found, "incrementing.column.name") == ["id", "count"]
    found = shop.source(table__whitelist="orders", validate__non__null=False)
    assert offered(found, "timestamp.column.name") == ["at", "paid"]


def test_columns_of_a_query_are_offered(shop: Shop) -> None:
    shop("INSERT INTO orders VALUES (1, '2024-01-01 00:00:00', NULL, 'x')")
    found = shop.source(query="SELECT id + 1 AS n, note FROM orders", mode="bulk")
    assert errors(found) == []
    assert offered(found, "incrementing.column.name") == ["n"]
    assert offered(found, "table.whitelist") is None


def test_a_table_that_does_not_exist_is_reported_with_the_nearest_ones(shop: Shop) -> None:
    ((setting, text),) = errors(shop.source(table__whitelist="orders,Ordres"))
    assert setting == "table.whitelist"
    assert text.startswith("Invalid value Ordres for configuration table.whitelist: it does not ")
    assert text.endswith("; similar: orders")
    ((_, text),) = errors(shop.source(table__whitelist="xyzzy"))
    assert text.endswith("; existing: free, lines, orders")


def test_a_table_of_a_kind_that_is_left_out_is_reported_as_such(shop: Shop) -> None:
    ((setting, text),) = errors(shop.source(table__whitelist="paid"))
    assert setting == "table.whitelist"
    assert "it exists as paid (VIEW), which table.types" in text
    assert errors(shop.source(table__whitelist="paid", table__types="VIEW", mode="bulk")) == []


def test_tables_that_are_chosen_by_patterns_may_come_later(shop: Shop) -> None:
    assert errors(shop.source(table__include__list="new_.*")) == []
    assert errors(shop.source(table__blacklist="gone,free")) == []


@pytest.mark.parametrize(
    ("settings", "setting", "said"),
    [
        (
            {"incrementing__column__name": "nr"},
            "incrementing.column.name",
            "has no column 'nr' (incrementing.column.name); it has 'id', 'at', 'paid', 'note'",
        ),
        (
            {"incrementing__column__name": "note"},
            "incrementing.column.name",
            "is not an integer column",
        ),
        (
            {"incrementing__column__mapping": "orders:note"},
            "incrementing.column.mapping",
            "is not an integer column (incrementing.column.mapping)",
        ),
        (
            {"incrementing__column__mapping": "lines:id"},
            "incrementing.column.mapping",
            "matches 0 of the expressions",
        ),
        (
            {"mode": "timestamp", "timestamp__column__name": "note"},
            "timestamp.column.name",
            "is not a timestamp column",
        ),
        (
            {"mode": "timestamp", "timestamp__column__name": "paid"},
            "timestamp.column.name",
            "'paid' of table 'orders' may be null",
        ),
        ({"table__whitelist": "free"}, "incrementing.column.name", "auto-increment column"),
    ],
)
def test_columns_that_rows_cannot_be_found_by_are_errors(
    shop: Shop, settings: dict[str, object], setting: str, said: str
) -> None:
    found = shop.source(**{"table__whitelist": "orders", **settings})
    ((named, text),) = errors(found)
    assert named == setting
    assert said in text


def test_every_table_that_is_wrong_is_reported(shop: Shop) -> None:
    found = shop.source(mode="timestamp", timestamp__column__name="at")
    assert [setting for setting, _ in errors(found)] == ["timestamp.column.name"]
    found = shop.source(mode="timestamp", timestamp__column__name="paid")
    assert [text.split(" has no")[0].split("of table")[-1] for _, text in errors(found)] == [
        "Table 'free'",
        "Table 'lines'",
        " 'orders' may be null, and rows with null there would never be read. Declare it NOT "
        "NULL, or set validate.non.null=false.",
    ]


def test_a_query_that_the_database_refuses_is_an_error_of_it(shop: Shop) -> None:
    ((setting, text),) = errors(shop.source(query="SELECT missing FROM orders", mode="bulk"))
    assert setting == "query"
    assert text.startswith("The database rejected the query: no such column: missing")


def test_a_query_that_takes_too_long_is_no_error(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "_LOOK_S", 0.2)
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) m FROM n"
    )
    assert errors(shop.source(query=endless, mode="bulk")) == []


def test_a_database_that_is_busy_is_no_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_STATEMENT_S", 0)
    with closing(sqlite3.connect(shop.file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert shop.source(mode="bulk") == []
    assert shop.source(mode="bulk") != []


def test_a_table_that_is_missing_is_an_error_unless_it_is_created(shop: Shop) -> None:
    assert errors(shop.sink()) == []
    ((setting, text),) = errors(shop.sink(topics="orders,order"))
    assert setting == "table.name.format"
    assert text.startswith('Table "order" is missing')
    assert text.endswith("; similar: orders")
    assert errors(shop.sink(topics="orders,order", auto__create=True)) == []
    mapped = {"topics__to__tables__mapping": "a:nowhere", "table__name__format": "${topic}s"}
    ((setting, text),) = errors(shop.sink(topics="a,order", **mapped))
    assert setting == "topics.to.tables.mapping"
    assert text.startswith('Table "nowhere" is missing')


def test_topics_that_are_not_known_are_not_judged(shop: Shop) -> None:
    props = {"connection.url": f"jdbc:sqlite:{shop.file}", "topics.regex": ".*"}
    assert errors(JdbcSink().validate_live(JDBC_SINK.parse(props))) == []
    package = "org.apache.kafka.connect.transforms"
    routed = {"topics": "nowhere", "transforms": "a,b", "transforms.a.type": f"{package}.Flatten"}
    for kind in (f"{package}.RegexRouter", "com.example.Anything$Value", "TimestampRouter"):
        assert errors(shop.sink(**routed, **{"transforms.b.type": kind})) == []
    kept = {"transforms.b.type": f"{package}.InsertField$Value"}
    assert [setting for setting, _ in errors(shop.sink(**routed, **kept))] == ["table.name.format"]


def test_a_table_of_another_kind_than_wanted_is_an_error(shop: Shop) -> None:
    ((setting, text),) = errors(shop.sink(topics="paid"))
    assert setting == "table.types"
    assert text == 'Table "paid" is of type VIEW, but table.types allows only TABLE'


@pytest.mark.parametrize(
    ("settings", "setting", "said"),
    [
        (
            {"pk__mode": "record_key", "pk__fields": "nr,id"},
            "pk.fields",
            "Table \"orders\" has no column 'nr' (pk.fields); it has 'id', 'at', 'paid', 'note'.",
        ),
        ({"pk__mode": "kafka"}, "pk.mode", "no column '__connect_topic', '__connect_partition'"),
        (
            {"pk__mode": "kafka", "auto__evolve": True, "pk__fields": "id,note,x"},
            "pk.fields",
            "has no column 'x'",
        ),
        (
            {"pk__mode": "record_value", "pk__fields": "note", "insert__mode": "upsert"},
            "pk.fields",
            'a unique index of table "orders" over (note); it has (id).',
        ),
        (
            {"pk__mode": "record_key", "insert__mode": "upsert", "topics": "free"},
            "pk.mode",
            'a unique index of table "free" over any columns; it has none.',
        ),
        (
            {"pk__mode": "record_key", "key__converter": "org.example.StringConverter"},
            "pk.fields",
            "pk.fields must name exactly one column, for the whole key; it names 0",
        ),
        (
            {
                "pk__mode": "record_value",
                "value__converter": "org.apache.kafka.connect.converters.LongConverter",
                "pk__fields": "id,note",
            },
            "pk.fields",
            "With pk.mode=record_value and LongConverter, pk.fields must name exactly one",
        ),
    ],
)
def test_keys_that_the_table_has_not_are_errors(
    shop: Shop, settings: dict[str, object], setting: str, said: str
) -> None:
    ((named, text),) = errors(shop.sink(**settings))
    assert named == setting
    assert said in text


@pytest.mark.parametrize(
    "settings",
    [
        {"pk__mode": "record_key", "pk__fields": "ID", "insert__mode": "upsert"},
        {"pk__mode": "record_key", "insert__mode": "upsert"},
        {"pk__mode": "record_value", "pk__fields": "id,note", "insert__mode": "upsert"},
        {"pk__mode": "record_value", "pk__fields": "nr", "auto__evolve": True},
        {"pk__mode": "none", "pk__fields": "nr"},
        {"pk__mode": "record_key", "pk__fields": "id", "key__converter": "a.StringConverter"},
        {"pk__mode": "record_key", "key__converter": "a.StringConverter", "transforms": "HoistKey"},
        {"pk__mode": "record_key", "pk__fields": "note", "insert__mode": "update"},
        {"topics": "twin", "pk__mode": "record_key", "pk__fields": "a,b", "insert__mode": "upsert"},
    ],
)
def test_keys_that_will_do_are_no_errors(shop: Shop, settings: dict[str, object]) -> None:
    shop("CREATE TABLE twin (a INT, b INT, UNIQUE (b, a))")
    assert errors(shop.sink(**settings)) == []


@pytest.mark.parametrize(
    "index",
    [
        "CREATE UNIQUE INDEX one ON free (a) WHERE b > 0",
        "CREATE UNIQUE INDEX one ON free (lower(a))",
    ],
)
def test_an_index_over_a_part_or_an_expression_does_not_count(shop: Shop, index: str) -> None:
    shop(index)
    upsert = {"insert__mode": "upsert", "pk__mode": "record_key", "pk__fields": "a"}
    ((setting, text),) = errors(shop.sink(topics="free", **upsert))
    assert (setting, text.rpartition("; ")[2]) == ("pk.fields", "it has none.")


def test_a_file_that_may_not_be_written_is_an_error(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write everything, so the answer is faked.
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(shop.file))
    found = errors(shop.sink(topics="orders,new", auto__create=True, penstock__exactly__once=True))
    assert [setting for setting, _ in found] == [
        "penstock.offsets.table",
        "connection.url",
        "auto.create",
    ]
    assert all(str(shop.file) in text for _, text in found)


def test_a_host_that_postgresql_rejects_needs_an_entry_in_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(database: Database) -> None:
        raise DatabaseRefused('FATAL: no pg_hba.conf entry for host "::1", user "u"')

    monkeypatch.setattr(Database, "connect", refuse)
    given = {"connection.url": "jdbc:postgresql://h/x", "connection.user": "u", "topics": "t"}
    [(setting, text)] = errors(list(JdbcSink().validate_live(JDBC_SINK.parse(given))))
    assert setting == "connection.user"
    assert "pg_hba.conf." in text
    assert "privilege" not in text
