"""HoistField: wraps the key or value in a struct or map (kafka-connect.md §10.10)."""

from __future__ import annotations

from typing import Final

from penstock.config.declare import text
from penstock.config.define import REQUIRED, Config, ConfigDef
from penstock.data.schema import Schema, Type, Value
from penstock.transform.java import named_fields, null_in_field
from penstock.transform.settings import plugin
from penstock.transform.side import Plan, Rows, SideTransform

# fmt: off
FIELD: Final = text("field", REQUIRED, "The name of the single field of the new struct or map.")
# fmt: on

HOIST_FIELD: Final = ConfigDef(FIELD)


class HoistField(SideTransform):
    """Wraps a key or value in a struct, or in a map if it has no schema."""

    purpose = "field hoisting"
    takes_null = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._name = config[FIELD]

    def plan(self, schema: Schema | None) -> Plan:
        name = self._name

        def change(values: list[Value], rows: Rows) -> list[Value]:
            if strict and None in values:
                raise null_in_field(name, strict)
            return [{name: value} for value in values]

        strict = schema if schema is not None and not schema.optional else None
        new = None
        if schema is not None:
            new = Schema(Type.STRUCT, fields=named_fields([(name, schema)]))
        return Plan(new, change, self.refusal(schema))


class HoistFieldKey(HoistField):
    """Wraps keys."""

    of_keys = True
    plugin = plugin("HoistField$Key", HOIST_FIELD)


class HoistFieldValue(HoistField):
    """Wraps values."""

    plugin = plugin("HoistField$Value", HOIST_FIELD)
