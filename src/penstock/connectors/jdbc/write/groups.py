"""Divides a batch into groups: records for one table with the same schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.api import DataError, Failed, Records
from penstock.api.schema import Schema, Type, Value
from penstock.connectors.jdbc.write.dialect import TableName, Write
from penstock.connectors.jdbc.write.settings import KeyMode, WriteSettings


@dataclass(slots=True)
class Group:
    """Rows of a batch, in order, for one table with the same schemas; `deletes` are those of
    tombstones."""

    table: TableName
    key: Schema | None
    value: Schema | None  # None while there are only tombstones
    rows: Sequence[int]
    deletes: set[int] = field(default_factory=set)


def groups(records: Records, settings: WriteSettings) -> Iterator[Group]:
    """Divides a batch into groups; those of one table in order (connectors.md §3.2: a group ends
    where a schema changes, or where, without upserts, a record follows a delete)."""
    topics = records.topics
    key_runs, value_runs = records.keys.runs, records.values.runs
    if (
        len(key_runs) == 1
        and len(value_runs) == 1
        and topics.count(topics[0]) == len(topics)
        and None not in records.values.values
    ):
        table = settings.table_of(topics[0])
        yield Group(table, key_runs[0].schema, value_runs[0].schema, range(len(topics)))
        return
    upserts = settings.write is Write.UPSERT
    tables = {topic: settings.table_of(topic) for topic in set(topics)}
    # Names that differ only by case may be one table's, so their records stay in order, too.
    places = {table: tuple(map(str.lower, table.parts)) for table in tables.values()}
    open_: dict[tuple[str, ...], tuple[Group, list[int]]] = {}
    cells = zip(
        topics, records.keys.schemas(), records.values.schemas(), records.values.values,
        strict=True,
    )  # fmt: skip
    for row, (topic, key, value_schema, value) in enumerate(cells):
        table = tables[topic]
        deletes = value is None and settings.deletes
        group, rows = open_.get(places[table], (None, []))
        if group is not None and group.table == table and group.key == key:
            if deletes:
                rows.append(row)
                group.deletes.add(row)
                continue
            only_deletes = len(group.deletes) == len(rows)
            if only_deletes and upserts:
                group.value = value_schema
            if group.value == value_schema and (upserts or not group.deletes):
                rows.append(row)
                continue
        if group is not None:
            yield group
        rows = [row]
        schema = None if deletes else value_schema
        group = Group(table, key, schema, rows, {row} if deletes else set())
        open_[places[table]] = group, rows
    for group, _ in open_.values():
        yield group


def usable(
    records: Records,
    group: Group,
    rows: list[int],
    write: Write,
    settings: WriteSettings,
    refused: Failed,
) -> list[int]:
    """The rows whose keys and values are present and of a kind that maps to columns."""
    if write is not Write.DELETE:
        fits = group.value is not None and group.value.type in (Type.STRUCT, Type.STRING)
        cells = records.values.values
        unusable = [row for row in rows if not fits or cells[row] is None]
        for row in unusable:
            refused[row] = DataError(
                f"{_requires(settings)} records with a non-null Struct value and non-null Struct "
                f"schema, but found record at {shown_place(records, row)} with a "
                f"{_kind(cells[row])} value and {_schema_kind(group.value)} value schema."
            )
        rows = [row for row in rows if row not in refused] if unusable else rows
    if settings.key_mode is KeyMode.RECORD_KEY:
        fits = group.key is not None and (
            group.key.type.is_primitive or group.key.type is Type.STRUCT
        )
        cells = records.keys.values
        unusable = [row for row in rows if not fits or cells[row] is None]
        for row in unusable:
            refused[row] = DataError(
                f"{_requires(settings)} records with a non-null key and non-null Struct or "
                f"primitive key schema, but found record at {shown_place(records, row)} with a "
                f"{_kind(cells[row])} key and {_schema_kind(group.key)} key schema."
            )
        rows = [row for row in rows if row not in refused] if unusable else rows
    return rows


def _requires(settings: WriteSettings) -> str:
    return (
        f"Sink connector '{settings.connector}' is configured with "
        f"'delete.enabled={str(settings.deletes).lower()}' and "
        f"'pk.mode={settings.key_mode.value}' and therefore requires"
    )


def shown_place(records: Records, row: int) -> str:
    return (
        f"(topic='{records.topics[row]}',partition={records.partitions[row]},"
        f"offset={shown_offset(records, row)},timestamp={records.timestamps[row]})"
    )


def shown_offset(records: Records, row: int) -> int | str:
    return records.offsets[row] if records.offsets else "?"


def _kind(value: Value) -> str:
    return "null" if value is None else type(value).__name__


def _schema_kind(schema: Schema | None) -> str:
    return "null" if schema is None else schema.type.name.lower()
