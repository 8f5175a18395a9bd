"""The statements that read a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from penstock.connectors.cassandra.read.plan import Mode, SourcePlan, TablePlan
from penstock.connectors.cassandra.text.names import quoted

_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 63) - 1
_MAX_PARTS: Final = 8


def problems(metadata: Any, plan: TablePlan, setting: str) -> Iterator[str]:
    """Checks a plan against the cluster; yields messages that name the setting."""
    keyspace = metadata.keyspaces.get(plan.keyspace)
    if keyspace is None:
        yield f"connect.cassandra.key.space: Keyspace {plan.keyspace} does not exist."
        return
    table = keyspace.tables.get(plan.table) or keyspace.views.get(plan.table)
    if table is None:
        yield f"{setting}: Table {plan.table} does not exist in keyspace {plan.keyspace}."
        return
    needed = [name for name, _ in plan.columns]
    needed += [plan.column] if plan.column else []
    needed += [*plan.key_columns, *([plan.buckets.column] if plan.buckets else [])]
    missing = [name for name in dict.fromkeys(needed) if name not in table.columns]
    if missing:
        yield (
            f"{setting}: The following columns do not exist in table {plan.table}: "
            f"{', '.join(missing)}"
        )
        return
    if plan.columns and plan.column and plan.column not in [name for name, _ in plan.columns]:
        yield (
            f"{setting}: the primary key column {plan.column} must appear in the SELECT statement"
        )
        return
    kind = table.columns[plan.column].cql_type if plan.column else ""
    if plan.mode is Mode.TIMEUUID and kind != "timeuuid":
        yield (
            f"{setting}: column {plan.column} is a {kind}, but INCREMENTALMODE=timeuuid needs a "
            "timeuuid"
        )
    if plan.mode in (Mode.TIMESTAMP, Mode.BUCKETS) and kind != "timestamp":
        yield (
            f"{setting}: column {plan.column} is a {kind}, but INCREMENTALMODE={plan.mode.value} "
            "needs a timestamp"
        )
    if plan.mode is Mode.TOKEN and [column.name for column in table.partition_key] != [plan.column]:
        yield (
            f"{setting}: column {plan.column} is not the partition key of {plan.table}, which "
            "INCREMENTALMODE=token needs"
        )


def statement(plan: TablePlan, source: SourcePlan, *, is_first: bool = False) -> str:
    """The SELECT of a plan; `is_first`: there is no offset yet."""
    names = ", ".join(
        quoted(name) if name == alias else f"{quoted(name)} AS {quoted(alias)}"
        for name, alias in plan.columns
    )
    select = f"SELECT {names or '*'} FROM {quoted(plan.keyspace)}.{quoted(plan.table)}"
    column = quoted(plan.column)
    filtering = " ALLOW FILTERING" if source.filters else ""
    match plan.mode:
        case Mode.TIMESTAMP:
            return f"{select} WHERE {column} > ? AND {column} <= ?{filtering}"
        case Mode.TIMEUUID:
            bounds = f"{column} > maxTimeuuid(?) AND {column} <= minTimeuuid(?)"
            return f"{select} WHERE {bounds}{filtering}"
        case Mode.BUCKETS:
            assert plan.buckets is not None
            return (
                f"{select} WHERE {column} > ? AND {column} <= ? AND "
                f"{quoted(plan.buckets.column)} IN ?"
            )
        case Mode.TOKEN:
            return select if is_first else f"{select} WHERE token({column}) > token(?)"
        case Mode.BULK:
            return select


def range_statement(plan: TablePlan, source: SourcePlan, partition_key: list[str]) -> str:
    """The SELECT for a range of tokens, both bounds included."""
    token = f"token({', '.join(quoted(column) for column in partition_key)})"
    return f"{statement(plan, source)} WHERE {token} >= ? AND {token} <= ?"


def ranges(count: int) -> list[tuple[int, int]]:
    """Splits all tokens into `count` ranges of equal length.

    >>> ranges(2)
    [(-9223372036854775808, -1), (0, 9223372036854775807)]
    """
    step = (1 << 64) // count
    starts = [_LOWEST + step * number for number in range(count)]
    ends = [start - 1 for start in starts[1:]] + [_HIGHEST]
    return list(zip(starts, ends, strict=True))


def parts_of(partitions: int | None) -> int:
    """The number of ranges for a table, by its estimated partitions; None: unknown."""
    if partitions is None:
        return _MAX_PARTS
    return max(1, min(_MAX_PARTS, partitions // 1_000))
