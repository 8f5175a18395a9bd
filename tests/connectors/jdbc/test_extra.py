"""penstock without the packages of its extra `jdbc`, in processes that cannot import them."""

from __future__ import annotations

import json
import re
import sqlite3
import textwrap
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.jdbc.drivers.database import JDBC
from tests.connectors.absent import extras, without

PACKAGES = ("psycopg", "psycopg_binary", "psycopg_c", "pymysql", "jpype")


def without_extra(script: str, *arguments: str) -> Any:
    """The last line that a script prints without the packages, as JSON."""
    return json.loads(without(PACKAGES, textwrap.dedent(script), *arguments).splitlines()[-1])


VALIDATE = """
import json, sys
from penstock.config.worker import parse_distributed
from penstock.plugins.registry import Registry, installed
from penstock.runtime.planning import Planner

JSON = "org.apache.kafka.connect.json.JsonConverter"
worker = parse_distributed({
    "bootstrap.servers": "127.0.0.1:1", "group.id": "g", "key.converter": JSON,
    "value.converter": JSON, "config.storage.topic": "c", "offset.storage.topic": "o",
    "status.storage.topic": "s",
})
registry = Registry.installed()
planner = Planner(worker, registry)

def errors(props):
    rows = planner.validate(props)["configs"]
    return {row["value"]["name"]: row["value"]["errors"] for row in rows if row["value"]["errors"]}

def planned(props):
    try:
        return len(planner.planned(props["name"], props).configs)
    except Exception as error:
        return f"{type(error).__name__} ({error.status}): {error}"

print(json.dumps({
    "said": {
        url: [errors(props), planned(props)] for url, props in json.loads(sys.argv[1]).items()
    },
    "listed": [each.plugin.simple_name for each in registry.found],
    "skipped": [each.what for place in installed() for each in place.skipped],
}))
"""
NEEDS = {
    "jdbc:postgresql://127.0.0.1:1/shop": "psycopg",
    "jdbc:mysql://127.0.0.1:1/shop": "pymysql",
    "jdbc:mariadb://127.0.0.1:1/shop": "pymysql",
    "jdbc:some:thing": "jpype",
}
NEEDS_NOTHING = "jdbc:sqlite:"


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a worker without the packages reports for a sink per database."""
    folder = tmp_path_factory.mktemp("extra")
    with zipfile.ZipFile(folder / "driver.jar", "w") as archive:
        archive.writestr("META-INF/services/java.sql.Driver", "some.Driver")
    sink = {
        "name": "shop",
        "connector.class": "JdbcSink",
        "topics": "orders",
        "auto.create": "true",
        "penstock.jdbc.driver.jars": str(folder / "driver.jar"),
    }
    urls = {**{url: url for url in NEEDS}, NEEDS_NOTHING: f"{NEEDS_NOTHING}{folder / 'shop.db'}"}
    given = {name: {**sink, "connection.url": url} for name, url in urls.items()}
    return without_extra(VALIDATE, json.dumps(given))


@pytest.mark.parametrize("url", NEEDS)
def test_a_database_whose_package_is_missing_is_refused_with_what_installs_it(
    url: str, validated: Any
) -> None:
    text = (
        f"JDBC connectors need packages that are not installed ({NEEDS[url]}); install them with: "
        "pip install 'penstock[jdbc]'"
    )
    errors, planned = validated["said"][url]
    assert errors == {"connector.class": [text]}
    assert planned == f"NotInstalled (400): {text}"


def test_a_database_that_needs_no_package_is_not_refused(validated: Any) -> None:
    assert validated["said"][NEEDS_NOTHING] == [{}, 1]


def test_the_connectors_are_listed_all_the_same(validated: Any) -> None:
    assert {"JdbcSourceConnector", "JdbcSinkConnector"} <= set(validated["listed"])
    assert validated["skipped"] == []


def test_sqlite_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT);"
            "INSERT INTO orders VALUES (1, 'a'), (2, 'b');"
        )
    written = without_extra(
        """
        import json
        from penstock.connectors.jdbc.sink import JdbcSink
        from penstock.connectors.jdbc.source import JdbcSource
        from penstock.testing.contexts import SinkContextStub, SourceContextStub

        url = {"connection.url": f"jdbc:sqlite:{sys.argv[1]}"}
        settings = {**url, "mode": "incrementing", "topic.prefix": "t-"}
        source, config = JdbcSource(), JdbcSource.plugin.config.parse(settings)
        (task,) = source.plan_tasks(config, 1)
        config = JdbcSource.plugin.config.parse(task)
        source.check_installed(config)
        reader = source.open(config, SourceContextStub())
        records = reader.poll(1 << 20, 0).records
        reader.close()
        settings = {**url, "auto.create": "true", "table.name.format": "copies"}
        writer = JdbcSink().open(JdbcSink.plugin.config.parse(settings), SinkContextStub())
        writer.write(records, failed := {})
        writer.close()
        print(json.dumps([len(records), len(failed)]))
        """,
        str(file),
    )
    assert written == [2, 0]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT * FROM copies").fetchall() == [(1, "a"), (2, "b")]


def test_the_doctor_tells_what_is_missing_and_what_installs_it() -> None:
    report = without_extra(
        """
        import contextlib, io, json
        from penstock.cli import main

        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            sys.argv = ["penstock", "plugins", "doctor"]
            main()
        print(json.dumps(out.getvalue().splitlines()))
        """
    )
    assert (
        "  note: JDBC connectors lack psycopg, pymysql, jpype; those that need them are refused"
        in report
    )
    assert "    pip install 'penstock[jdbc]'" in report
    assert report[-1] == "nothing is broken"


def test_the_extra_that_is_declared_is_the_one_that_installs_them() -> None:
    declared = extras()
    assert JDBC.modules == ("psycopg", "pymysql", "jpype")
    assert [re.split(r"\W", each)[0] for each in declared[JDBC.name]] == [
        "psycopg",
        "PyMySQL",
        "JPype1",
    ]
    assert f"penstock[{JDBC.name}]" in declared["all"]
    assert JDBC.missing() == []
