"""Prepared statements of a table, and the binding of records to them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import orjson

from penstock.api import ConfigInvalid, DataError
from penstock.connectors.cassandra.client.errors import error_of, is_forbidden, is_transient, shown
from penstock.connectors.cassandra.text.codecs import Encode, encoder, json_of
from penstock.connectors.cassandra.text.mapping import NOW, TIMESTAMP, TTL
from penstock.connectors.cassandra.text.names import shown as shown_name
from penstock.connectors.cassandra.text.types import is_exact
from penstock.connectors.cassandra.text.values import Texts
from penstock.connectors.cassandra.write.plan import Mapped, Selected
from penstock.connectors.cassandra.write.rows import Bound, Row, micros, ttl_s
from penstock.connectors.cassandra.write.tables import (
    delete_statement,
    find_table,
    is_counter,
    json_statement,
    primary_key,
    problems,
    write_statement,
)
from penstock.connectors.common.paths import MISSING, member


def binding_of(session: Any, plan: Mapped | Selected, texts: Texts) -> Binding | JsonBinding:
    """Prepares the statements of a plan. Raises ConfigInvalid, which names the setting, if the
    table does not fit the plan; CassandraUnavailable; NotAllowed."""
    metadata = session.cluster.metadata
    messages = [f"{setting}: {text}" for setting, text in problems(metadata, plan)]
    if messages:
        raise ConfigInvalid(messages)
    if isinstance(plan, Selected):
        return JsonBinding(session, plan, texts)
    return Binding(session, plan, texts, find_table(metadata, plan)[0])


class Binding:
    """Binds records to the statements of a table with a mapping."""

    def __init__(self, session: Any, plan: Mapped, texts: Texts, table: Any) -> None:
        from cassandra.query import UNSET_VALUE, BatchType

        self._plan = plan
        self._unset = UNSET_VALUE
        self._keys = frozenset(primary_key(table))
        self._entries = {entry.column: entry for entry in plan.entries}
        self._others = [
            entry for entry in plan.entries if entry.column not in self._keys and entry.field != NOW
        ]
        setting = plan.setting if plan.query is None else plan.query_setting
        self._write = _prepared(session, write_statement(plan, table), plan, setting)
        deleting = delete_statement(plan, table)
        # If all columns are keys, a record without other columns is a row, not a delete.
        if set(table.columns) == self._keys:
            deleting = None
        self._delete = deleting and _prepared(session, deleting, plan, plan.setting)
        self._generated = plan.query is None
        self._is_counter = is_counter(table)
        self.has_times = self._generated and not self._is_counter
        self.batch_type = BatchType.COUNTER if self._is_counter else BatchType.UNLOGGED
        self._encoders = {
            id(prepared): self._encoders_of(prepared, texts)
            for prepared in (self._write, self._delete)
            if prepared is not None
        }
        self._time_at = {
            prepared: list(encoders).index(TIMESTAMP)
            for prepared, encoders in self._encoders.items()
            if TIMESTAMP in encoders
        }
        self.exact = any(is_exact(column.type) for column in self._write.column_metadata)
        self.place = f"{plan.keyspace}.{plan.table}"

    def bind(self, row: Row, at: int) -> Bound | None:
        """Binds a record. Raises DataError."""
        prepared = self._write
        fields: dict[str, Any] = {}
        for column in self._encoders[id(prepared)]:
            entry = self._entries.get(column)
            if entry is not None:
                fields[column] = row.get(entry)
        if self._delete is not None and not any(
            fields.get(entry.column) is not None for entry in self._others
        ):
            prepared = self._delete
        values, size = self._values(prepared, fields, row)
        key = None
        indexes = prepared.routing_key_indexes
        # Statements of one request that say no write time have the same one.
        if self._generated and indexes and (self._is_counter or self._is_timed(prepared, values)):
            key = (id(self), *(values[index] for index in indexes))
        return Bound(at, prepared, values, key, size)

    def _values(self, prepared: Any, fields: dict[str, Any], row: Row) -> tuple[list[Any], int]:
        plan = self._plan
        values: list[Any] = []
        size = 0
        for column, encode in self._encoders[id(prepared)].items():
            if column == TIMESTAMP and self._generated:
                value = self._write_time(fields, row, is_delete=prepared is self._delete)
            elif column == TTL and column in fields:
                value = ttl_s(fields[column], self._entries[column], plan.ttl_unit)
            elif column == TIMESTAMP and column in fields:
                value = micros(fields[column], self._entries[column], plan.timestamp_unit)
            elif column in fields:
                value = fields[column]
            else:
                values.append(self._unset)
                continue
            try:
                data = encode(value)
            except DataError as error:
                raise DataError(f"Column {shown_name(column)}: {error}") from error
            if data is None:
                if column in self._keys:
                    raise DataError(
                        f"Primary key column {shown_name(column)} cannot be mapped to null. Check "
                        "that your mapping setting matches your dataset contents."
                    )
                absent = plan.null_to_unset or column in (TTL, TIMESTAMP)
                values.append(self._unset if absent else None)
            else:
                size += len(data)
                values.append(data)
        return values, size

    def _write_time(self, fields: Mapping[str, Any], row: Row, *, is_delete: bool) -> int | None:
        """The write time in microseconds: the mapped field, or the record's (`RecordTimes`)."""
        if TIMESTAMP in self._entries and not (is_delete and fields.get(TIMESTAMP) is None):
            entry = self._entries[TIMESTAMP]
            return micros(fields.get(TIMESTAMP), entry, self._plan.timestamp_unit)
        return row.write_us

    def _is_timed(self, prepared: Any, values: list[Any]) -> bool:
        return values[self._time_at[id(prepared)]] is not self._unset

    def _encoders_of(self, prepared: Any, texts: Texts) -> dict[str, Encode]:
        protocol = prepared.protocol_version
        encoders: dict[str, Encode] = {}
        for column in prepared.column_metadata:
            try:
                encoders[column.name] = encoder(column.type, texts, protocol)
            except DataError as error:
                raise ConfigInvalid([f"{self._plan.setting}: {error}"]) from error
        return encoders


class JsonBinding:
    """Binds records to the statements of a table that is written as JSON."""

    def __init__(self, session: Any, plan: Selected, texts: Texts) -> None:
        from cassandra.query import BatchType

        self._plan = plan
        self._write = _prepared(session, json_statement(plan), plan, plan.setting)
        self._delete: Any = None
        self._encoders: list[Encode] = []
        if plan.delete is not None:
            self._delete = _prepared(session, plan.delete, plan, plan.delete_setting)
            protocol = self._delete.protocol_version
            self._encoders = [
                encoder(column.type, texts, protocol) for column in self._delete.column_metadata
            ]
        self.has_times = False
        self.batch_type = BatchType.UNLOGGED
        self.exact = True
        self.place = f"{plan.keyspace}.{plan.table}"

    def bind(self, row: Row, at: int) -> Bound | None:
        """Binds a record. Raises DataError."""
        if row.value.whole is None:
            return self._deleted(row, at)
        text = json_of(_typed(self._selected(row)))
        data = text.encode()
        return Bound(at, self._write, [data], None, len(data))

    def _selected(self, row: Row) -> Mapping[str, Any]:
        plan = self._plan
        fields = row.value.fields
        if not fields and not isinstance(row.value.whole, Mapping):
            raise DataError("The value is neither a struct nor a JSON object")
        if plan.everything or not plan.fields:
            selected = {name: cell for name, cell in fields.items() if name not in plan.ignored}
        else:
            selected = {}
        for name, alias in plan.fields:
            selected[alias] = _path(fields, name)
        return selected

    def _deleted(self, row: Row, at: int) -> Bound:
        if self._delete is None:
            raise DataError(
                "The record has no value, and connect.cassandra.delete.enabled is false"
            )
        names = self._plan.delete_fields
        if names:
            if not row.key.fields:
                raise DataError("The key has no fields (connect.cassandra.delete.struct_flds)")
            key_values = [_path(row.key.fields, name) for name in names]
        else:
            key_values = [row.key.whole]
        if len(key_values) != len(self._encoders):
            raise DataError(
                f"The key has {len(key_values)} values, but connect.cassandra.delete.statement "
                f"needs {len(self._encoders)}"
            )
        values = [encode(cell) for encode, cell in zip(self._encoders, key_values, strict=True)]
        return Bound(at, self._delete, values)


def _path(fields: Mapping[Any, Any], name: str) -> Any:
    if name in fields:
        return fields[name]
    value = member(fields, name.split("."))
    if value is MISSING:
        raise DataError(f"The record has no field {name}")
    return value


def _typed(value: Any) -> Any:
    """A value in the form of CQL's JSON."""
    match value:
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
        case date() | time():
            return value.isoformat()
        case dict():
            return {_key(name): _typed(item) for name, item in value.items()}
        case list():
            return [_typed(item) for item in value]
        case bytes() | Decimal() | str() | int() | float() | None:
            return value
    return value


def _key(name: Any) -> Any:
    return name if isinstance(name, str) else orjson.dumps(_typed(name), default=str).decode()


def _prepared(session: Any, statement: str, plan: Mapped | Selected, setting: str) -> Any:
    from cassandra import ConsistencyLevel

    try:
        prepared = session.prepare(statement)
    except Exception as error:
        if is_transient(error) or is_forbidden(error):
            raise error_of(error, f"Cannot prepare: {statement}") from error
        raise ConfigInvalid(
            [f"{setting}: Prepare failed for statement: {statement}: {shown(error)}"]
        ) from error
    if plan.consistency:
        prepared.consistency_level = ConsistencyLevel.name_to_value[plan.consistency]
    return prepared
