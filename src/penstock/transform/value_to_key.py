"""ValueToKey: makes the key from fields of the value (kafka-connect.md §10.10)."""

from __future__ import annotations

from typing import Final

from penstock.config.checks import entries
from penstock.config.declare import listing
from penstock.config.define import HIGH, REQUIRED, Config, ConfigDef
from penstock.data.records import Failed, Records
from penstock.data.schema import Field, Schema, Type, Value
from penstock.errors import DataError
from penstock.transform.java import null_in_field
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import Plan, Rows, SideTransform, defaults_of, is_record

# fmt: off
FIELDS: Final = listing("fields", REQUIRED,
    "The fields of the value for the key.", check=entries(may_be_empty=False, may_repeat=True),
    importance=HIGH)
# fmt: on

VALUE_TO_KEY: Final = ConfigDef(FIELDS, REPLACE_NULL)


class ValueToKey(SideTransform):
    """Replaces the key with a struct or map of fields of the value."""

    plugin = plugin("ValueToKey", VALUE_TO_KEY)
    purpose = "copying fields from value to key"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._names = tuple(dict.fromkeys(config[FIELDS]))
        self._replace_null = config[REPLACE_NULL]

    def apply(self, records: Records, failed: Failed) -> Records:
        return records.with_keys(self.changed(records, records.values, failed))

    def plan(self, schema: Schema | None) -> Plan:
        names = self._names
        if schema is None:

            def copy(values: list[Value], rows: Rows) -> list[Value]:
                return [{name: value.get(name) for name in names} for value in values]

            return self.planned(None, None, copy)
        if not is_record(schema):
            return self.planned(schema, schema, lambda values, rows: values)
        fields: list[Field] = []
        for at, name in enumerate(names):
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append(Field(name, at, field.schema))
        defaults = defaults_of(schema, replace_null=self._replace_null)

        def key_of(value: Value) -> Value:
            key: dict[str, Value] = {}
            for field in fields:
                cell = value.get(field.name)
                if cell is None:
                    cell = defaults.get(field.name)
                    if cell is None and not field.schema.optional:
                        raise null_in_field(field.name, field.schema)
                key[field.name] = cell
            return key

        new = Schema(Type.STRUCT, fields=tuple(fields))
        return self.planned(schema, new, lambda values, rows: [key_of(value) for value in values])
