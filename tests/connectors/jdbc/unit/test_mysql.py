"""Columns of MySQL."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

from penstock.connectors.jdbc.drivers.url import parse
from penstock.connectors.jdbc.read.mysql import MysqlReading

VECTOR = 242
LONG = 3


def field(name: str, type_code: int) -> Any:
    return SimpleNamespace(
        name=name, type_code=type_code, charsetnr=63, length=11, scale=0, flags=0
    )


def test_a_column_of_an_unknown_type_is_reported_and_left_out() -> None:
    fields = [field("id", LONG), field("embedding", VECTOR)]
    cursor = SimpleNamespace(
        execute=lambda sql: None, close=lambda: None, _result=SimpleNamespace(fields=fields)
    )
    connection: Any = SimpleNamespace(
        errors=contextlib.nullcontext,
        execute=lambda sql: None,
        raw=SimpleNamespace(cursor=lambda: cursor),
        url=parse("jdbc:mysql://h/d"),
    )
    reading = MysqlReading(connection, quoting=True)
    columns, unsupported = reading.columns("t", None)
    assert [column.name for column in columns] == ["id"]
    assert unsupported == ["column 'embedding' is of MySQL type 242"]
