"""Keys that only the database knows to be equal: texts without case, padded, rounded and converted
values. The order of the records holds for them, too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.write.dialect import TableName
from penstock.connectors.jdbc.write.mysql import MySql
from penstock.data.records import Records
from penstock.data.schema import (
    FLOAT64,
    INT32,
    STRING,
    TIMESTAMP,
    Schema,
    Value,
    decimal,
    struct,
)
from tests.servers.databases import DatabaseServer

from .tables import Target, only, target_of, write
from .test_driver import H2Server

NOON: Final = datetime(2024, 2, 29, 12, tzinfo=UTC)
ROW: Final = struct({"n": INT32})
SETUP: Final = {
    "postgresql": (
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE COLLATION IF NOT EXISTS caseless "
        "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE DOMAIN email AS citext",
    ),
}


@dataclass(frozen=True)
class Case:
    """Two keys that a column considers equal."""

    database: str
    column: str
    schema: Schema
    keys: tuple[Value, Value]
    more: str = ""  # a statement after the table is created
    dialect: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.database, self.dialect, self.column.replace(" ", "_"))))


CASES: Final = [
    Case("postgresql", "citext", STRING, ("a", "A")),
    Case("postgresql", "email", STRING, ("a@b", "A@b")),
    Case("postgresql", "char(5)", STRING, ("a", "a  ")),
    Case("postgresql", "varchar(2)", STRING, ("ab", "ab  ")),
    Case("postgresql", "text COLLATE caseless", STRING, ("a", "A")),
    Case("postgresql", "uuid", STRING, (
        "0a0e1c00-0000-4000-8000-000000000000", "{0A0E1C00-0000-4000-8000-000000000000}"
    )),
    Case("postgresql", "double precision", FLOAT64, (-0.0, 0.0)),
    Case("postgresql", "double precision", FLOAT64, (float("nan"), -float("nan"))),
    Case("postgresql", "real", FLOAT64, (0.1, 0.1000000001)),
    Case("postgresql", "numeric(9,1)", decimal(2), (Decimal("1.01"), Decimal("1.02"))),
    Case("postgresql", "numeric", STRING, ("1.0", "1.00")),
    Case("postgresql", "int", STRING, ("1", "01")),
    Case("postgresql", "jsonb", STRING, ('{"a":1}', '{"a": 1}')),
    Case("postgresql", "timestamp(0)", TIMESTAMP, (NOON, NOON.replace(microsecond=1000))),
    Case("mariadb", "varchar(20)", STRING, ("a", "A")),
    Case("mariadb", "varchar(20)", STRING, ("e", "é")),
    Case("mariadb", "varchar(20) COLLATE utf8mb4_bin", STRING, ("a", "a ")),
    Case("mariadb", "char(20) COLLATE utf8mb4_bin", STRING, ("a", "a ")),
    Case("mariadb", "enum('a','b')", STRING, ("a", "A")),
    Case("mariadb", "uuid", STRING, (
        "0a0e1c00-0000-4000-8000-000000000000", "0A0E1C00-0000-4000-8000-000000000000"
    )),
    Case("mariadb", "int", STRING, ("1", "01")),
    Case("mariadb", "double", FLOAT64, (-0.0, 0.0)),
    Case("mariadb", "decimal(9,1)", decimal(2), (Decimal("1.01"), Decimal("1.02"))),
    Case("mariadb", "datetime", TIMESTAMP, (NOON, NOON.replace(microsecond=1000))),
    Case("sqlite", "text COLLATE NOCASE", STRING, ("a", "A")),
    Case("sqlite", "text COLLATE RTRIM", STRING, ("a", "a ")),
    Case("sqlite", "integer", STRING, ("1", "01")),
    Case("sqlite", "real", FLOAT64, (-0.0, 0.0)),
    Case("h2", "varchar_ignorecase", STRING, ("a", "A")),
    Case("h2", "char(5)", STRING, ("a", "a  ")),
    Case("h2", "varchar_ignorecase", STRING, ("a", "A"), dialect="GenericDatabaseDialect"),
    Case("h2", "varchar_ignorecase", STRING, ("a", "A"),
         "ALTER TABLE {table} DROP PRIMARY KEY", dialect="GenericDatabaseDialect"),
]  # fmt: skip


@pytest.fixture(scope="module")
def h2() -> Iterator[DatabaseServer]:
    with H2Server() as server:
        yield server


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    with target_of(request, tmp_path) as made:
        for statement in SETUP.get(request.param, ()):
            with suppress(DatabaseRefused):  # an earlier test did it
                made.connection.execute(statement)
        yield made


@pytest.fixture
def case(request: pytest.FixtureRequest, target: Target) -> Case:
    """Creates the case's table."""
    of: Case = request.param
    not_null = "" if of.database == "sqlite" else "NOT NULL"
    target.create(
        f"{target.quoted('k')} {of.column} {not_null} PRIMARY KEY, "
        f"{target.quoted('n')} int CHECK ({target.quoted('n')} < 100)"
    )
    name = target.table
    for statement in filter(None, of.more.split("; ")):
        target.connection.execute(statement.format(table=target.quoted(name), name=name))
    return of


each_case = pytest.mark.parametrize(
    ("target", "case"), [pytest.param(case.database, case, id=str(case)) for case in CASES],
    indirect=True,
)  # fmt: skip


def batch(target: Target, case: Case, rows: Sequence[tuple[int, int | None]]) -> Records:
    """Records with one of the case's two keys each; None: a tombstone."""
    values: list[Value] = [None if n is None else {"n": n} for _, n in rows]
    keys = [{"k": case.keys[which]} for which, _ in rows]
    return target.records(values, ROW, keys, struct({"k": case.schema}))


KEYED: Final = {"pk.mode": "record_key", "pk.fields": "k", "errors.tolerance": "all"}
ORDERS: Final = [
    ([(0, 1), (1, 2)], [2]),
    ([(0, 1), (1, 2), (0, 3)], [3]),
    ([(0, 1), (1, None)], []),
    ([(0, 1), (1, None), (0, 2)], [2]),
    ([(0, None), (1, 1), (0, 2), (1, None), (1, 3), (0, 4)], [4]),
    ([(0, 1), (1, 200)], [1]),  # the last one is refused
    ([(0, 1), (1, None), (1, 200)], []),
]


@each_case
def test_upserts_and_deletes_keep_their_order(target: Target, case: Case) -> None:
    writer = target.sink(
        insert__mode="upsert", delete__enabled="true", dialect__name=case.dialect, **KEYED
    )
    for rows, expected in ORDERS:
        target.connection.execute(f"DELETE FROM {target.quoted(target.table)}")
        failed = write(writer, batch(target, case, rows))
        assert list(failed) == [at for at, (_, n) in enumerate(rows) if n == 200]
        found = [n for (n,) in target.rows(target.quoted("n"))]
        assert found == expected, rows


@each_case
def test_the_last_update_counts(target: Target, case: Case) -> None:
    insert = target.sink(dialect__name=case.dialect, **KEYED)
    assert write(insert, batch(target, case, [(0, 0)])) == {}
    writer = target.sink(insert__mode="update", dialect__name=case.dialect, **KEYED)
    for rows, expected in (
        ([(0, 1), (1, 2)], 2),
        ([(1, 3), (0, 4), (1, 5), (0, 6)], 6),
        ([(0, 7), (1, 200)], 7),  # refused
    ):
        failed = write(writer, batch(target, case, rows))
        assert list(failed) == [at for at, (_, n) in enumerate(rows) if n == 200]
        assert target.rows(target.quoted("n")) == [(expected,)]


@only("postgresql")
def test_the_collation_of_an_index_decides_about_upserts(target: Target) -> None:
    target.create("k text, n int")
    target.connection.execute(
        f"CREATE UNIQUE INDEX ON {target.quoted(target.table)} (k COLLATE caseless)"
    )
    case = Case("postgresql", "text", STRING, ("a", "A"))
    writer = target.sink(insert__mode="upsert", delete__enabled="true", **KEYED)
    for rows, expected in (
        ([(0, 1), (1, 2), (0, 3)], [("a", 3)]),
        ([(0, 1), (1, None)], [("a", 1)]),
        ([(1, 1), (0, 2), (1, None)], []),
    ):
        target.connection.execute(f"DELETE FROM {target.quoted(target.table)}")
        assert write(writer, batch(target, case, rows)) == {}
        assert target.rows("k, n") == expected, rows


COLLATIONS: Final = [
    "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci", "utf8mb4_bin",
    "utf8mb4_general_nopad_ci", "utf8mb4_unicode_nopad_ci", "utf8mb4_nopad_bin",
    "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_as_ci", "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb3_general_ci", "latin1_swedish_ci", "latin1_general_ci", "latin1_general_cs",
    "latin1_bin",
]  # fmt: skip


@only("mariadb")
def test_texts_compare_as_in_their_collation(target: Target) -> None:
    """Two texts are equal to the writer exactly if they are equal to the server."""
    texts: list[Value] = [f"({chr(code)})" for code in range(0x20, 0x7F)]
    target.create("t varchar(9)")
    table = target.quoted(target.table)
    for text in texts:
        target.connection.execute(f"INSERT INTO {table} (t) VALUES (%s)", (text,))
    for collation in COLLATIONS:
        charset = collation.partition("_")[0]
        target.connection.execute(
            f"ALTER TABLE {table} MODIFY t varchar(9) CHARACTER SET {charset} COLLATE {collation}"
        )
        existing = MySql(zone("UTC")).table(target.connection, TableName((target.table,)))
        assert existing is not None
        column = existing.column("t")
        assert column is not None
        assert column.collation == collation
        identity = MySql(zone("UTC")).identity(STRING, column)
        assert identity is not None, collation
        keys = identity(texts)
        assert keys is not None
        rows = target.connection.rows(
            f"SELECT HEX(a.t), HEX(b.t) FROM {table} a JOIN {table} b ON a.t = b.t"
        )
        equal = {
            (bytes.fromhex(one).decode(), bytes.fromhex(other).decode()) for one, other in rows
        }
        pairs = itertools.product(zip(texts, keys, strict=True), repeat=2)
        assert equal == {(one, two) for (one, key), (two, also) in pairs if key == also}, collation
