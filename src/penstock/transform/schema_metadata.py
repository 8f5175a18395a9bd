"""SetSchemaMetadata: the name and version of a schema (kafka-connect.md §10.10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.config.declare import number, text
from penstock.config.define import HIGH, Config, ConfigDef
from penstock.data.schema import Schema, Type, Value
from penstock.errors import ConfigInvalid, DataError
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import Plan, Rows, SideTransform, fill, is_record

# fmt: off
SCHEMA_NAME: Final = text("schema.name", None,
    "The new name of the schema; unset: unchanged.", importance=HIGH)
SCHEMA_VERSION: Final = number("schema.version", None,
    "The new version of the schema; unset: unchanged.", importance=HIGH)
# fmt: on

SET_SCHEMA_METADATA: Final = ConfigDef(SCHEMA_NAME, SCHEMA_VERSION, REPLACE_NULL)


class SetSchemaMetadata(SideTransform):
    """Sets the name or version of a schema, or both."""

    purpose = "updating schema metadata"
    takes_null = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._name, self._version = config[SCHEMA_NAME], config[SCHEMA_VERSION]
        self._replace_null = config[REPLACE_NULL]
        if self._name is None and self._version is None:
            raise ConfigInvalid(["Neither schema name nor version configured"])

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            return Plan(
                None,
                _only_null,
                lambda value: DataError("Schema required for [updating schema metadata]"),
            )
        if schema.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        new = replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )
        if not is_record(schema):
            return Plan(new, lambda values, rows: values, self.refusal(schema))
        prepared = fill(schema, new, replace_null=self._replace_null)

        def change(values: list[Value], rows: Rows) -> list[Value]:
            if None not in values:
                return prepared(values)
            return [None if value is None else prepared([value])[0] for value in values]

        return self.planned(schema, new, change)


def _only_null(values: list[Value], rows: Rows) -> list[Value]:
    if all(value is None for value in values):
        return values
    raise TypeError


class SetSchemaMetadataKey(SetSchemaMetadata):
    """Sets the name and version of the key's schema."""

    of_keys = True
    plugin = plugin("SetSchemaMetadata$Key", SET_SCHEMA_METADATA)


class SetSchemaMetadataValue(SetSchemaMetadata):
    """Sets the name and version of the value's schema."""

    plugin = plugin("SetSchemaMetadata$Value", SET_SCHEMA_METADATA)
