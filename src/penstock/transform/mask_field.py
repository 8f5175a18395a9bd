"""MaskField: masks fields (kafka-connect.md §10.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final

from penstock.config.checks import entries, non_empty
from penstock.config.declare import listing, text
from penstock.config.define import HIGH, LOW, REQUIRED, Config, ConfigDef
from penstock.data.logical import EPOCH
from penstock.data.schema import (
    INT_BITS,
    Logical,
    Schema,
    Type,
    Value,
    float32,
    java_class,
    wrap_int,
)
from penstock.errors import DataError
from penstock.transform.java import class_name
from penstock.transform.numbers import decimal_to_int, read_decimal, to_float64
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import (
    ChangeMembers,
    Members,
    Plan,
    Rows,
    SideTransform,
    fill,
    is_record,
)

# fmt: off
FIELDS: Final = listing("fields", REQUIRED,
    "The fields to mask.", check=entries(may_be_empty=False, may_repeat=True), importance=HIGH)
REPLACEMENT: Final = text("replacement", None,
    "The replacement for numbers and strings; unset, every field gets the empty value of its "
    "type: 0, false, an empty string, list or map.", check=non_empty(), importance=LOW)
# fmt: on

MASK_FIELD: Final = ConfigDef(FIELDS, REPLACEMENT, REPLACE_NULL)

MaskOne = Callable[[Value], Value]
MaskColumn = Callable[[list[Value]], list[Value]]

_EMPTY: Final[Mapping[type, Value]] = {
    bool: False,
    int: 0,
    float: 0.0,
    str: "",
    Decimal: Decimal(0),
    datetime: EPOCH,
    date: date(1970, 1, 1),
    time: time(0),
    list: [],
    dict: {},
}


def _by_class(masks: Mapping[type, Value], refuse: MaskOne) -> MaskColumn:
    """Masks columns by the classes of their values; a mask is one value for all."""
    known = {**masks, type(None): None}

    def mask(values: list[Value]) -> list[Value]:
        kinds = set(map(type, values))
        if not kinds <= known.keys():
            # The first invalid value raises its error.
            return [known[type(v)] if type(v) in known else refuse(v) for v in values]
        if len(kinds) == 1:
            return [known[kinds.pop()]] * len(values)
        return [known[type(value)] for value in values]

    return mask


def _number(text: str, type: Type) -> Value | DataError:
    """A text as a number of a type, via a decimal (as in `Values.convertToLong` and so on), or the
    error."""
    try:
        exact = read_decimal(text)
    except DataError:
        return DataError(f"Unable to convert {text} (class java.lang.String) to a number")
    if type in INT_BITS:
        return wrap_int(decimal_to_int(exact), type)
    return float32(to_float64(exact)) if type is Type.FLOAT32 else to_float64(exact)


def _decimal(text: str) -> Decimal | DataError:
    try:
        return read_decimal(text)
    except DataError:
        return DataError(f"Unable to convert {text} (class java.lang.String) to number")


class MaskField(SideTransform):
    """Replaces fields with the empty value of their type, or with a given string or number."""

    purpose = "mask fields"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._names = config[FIELDS]
        self._replacement = config[REPLACEMENT]
        self._replace_null = config[REPLACE_NULL]
        self.keeps_fields = True

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            mask = self._schemaless_mask()
            masks = [(name, mask) for name in self._names]
            change = _change(masks, lambda values: values)
            return self.planned(None, None, change, _of_members(masks))
        if not is_record(schema):
            return self.planned(schema, schema, lambda values, rows: values)
        masks = [
            (field.name, self._schema_mask(field.schema))
            for field in schema.fields
            if field.name in self._names
        ]
        prepared = fill(schema, schema, replace_null=self._replace_null)
        return self.planned(schema, schema, _change(masks, prepared), _of_members(masks))

    def _schemaless_mask(self) -> MaskColumn:
        if self._replacement is None:
            return _by_class(_EMPTY, lambda value: _refuse(java_class(value)))
        masks: dict[type, Value] = {str: self._replacement}
        refused: dict[type, DataError] = {}
        for kind, mask in (
            (int, _number(self._replacement, Type.INT64)),
            (float, _number(self._replacement, Type.FLOAT64)),
            (Decimal, _decimal(self._replacement)),
        ):
            if isinstance(mask, DataError):
                refused[kind] = mask
            else:
                masks[kind] = mask
        return _by_class(masks, lambda value: _refuse_custom(value, java_class(value), refused))

    def _schema_mask(self, schema: Schema) -> MaskColumn:
        """The mask of a field's values; its schema determines their class."""

        def refuse(value: Value) -> Value:
            return _refuse(f"class {class_name(schema, value)}")

        if self._replacement is None:
            if schema.type is Type.STRUCT:
                return _by_class({}, refuse)
            return _by_class(_EMPTY, refuse)
        masks: dict[type, Value] = {}
        refused: dict[type, DataError] = {}
        kind = Decimal if schema.logical is Logical.DECIMAL else _KINDS.get(schema.type)
        if schema.type is Type.STRING:
            masks[str] = self._replacement
        elif kind is not None:
            mask = (
                _decimal(self._replacement)
                if kind is Decimal
                else _number(self._replacement, schema.type)
            )
            if isinstance(mask, DataError):
                refused[kind] = mask
            else:
                masks[kind] = mask
        return _by_class(
            masks,
            lambda value: _refuse_custom(value, f"class {class_name(schema, value)}", refused),
        )


_KINDS: Final[Mapping[Type, type]] = {
    **dict.fromkeys(INT_BITS, int),
    Type.FLOAT32: float,
    Type.FLOAT64: float,
}


def _refuse(java: str) -> Value:
    raise DataError(f"Cannot mask value of type: {java}")


def _refuse_custom(value: Value, java: str, refused: Mapping[type, DataError]) -> Value:
    if (error := refused.get(type(value))) is not None:
        raise error
    raise DataError(f"Cannot mask value of type {java} with custom replacement.")


def _change(
    masks: list[tuple[str, MaskColumn]], prepared: MaskColumn
) -> Callable[[list[Value], Rows], list[Value]]:
    def change(values: list[Value], rows: Rows) -> list[Value]:
        copies = [value.copy() for value in prepared(values)]
        for name, mask in masks:
            cells = mask([value.get(name) for value in copies])
            for copy, cell in zip(copies, cells, strict=True):
                copy[name] = cell
        return copies

    return change


def _of_members(masks: list[tuple[str, MaskColumn]]) -> ChangeMembers:
    """The same for `Fields`, whose members have values of one class each."""

    def change(members: Members) -> Members:
        for name, mask in masks:
            (members[name],) = mask(members[name][:1].to_pylist())
        return members

    return change


class MaskFieldKey(MaskField):
    """Masks fields of keys."""

    of_keys = True
    plugin = plugin("MaskField$Key", MASK_FIELD)


class MaskFieldValue(MaskField):
    """Masks fields of values."""

    plugin = plugin("MaskField$Value", MASK_FIELD)
