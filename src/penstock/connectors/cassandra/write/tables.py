"""The statements of a table, and whether the table is there and has what they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.connectors.cassandra.text.mapping import TIMESTAMP, TTL
from penstock.connectors.cassandra.text.names import quoted, shown
from penstock.connectors.cassandra.write.plan import Mapped, Selected

_VARIABLES = (TTL, TIMESTAMP)


def find_table(metadata: Any, plan: Mapped | Selected) -> tuple[Any, str]:
    """The driver's description of a table, or None and why there is none."""
    keyspace = metadata.keyspaces.get(plan.keyspace)
    if keyspace is None:
        return None, _missing("Keyspace", "a keyspace", plan.keyspace, metadata.keyspaces)
    table = keyspace.tables.get(plan.table)
    if table is None:
        return None, _missing("Table", "a table", plan.table, keyspace.tables)
    return table, ""


def _missing(kind: str, one: str, name: str, known: Any) -> str:
    lower = name.lower()
    if lower in known:
        return (
            f"{kind} {name} does not exist, however {one} {lower} was found. Update the config to "
            f"use {lower} if desired."
        )
    return f"{kind} {name} does not exist."


def problems(metadata: Any, plan: Mapped | Selected) -> Iterator[tuple[str, str]]:
    """What is wrong with a plan: the setting to blame, and the message."""
    table, missing = find_table(metadata, plan)
    if table is None:
        yield plan.setting, missing
        return
    if isinstance(plan, Selected):
        known = set(table.columns)
        unknown = [alias for _, alias in plan.fields if alias.lower() not in known]
        if unknown:
            yield plan.setting, _unknown(plan, unknown)
        return
    if plan.query is not None:
        return
    mapped = [each.column for each in plan.entries if each.column not in _VARIABLES]
    unknown = [each for each in mapped if each not in table.columns]
    if unknown:
        yield plan.setting, _unknown(plan, unknown)
    unmapped = [each for each in primary_key(table) if each not in mapped]
    if unmapped:
        names = ", ".join(shown(each) for each in unmapped)
        yield (
            plan.setting,
            f"The following columns are part of the primary key but are not mapped: {names}",
        )
    has_ttl = plan.ttl_s is not None or any(each.column == TTL for each in plan.entries)
    if is_counter(table) and has_ttl:
        yield plan.setting, "Cannot set ttl when updating a counter table"


def _unknown(plan: Mapped | Selected, columns: list[str]) -> str:
    names = ", ".join(shown(each) for each in columns)
    return f"The following columns do not exist in table {plan.table}: {names}"


def primary_key(table: Any) -> list[str]:
    """The names of a table's key columns."""
    return [each.name for each in table.primary_key]


def is_counter(table: Any) -> bool:
    """Whether a table holds counters."""
    return any(each.cql_type == "counter" for each in table.columns.values())


def write_statement(plan: Mapped, table: Any) -> str:
    """The statement that writes a row."""
    if plan.query is not None:
        return plan.query
    return _update(plan, table) if is_counter(table) else _insert(plan)


def _insert(plan: Mapped) -> str:
    columns = [each.column for each in plan.entries if each.column not in _VARIABLES]
    names = ",".join(quoted(each) for each in columns)
    variables = ",".join(f":{quoted(each)}" for each in columns)
    statement = (
        f"INSERT INTO {_place(plan)}({names}) VALUES ({variables}) USING TIMESTAMP :{TIMESTAMP}"
    )
    if any(each.column == TTL for each in plan.entries):
        return f"{statement} AND TTL :{TTL}"
    return statement if plan.ttl_s is None else f"{statement} AND TTL {plan.ttl_s}"


def _update(plan: Mapped, table: Any) -> str:
    keys = primary_key(table)
    sums = ",".join(
        f"{quoted(each.column)} = {quoted(each.column)} + :{quoted(each.column)}"
        for each in plan.entries
        if each.column not in keys and each.column not in _VARIABLES
    )
    return f"UPDATE {_place(plan)} SET {sums} WHERE {_where(keys)}"


def delete_statement(plan: Mapped, table: Any) -> str | None:
    """The statement that deletes a row; None where rows are not deleted, because that is switched
    off or not all columns are mapped: a record says nothing of the others."""
    mapped = {each.column for each in plan.entries}
    if not plan.deletes or plan.query is not None or not set(table.columns) <= mapped:
        return None
    using = "" if is_counter(table) else f" USING TIMESTAMP :{TIMESTAMP}"
    return f"DELETE FROM {_place(plan)}{using} WHERE {_where(primary_key(table))}"


def json_statement(plan: Selected) -> str:
    """The statement that writes a row of JSON."""
    statement = f"INSERT INTO {_place(plan)} JSON ?"
    if plan.unset:
        statement += " DEFAULT UNSET"
    return statement if plan.ttl_s is None else f"{statement} USING TTL {plan.ttl_s}"


def _where(keys: list[str]) -> str:
    return " AND ".join(f"{quoted(each)} = :{quoted(each)}" for each in keys)


def _place(plan: Mapped | Selected) -> str:
    return f"{quoted(plan.keyspace)}.{quoted(plan.table)}"
