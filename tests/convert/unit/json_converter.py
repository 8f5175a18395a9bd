"""A JsonConverter that reads and writes columns, and checks what failed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.api import Failed, Use
from penstock.convert.json import JsonConverter
from penstock.data.records import Column
from penstock.data.schema import Value
from penstock.errors import DataError


def converter(props: dict[str, str] | None = None) -> JsonConverter:
    return JsonConverter(JsonConverter.plugin.config.parse(props or {}), Use.VALUE)


def read(
    cells: Sequence[bytes | None], props: dict[str, str] | None = None
) -> tuple[Column, dict[int, str]]:
    failed: Failed = {}
    column = converter(props).to_connect(["t"] * len(cells), cells, failed)
    assert len(column) == len(cells)
    assert all(isinstance(error, DataError) for error in failed.values())
    assert all(column.values[row] is None for row in failed)
    return column, {row: str(error) for row, error in failed.items()}


def write(
    column: Column, props: dict[str, str] | None = None
) -> tuple[list[bytes | None], dict[int, str]]:
    failed: Failed = {}
    cells = converter(props).from_connect(["t"] * len(column), column, failed)
    assert len(cells) == len(column)
    assert all(isinstance(error, DataError) for error in failed.values())
    assert all(cells[row] is None for row in failed)
    return cells, {row: str(error) for row, error in failed.items()}


def read_one(cell: bytes, props: dict[str, str] | None = None) -> Value:
    column, failed = read([cell], props)
    assert not failed
    return column.values[0]


def refusal(cell: bytes, props: dict[str, str] | None = None) -> str:
    _, failed = read([cell], props)
    return failed[0]
