"""ExtractField: replaces a struct or map with one of its fields (kafka-connect.md §10.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.config.declare import text
from penstock.config.define import REQUIRED, Config, ConfigDef
from penstock.data.schema import Schema, Type, Value
from penstock.errors import DataError
from penstock.transform.field_path import FIELD_SYNTAX, steps_of
from penstock.transform.java import IllegalArgument, not_a_map
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import Change, Plan, Rows, SideTransform, is_record

# fmt: off
FIELD: Final = text("field", REQUIRED, "The field to extract, or the path to it.")
# fmt: on

EXTRACT_FIELD: Final = ConfigDef(FIELD, REPLACE_NULL, FIELD_SYNTAX)


class ExtractField(SideTransform):
    """Replaces a struct or map with one of its fields."""

    purpose = "field extraction"
    takes_null = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._name = config[FIELD]
        self._steps = steps_of(config[FIELD], config[FIELD_SYNTAX])
        self._replace_null = config[REPLACE_NULL]

    def plan(self, schema: Schema | None) -> Plan:
        if not self._steps:
            return Plan(schema, _no_path(schema), self.refusal(schema))
        if schema is None:
            return self.planned(None, None, self._from_maps())
        if not is_record(schema):
            return Plan(schema, _refuse, self.refusal(schema))
        inner = schema
        defaults: list[Value] = []
        for step in self._steps:
            if inner.type is not Type.STRUCT:
                raise DataError("Cannot look up fields on non-struct type")
            field = inner.field(step)
            if field is None:
                raise IllegalArgument(f"Unknown field: {self._name}")
            inner = field.schema
            defaults.append(inner.default)
        if not self._replace_null:
            defaults[-1:] = [None]  # on the path, defaults apply in any case
        return self.planned(schema, inner, _from_structs(self._steps, defaults))

    def _from_maps(self) -> Change:
        *inner, last = self._steps

        def change(values: list[Value], rows: Rows) -> list[Value]:
            for step in inner:
                values = [None if value is None else value.get(step) for value in values]
                for value in values:
                    if value is not None and not isinstance(value, dict):
                        raise not_a_map(value, "nested field access")
            return [None if value is None else value.get(last) for value in values]

        return change


def _from_structs(steps: Sequence[str], defaults: Sequence[Value]) -> Change:
    def change(values: list[Value], rows: Rows) -> list[Value]:
        for step, default in zip(steps, defaults, strict=True):
            # Null has no fields, so it has no defaults of fields either.
            values = [
                None if value is None else default if (cell := value.get(step)) is None else cell
                for value in values
            ]
        return values

    return change


def _no_path(schema: Schema | None) -> Change:
    """For a path without steps: as in Java, the setting is valid, but every record fails."""

    def refuse(values: list[Value], rows: Rows) -> list[Value]:
        if values == [None]:
            if schema is None:
                return values
        elif not is_record(schema) or not isinstance(values[0], dict):
            raise TypeError
        raise IllegalArgument("fromIndex(0) > toIndex(-1)")

    return refuse


def _refuse(values: list[Value], rows: Rows) -> list[Value]:
    if values == [None]:
        raise DataError("Cannot look up fields on non-struct type")
    raise TypeError


class ExtractFieldKey(ExtractField):
    """Extracts from keys."""

    of_keys = True
    plugin = plugin("ExtractField$Key", EXTRACT_FIELD)


class ExtractFieldValue(ExtractField):
    """Extracts from values."""

    plugin = plugin("ExtractField$Value", EXTRACT_FIELD)
