"""Flatten: nested structs or maps into one (kafka-connect.md §10.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from penstock.config.declare import text
from penstock.config.define import Config, ConfigDef
from penstock.data.schema import Schema, Type, Value, java_class
from penstock.errors import DataError
from penstock.transform.java import named_fields, null_in_field
from penstock.transform.settings import plugin
from penstock.transform.side import Change, Plan, Rows, SideTransform, is_record

# fmt: off
DELIMITER: Final = text("delimiter", ".",
    "The separator between the name of a field and that of its parent.")
# fmt: on

FLATTEN: Final = ConfigDef(DELIMITER)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf field: the path to it, its new name and schema."""

    name: str
    new_name: str
    schema: Schema
    new: Schema


@dataclass(frozen=True, slots=True)
class _Branch:
    """A nested struct and its parts."""

    name: str
    parts: tuple[_Leaf | _Branch, ...]


class Flatten(SideTransform):
    """Flattens nested structs or maps; names of fields include those of their parents."""

    purpose = "flattening"
    null_stays = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._delimiter = config[DELIMITER]

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            return self.planned(None, None, self._flatten_maps())
        if not is_record(schema):
            return self.planned(schema, schema, lambda values, rows: values)
        leaves: list[_Leaf] = []
        parts = self._parts(schema, "", schema.optional, schema.default, leaves)
        new = Schema(
            Type.STRUCT,
            name=schema.name,
            version=schema.version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=named_fields([(leaf.new_name, leaf.new) for leaf in leaves]),
        )
        flatten = _flattener(parts)

        def change(values: list[Value], rows: Rows) -> list[Value]:
            flat: list[Value] = []
            for value in values:
                into: dict[str, Value] = {}
                flatten(value, into)
                flat.append(into)
            return flat

        return self.planned(schema, new, change)

    def _parts(
        self, schema: Schema, prefix: str, optional: bool, default: Value, leaves: list[_Leaf]
    ) -> tuple[_Leaf | _Branch, ...]:
        """The parts of a struct schema, in order; adds every leaf to `leaves`."""
        parts: list[_Leaf | _Branch] = []
        for field in schema.fields:
            inner = field.schema
            name = self._named(prefix, field.name)
            may_be_null = optional or inner.optional
            own = inner.default
            if own is None and default is not None:
                own = default.get(field.name)
            if inner.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support {inner.type.name} for record with "
                    f"schemas (for field {name})."
                )
            if inner.type is Type.STRUCT:
                parts.append(
                    _Branch(field.name, self._parts(inner, name, may_be_null, own, leaves))
                )
            else:
                new = replace(inner, optional=may_be_null, default=own)
                leaf = _Leaf(field.name, name, inner, new)
                leaves.append(leaf)
                parts.append(leaf)
        return tuple(parts)

    def _named(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flatten_maps(self) -> Change:
        named = self._named

        def flatten(value: dict[str, Value], prefix: str, into: dict[str, Value]) -> None:
            for key, member in value.items():
                name = named(prefix, key)
                kind = type(member)
                if kind is dict:
                    flatten(member, name, into)
                elif member is None or kind in _KNOWN:
                    if kind is int and not _LONG_MIN <= member <= _LONG_MAX:
                        raise _not_known(member)
                    into[name] = member
                else:
                    raise _not_known(member)

        def change(values: list[Value], rows: Rows) -> list[Value]:
            flat: list[Value] = []
            for value in values:
                into: dict[str, Value] = {}
                flatten(value, "", into)
                flat.append(into)
            return flat

        return change


_KNOWN: Final = frozenset((int, float, bool, str, bytes, list))
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


def _not_known(value: Value) -> DataError:
    return DataError(
        f"Flatten transformation was passed a value of type {java_class(value)} which is not "
        "supported by Connect's data API"
    )


def _flattener(
    parts: tuple[_Leaf | _Branch, ...],
) -> Callable[[dict[str, Value], dict[str, Value]], None]:
    """The function that moves a struct's fields into a flat one."""
    steps: list[tuple[str, _Leaf | None, Callable[[Value, dict[str, Value]], None] | None]] = [
        (part.name, part, None)
        if isinstance(part, _Leaf)
        else (part.name, None, _flattener(part.parts))
        for part in parts
    ]

    def flatten(value: dict[str, Value], into: dict[str, Value]) -> None:
        get = value.get
        for name, leaf, nested in steps:
            member = get(name)
            if leaf is not None:
                if member is None:
                    member = leaf.schema.default
                    if member is None and not leaf.new.optional:
                        raise null_in_field(leaf.new_name, leaf.new)
                into[leaf.new_name] = member
            elif member is not None and nested is not None:
                nested(member, into)

    return flatten


class FlattenKey(Flatten):
    """Flattens keys."""

    of_keys = True
    plugin = plugin("Flatten$Key", FLATTEN)


class FlattenValue(Flatten):
    """Flattens values."""

    plugin = plugin("Flatten$Value", FLATTEN)
