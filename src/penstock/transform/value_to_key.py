"""ValueToKey: makes the key from fields of the value (kafka-connect.md §10.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.config.checks import entries
from penstock.config.declare import listing
from penstock.config.define import HIGH, REQUIRED, Config, ConfigDef
from penstock.data.records import Failed, Records
from penstock.data.schema import Field, Schema, Type, Value
from penstock.errors import DataError
from penstock.transform.field_path import FIELD_SYNTAX, steps_of
from penstock.transform.java import not_a_map, null_in_field
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import Change, Plan, Rows, SideTransform, is_record

# fmt: off
FIELDS: Final = listing("fields", REQUIRED,
    "The fields of the value for the key, or the paths to them. A field of the key is named as it "
    "is written here.", check=entries(may_be_empty=False, may_repeat=True), importance=HIGH)
# fmt: on

VALUE_TO_KEY: Final = ConfigDef(FIELDS, REPLACE_NULL, FIELD_SYNTAX)


class FieldSource(NamedTuple):
    """A field of the key and where it is in the value: the structs or maps above it, from the top,
    each with its default if null is replaced, and its name in the last one."""

    name: str
    above: Sequence[tuple[str, Value]]
    last: str
    default: Value = None
    schema: Schema | None = None


class ValueToKey(SideTransform):
    """Replaces the key with a struct or map of fields of the value."""

    plugin = plugin("ValueToKey", VALUE_TO_KEY)
    purpose = "copying fields from value to key"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        version = config[FIELD_SYNTAX]
        self._paths = {name: steps_of(name, version) for name in config[FIELDS]}
        self._replace_null = config[REPLACE_NULL]

    def apply(self, records: Records, failed: Failed) -> Records:
        return records.with_keys(self.changed(records, records.values, failed))

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            return self.planned(None, None, _from_maps(self._paths))
        if not is_record(schema):
            return self.planned(schema, schema, lambda values, rows: values)
        sources = [self._source(schema, name, steps) for name, steps in self._paths.items()]
        fields = [
            Field(source.name, at, source.schema)
            for at, source in enumerate(sources)
            if source.schema is not None
        ]
        return self.planned(
            schema, Schema(Type.STRUCT, fields=tuple(fields)), _from_structs(sources)
        )

    def _source(self, schema: Schema, name: str, steps: Sequence[str]) -> FieldSource:
        above: list[tuple[str, Value]] = []
        for step in steps[:-1]:
            schema = _field(schema, step, name)
            above.append((step, schema.default))  # on the path, defaults apply in any case
        last = steps[-1]
        schema = _field(schema, last, name)
        return FieldSource(
            name, above, last, schema.default if self._replace_null else None, schema
        )


def _field(schema: Schema, step: str, name: str) -> Schema:
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot look up fields on non-struct type")
    field = schema.field(step)
    if field is None:
        raise DataError(f"Field does not exist: {name}")
    return field.schema


def _from_structs(sources: Sequence[FieldSource]) -> Change:
    def key_of(value: Value) -> Value:
        key: dict[str, Value] = {}
        for name, above, last, default, schema in sources:
            cell: Value = None
            holder = value
            for step, held in above:
                holder = held if (inner := holder.get(step)) is None else inner
                if holder is None:
                    break
            else:
                cell = default if (own := holder.get(last)) is None else own
            if cell is None and schema is not None and not schema.optional:
                raise null_in_field(name, schema)
            key[name] = cell
        return key

    return lambda values, rows: [key_of(value) for value in values]


def _from_maps(paths: dict[str, tuple[str, ...]]) -> Change:
    if all(len(steps) == 1 for steps in paths.values()):
        names = [(name, steps[0]) for name, steps in paths.items()]
        return lambda values, rows: [
            {name: value.get(step) for name, step in names} for value in values
        ]

    def found(value: Value, steps: Sequence[str]) -> Value:
        for step in steps[:-1]:
            value = value.get(step)
            if value is None:
                return None
            if not isinstance(value, dict):
                raise not_a_map(value, "nested field access")
        return value.get(steps[-1])

    def copy(values: list[Value], rows: Rows) -> list[Value]:
        return [{name: found(value, steps) for name, steps in paths.items()} for value in values]

    return copy
