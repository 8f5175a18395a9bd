"""The statements of a table, and checks of the table against a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.connectors.cassandra.text.mapping import TIMESTAMP, TTL
from penstock.connectors.cassandra.text.names import quoted, shown
from penstock.connectors.cassandra.write.plan import Mapped, Selected

_VARIABLES = (TTL, TIMESTAMP)


def find_table(metadata: Any, plan: Mapped | Selected) -> tuple[Any, str]:
    """The driver's metadata of a table; or None, and the reason."""
    keyspace = metadata.keyspaces.get(plan.keyspace)
    if keyspace is None:
        return None, _missing("Keyspace", "a keyspace", plan.keyspace, metadata.keyspaces)
    table = keyspace.tables.get(plan.table)
    if table is None:
        return None, _missing("Table", "a table", plan.table, keyspace.tables)
    return table, ""


def _missing(kind: str, noun: str, name: str, existing: Any) -> str:
    lower = name.lower()
    if lower in existing:
        return (
            f"{kind} {name} does not exist, however {noun} {lower} was found. Update the config to "
            f"use {lower} if desired."
        )
    return f"{kind} {name} does not exist."


def problems(metadata: Any, plan: Mapped | Selected) -> Iterator[tuple[str, str]]:
    """Checks a plan against its table; yields the setting to blame, and the message."""
    table, missing = find_table(metadata, plan)
    if table is None:
        yield plan.setting, missing
        return
    if isinstance(plan, Selected):
        columns = set(table.columns)
        unknown = [alias for _, alias in plan.fields if alias.lower() not in columns]
        if unknown:
            yield plan.setting, _unknown(plan, unknown)
        return
    if plan.query is not None:
        return
    mapped = [entry.column for entry in plan.entries if entry.column not in _VARIABLES]
    unknown = [column for column in mapped if column not in table.columns]
    if unknown:
        yield plan.setting, _unknown(plan, unknown)
    unmapped = [column for column in primary_key(table) if column not in mapped]
    if unmapped:
        names = ", ".join(shown(column) for column in unmapped)
        yield (
            plan.setting,
            f"The following columns are part of the primary key but are not mapped: {names}",
        )
    has_ttl = plan.ttl_s is not None or any(entry.column == TTL for entry in plan.entries)
    if is_counter(table) and has_ttl:
        yield plan.setting, "Cannot set ttl when updating a counter table"


def _unknown(plan: Mapped | Selected, columns: list[str]) -> str:
    names = ", ".join(shown(column) for column in columns)
    return f"The following columns do not exist in table {plan.table}: {names}"


def primary_key(table: Any) -> list[str]:
    """The names of a table's key columns."""
    return [column.name for column in table.primary_key]


def is_counter(table: Any) -> bool:
    """Whether a table holds counters."""
    return any(column.cql_type == "counter" for column in table.columns.values())


def write_statement(plan: Mapped, table: Any) -> str:
    """The INSERT or UPDATE of a row, or the plan's own query."""
    if plan.query is not None:
        return plan.query
    return _update(plan, table) if is_counter(table) else _insert(plan)


def _insert(plan: Mapped) -> str:
    columns = [entry.column for entry in plan.entries if entry.column not in _VARIABLES]
    names = ",".join(quoted(column) for column in columns)
    variables = ",".join(f":{quoted(column)}" for column in columns)
    statement = (
        f"INSERT INTO {_full_name(plan)}({names}) VALUES ({variables}) USING TIMESTAMP :{TIMESTAMP}"
    )
    if any(entry.column == TTL for entry in plan.entries):
        return f"{statement} AND TTL :{TTL}"
    return statement if plan.ttl_s is None else f"{statement} AND TTL {plan.ttl_s}"


def _update(plan: Mapped, table: Any) -> str:
    keys = primary_key(table)
    sums = ",".join(
        f"{quoted(entry.column)} = {quoted(entry.column)} + :{quoted(entry.column)}"
        for entry in plan.entries
        if entry.column not in keys and entry.column not in _VARIABLES
    )
    return f"UPDATE {_full_name(plan)} SET {sums} WHERE {_where(keys)}"


def delete_statement(plan: Mapped, table: Any) -> str | None:
    """The DELETE of a row. None if deletes are disabled, or if not all columns are mapped: a record
    says nothing about the others."""
    mapped = {entry.column for entry in plan.entries}
    if not plan.deletes or plan.query is not None or not set(table.columns) <= mapped:
        return None
    using = "" if is_counter(table) else f" USING TIMESTAMP :{TIMESTAMP}"
    return f"DELETE FROM {_full_name(plan)}{using} WHERE {_where(primary_key(table))}"


def json_statement(plan: Selected) -> str:
    """The INSERT of a row from JSON."""
    statement = f"INSERT INTO {_full_name(plan)} JSON ?"
    if plan.unset:
        statement += " DEFAULT UNSET"
    return statement if plan.ttl_s is None else f"{statement} USING TTL {plan.ttl_s}"


def _where(keys: list[str]) -> str:
    return " AND ".join(f"{quoted(key)} = :{quoted(key)}" for key in keys)


def _full_name(plan: Mapped | Selected) -> str:
    return f"{quoted(plan.keyspace)}.{quoted(plan.table)}"
