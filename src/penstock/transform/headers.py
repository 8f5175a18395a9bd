"""DropHeaders, HeaderFrom, InsertHeader (kafka-connect.md §10.5, §10.10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from penstock.api.transform import Transform
from penstock.config.checks import entries, non_empty_list, non_null
from penstock.config.declare import choice, listing, text
from penstock.config.define import HIGH, REQUIRED, Config, ConfigDef
from penstock.data.records import Column, Failed, Header, Records, Run
from penstock.data.schema import Field, Schema, Type, Value
from penstock.data.values import parse
from penstock.errors import ConfigInvalid, DataError
from penstock.transform.java import NullPointer, schema_text
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import Plan, Rows, SideTransform, defaults_of, done, fill, is_record

# fmt: off
DROPPED: Final = listing("headers", REQUIRED,
    "Names of the headers to remove.", check=entries(may_be_empty=False, may_repeat=True),
    importance=HIGH)

DROP_HEADERS: Final = ConfigDef(DROPPED)

HEADER: Final = text("header", REQUIRED,
    "The name of the header.", check=non_null(), importance=HIGH)
LITERAL: Final = text("value.literal", REQUIRED,
    'The value of the header; its type is inferred: `12`, `true`, `[1,2]`, `{"a":1}`, '
    "`2024-02-29`, otherwise a string.", check=non_null(), importance=HIGH)

INSERT_HEADER: Final = ConfigDef(HEADER, LITERAL)

FIELDS: Final = listing("fields", REQUIRED,
    "The fields whose values go into headers.", check=non_empty_list(), importance=HIGH)
HEADERS: Final = listing("headers", REQUIRED,
    "Names of the headers, in the order of `fields`.", check=non_empty_list(), importance=HIGH)
MOVE: Final = "move"
OPERATION: Final = choice("operation", REQUIRED, (MOVE, "copy"),
    "Whether the fields are removed (move) or stay (copy).", importance=HIGH)
# fmt: on

HEADER_FROM: Final = ConfigDef(FIELDS, HEADERS, OPERATION, REPLACE_NULL)


class DropHeaders(Transform):
    """Removes all headers with the given names."""

    keeps_fields = True
    plugin = plugin("DropHeaders", DROP_HEADERS)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._names = frozenset(config[DROPPED])

    def apply(self, records: Records, failed: Failed) -> Records:
        if not records.headers:
            return records
        names = self._names
        return records.with_headers(
            [
                [header for header in headers if header.name not in names] if headers else headers
                for headers in records.headers
            ]
        )


class InsertHeader(Transform):
    """Appends a header."""

    keeps_fields = True
    plugin = plugin("InsertHeader", INSERT_HEADER)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        schema, value = parse(config[LITERAL])
        self._header = Header(config[HEADER], value, schema)

    def apply(self, records: Records, failed: Failed) -> Records:
        header = self._header
        if not records.headers:
            return records.with_headers([[header]] * len(records))
        return records.with_headers([[*headers, header] for headers in records.headers])


class HeaderFrom(SideTransform):
    """Copies or moves fields of the key or value into headers."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._pairs = list(zip(config[FIELDS], config[HEADERS], strict=False))
        if len(config[FIELDS]) != len(config[HEADERS]):
            raise ConfigInvalid(
                ["'fields' config must have the same number of elements as 'headers' config."]
            )
        self._moves = config[OPERATION] == MOVE
        self.purpose = f"header {config[OPERATION]}"  # type: ignore[misc]  # it says what is done
        self._replace_null = config[REPLACE_NULL]

    def changed(self, records: Records, column: Column, failed: Failed) -> Column:
        raise NotImplementedError

    def apply(self, records: Records, failed: Failed) -> Records:
        column = records.keys if self.of_keys else records.values
        values: list[Value] = []
        added: list[Sequence[Header]] = []
        runs: list[Run] = []
        for schema, start, stop in column.slices():
            plan = self.plan_of(schema)
            part = column.values[start:stop]
            for both in done(plan, part, Rows(records, range(start, stop)), failed):
                value, headers = both or (None, ())
                values.append(value)
                added.append(headers)
            runs.append(Run(stop, plan.schema))
        if records.headers:
            added = [[*old, *new] for old, new in zip(records.headers, added, strict=True)]
        records = records.with_headers(added)
        changed = Column(values, runs)
        return records.with_keys(changed) if self.of_keys else records.with_values(changed)

    def plan(self, schema: Schema | None) -> Plan:
        """A plan whose changed values are pairs: the value, and the headers taken from it."""
        if schema is None:
            return self.planned(None, None, self._from_maps)
        if not is_record(schema):
            return self.planned(schema, schema, self._from_maps)
        new = schema
        if self._moves:
            moved = {name for name, _ in self._pairs}
            fields = [field for field in schema.fields if field.name not in moved]
            new = Schema(
                Type.STRUCT,
                name=schema.name,
                version=schema.version,
                doc=schema.doc,
                parameters=schema.parameters,
                fields=tuple(
                    Field(field.name, at, field.schema) for at, field in enumerate(fields)
                ),
            )
        return self.planned(schema, new, self._from_structs(schema, new))

    def _from_maps(self, values: list[Value], rows: Rows) -> list[Value]:
        pairs, moves = self._pairs, self._moves
        split: list[Value] = []
        for value in values:
            copy = value.copy()
            headers = [Header(name, value.get(field)) for field, name in pairs]
            if moves:
                for field, _ in pairs:
                    copy.pop(field, None)
            split.append((copy, headers))
        return split

    def _from_structs(
        self, schema: Schema, new: Schema
    ) -> Callable[[list[Value], Rows], list[Value]]:
        fields: list[tuple[str, str, Schema]] = []
        for name, header in self._pairs:
            field = schema.field(name)
            if field is None:
                raise NullPointer(_NO_FIELD)
            fields.append((name, header, field.schema))
        defaults = defaults_of(schema, replace_null=self._replace_null)
        names = new.field_names
        remaining = Schema(Type.STRUCT, fields=new.fields)
        prepared = fill(remaining, remaining, replace_null=self._replace_null)
        moves = self._moves

        def change(values: list[Value], rows: Rows) -> list[Value]:
            pairs: list[Value] = []
            for value in values:
                get = value.get
                headers = []
                for name, header, of in fields:
                    cell = get(name)
                    if cell is None:
                        cell = defaults.get(name)
                    if cell is None and not of.optional:
                        raise DataError(
                            f"A null value requires an optional schema but was {schema_text(of)}"
                        )
                    headers.append(Header(header, cell, of))
                remaining = {name: get(name) for name in names} if moves else value
                pairs.append((remaining, headers))
            if not moves:
                return pairs
            filled = prepared([value for value, _ in pairs])
            return [(value, headers) for value, (_, headers) in zip(filled, pairs, strict=True)]

        return change


# Kafka Connect does not check the field; this is the JVM's message.
_NO_FIELD: Final = (
    'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
    '"org.apache.kafka.connect.data.Schema.field(String)" is null'
)


class HeaderFromKey(HeaderFrom):
    """Takes headers from keys."""

    of_keys: ClassVar[bool] = True
    plugin = plugin("HeaderFrom$Key", HEADER_FROM)


class HeaderFromValue(HeaderFrom):
    """Takes headers from values."""

    plugin = plugin("HeaderFrom$Value", HEADER_FROM)
