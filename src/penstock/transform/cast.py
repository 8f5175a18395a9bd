"""Cast: converts values between primitive types (kafka-connect.md §10.2)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final

from penstock.config.declare import listing
from penstock.config.define import HIGH, REQUIRED, Config, ConfigDef, invalid
from penstock.data.java_dates import DateFormat
from penstock.data.logical import MS_PER_DAY, date_to_days, time_to_ms, timestamp_to_ms
from penstock.data.schema import (
    INT_BITS,
    Field,
    Schema,
    Type,
    Value,
    int_range,
    java_class,
)
from penstock.data.text import decimal_text, double_text, float_text, shortest_float32
from penstock.errors import ConfigInvalid, DataError
from penstock.transform.java import LOGICAL_DATES, class_name
from penstock.transform.numbers import READERS, is_true, narrowing, to_float32, to_float64
from penstock.transform.settings import PAIRS, REPLACE_NULL, Entries, plugin
from penstock.transform.side import Plan, Rows, SideTransform, fill, is_record

_OUTPUTS: Final = (
    *(Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64),
    *(Type.BOOLEAN, Type.STRING),
)
_INPUTS: Final = (*_OUTPUTS, Type.BYTES)
_WHOLE: Final[None] = None

CastColumn = Callable[[list[Value]], list[Value]]
CastOne = Callable[[Value], Value]


def _casts(spec: Sequence[str]) -> dict[str | None, Type]:
    """The types to cast to, by field, or by `_WHOLE` for all of the value."""
    casts: dict[str | None, Type] = {}
    for mapping in spec:
        parts = _split(mapping)
        if len(parts) > 2:
            raise ConfigInvalid(
                [invalid("renames", list_text(spec), f"Invalid rename mapping: {mapping}")]
            )
        field, name = (_WHOLE, parts[0]) if len(parts) == 1 else (parts[0].strip(_BLANK), parts[1])
        casts[field] = _type(name.strip(_BLANK))
    if _WHOLE in casts and len(spec) > 1:
        raise ConfigInvalid(
            [
                "Cast transformations that specify a type to cast the entire value to may only "
                "specify a single cast in their spec"
            ]
        )
    return casts


_BLANK: Final = "".join(map(chr, range(0x21)))


def _split(mapping: str) -> list[str]:
    """`String.split(":")`, which drops empty pieces at the end."""
    parts = mapping.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def list_text(entries: Sequence[str]) -> str:
    """A list as Java prints it."""
    return f"[{', '.join(entries)}]"


def _type(name: str) -> Type:
    try:
        type = Type(name.upper())
    except ValueError:
        cause = (
            "java.lang.IllegalArgumentException: No enum constant "
            f"org.apache.kafka.connect.data.Schema.Type.{name.upper()}"
        )
        # Kafka Connect's message has the cause in place of the value, and the text as the name.
        raise ConfigInvalid(
            [f"Invalid value {cause} for configuration Invalid type found in casting spec: {name}"]
        ) from None
    if type not in _OUTPUTS:
        raise ConfigInvalid([_unsupported("to", type, _OUTPUTS)])
    return type


def _unsupported(direction: str, type: Type, supported: Sequence[Type]) -> str:
    return (
        f"Cast transformation does not support casting {direction} {type.name}; "
        f"supported types are {list_text([kind.name for kind in supported])}"
    )


def _bad_spec(spec: Sequence[str] | None) -> str | None:
    if not spec:
        return "Must specify at least one field to cast."
    try:
        _casts(spec)
    except ConfigInvalid as error:
        return error.problems[0]
    return None


# fmt: off
SPEC: Final = listing("spec", REQUIRED,
    "Pairs of a field and a type (`id:int64,price:float64`), or a single type for the whole key "
    "or value. Types are int8, int16, int32, int64, float32, float64, boolean and string; bytes "
    "can be cast to string only, as base64.", check=Entries(PAIRS, _bad_spec), importance=HIGH)
# fmt: on

CAST: Final = ConfigDef(SPEC, REPLACE_NULL)


# Values


def _same(value: Value) -> Value:
    return value


def _bool_to_int(value: Value) -> int:
    return int(value)


def _bool_to_float(value: Value) -> float:
    return float(value)


def _bool_text(value: Value) -> str:
    return "true" if value else "false"


def _read_bool(value: Value) -> bool:
    return bool(value.lower() == "true")


def _base64(value: Value) -> str:
    return b64encode(value).decode()


_DATE: Final = DateFormat("yyyy-MM-dd")
_TIME: Final = DateFormat("HH:mm:ss.SSS'Z'")
_TIMESTAMP: Final = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def _moment_text(ms: int) -> str:
    """The text of a moment, with the pattern that Connect's `Values` chooses by its size."""
    if ms < MS_PER_DAY:
        return _TIME.format(ms)
    return (_DATE if ms % MS_PER_DAY == 0 else _TIMESTAMP).format(ms)


_CASTS_TO_TEXT: Final[Mapping[type, CastOne]] = {
    str: _same,
    bool: _bool_text,
    int: str,
    float: double_text,
    bytes: _base64,
    Decimal: decimal_text,
    datetime: lambda value: _moment_text(timestamp_to_ms(value)),
    date: lambda value: _moment_text(date_to_days(value) * MS_PER_DAY),
    time: lambda value: _moment_text(time_to_ms(value)),
}


def _reader(target: Type) -> CastOne:
    read = READERS[target]

    def cast(value: Value) -> Value:
        try:
            return read(value)
        except DataError as cause:
            raise DataError(f"Value ({value}) was out of range for requested data type") from cause

    return cast


def _casts_to(target: Type) -> Mapping[type, CastOne]:
    """The casts to a type, by Python class."""
    if target is Type.STRING:
        return _CASTS_TO_TEXT
    if target is Type.BOOLEAN:
        numbers: CastOne = is_true
        return {str: _read_bool, bool: _same, **dict.fromkeys((int, float, Decimal), numbers)}
    if target in INT_BITS:
        narrow = narrowing(target)
        return {
            str: _reader(target),
            bool: _bool_to_int,
            int: narrow,
            float: narrow,
            Decimal: narrow,
        }
    convert = to_float32 if target is Type.FLOAT32 else to_float64
    floats = convert if target is Type.FLOAT32 else _same
    return {
        str: _reader(target),
        bool: _bool_to_float,
        int: convert,
        float: floats,
        Decimal: convert,
    }


_NO_TYPE: Final = (Decimal, date, datetime, time)


def _schemaless_casts(target: Type) -> dict[type, CastOne]:
    """The same for values without a schema."""
    casts = {kind: cast for kind, cast in _casts_to(target).items() if kind not in _NO_TYPE}
    if target is Type.FLOAT32:
        # Without a schema, it must still print as a 32-bit float.
        casts = {
            kind: (lambda value, cast=cast: shortest_float32(cast(value)))  # type: ignore[misc]
            for kind, cast in casts.items()
        }
    return casts


def _refuse_schemaless(value: Value) -> Value:
    if isinstance(value, list | dict):
        kind = Type.MAP if isinstance(value, dict) else Type.ARRAY
        raise DataError(_unsupported("from", kind, _INPUTS))
    if isinstance(value, bytes):
        raise _unexpected(class_name(None, value))
    raise _not_connect(value)


def _not_connect(value: Value) -> DataError:
    return DataError(
        f"Cast transformation was passed a value of type {java_class(value)} which is not "
        "supported by Connect's data API"
    )


def _unexpected(name: str) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: class {name}")


def _by_class(casts: Mapping[type, CastOne], refuse: CastOne) -> CastColumn:
    """Casts columns by the classes of their values; fast for columns of one class."""
    known = {**casts, type(None): _same}

    def cast(values: list[Value]) -> list[Value]:
        kinds = set(map(type, values))
        if len(kinds) == 1:
            one = known.get(next(iter(kinds)), refuse)
            return values if one is _same else list(map(one, values))
        return [known.get(type(value), refuse)(value) for value in values]

    return cast


_INT: Final = {int}
_FLOAT: Final = {float}


def _in_range(cast: CastColumn, target: Type) -> CastColumn:
    """The same, faster for numbers that are in range."""
    low, high = int_range(target)

    def cast_ints(values: list[Value]) -> list[Value]:
        kinds = set(map(type, values))
        if kinds == _INT and low <= min(values) and max(values) <= high:
            return values
        if kinds == _FLOAT:
            total = sum(values)  # is NaN if one of them is
            if total == total and low <= min(values) and max(values) <= high:
                return list(map(int, values))
        return cast(values)

    return cast_ints


def schemaless_cast(target: Type) -> CastColumn:
    """Casts columns of values without a schema."""
    casts = _schemaless_casts(target)
    low, high = int_range(Type.INT64)
    cast_long = casts[int]

    def cast_int(value: Value) -> Value:
        if low <= value <= high:
            return cast_long(value)
        raise _not_connect(value)

    casts[int] = cast_int
    cast = _by_class(casts, _refuse_schemaless)
    return _in_range(cast, target) if target in INT_BITS else cast


def schema_cast(schema: Schema, target: Type) -> CastColumn:
    """Casts columns of values of a schema."""
    if schema.type not in _INPUTS:
        message = _unsupported("from", schema.type, _INPUTS)

        def refuse_all(values: list[Value]) -> list[Value]:
            if any(value is not None for value in values):
                raise DataError(message)
            return values

        return refuse_all
    casts = dict(_casts_to(target))
    if schema.type is Type.FLOAT32:
        if target is Type.STRING:
            casts[float] = float_text
        elif target is Type.FLOAT32:
            casts[float] = _same
    if target is not Type.STRING and schema.logical in LOGICAL_DATES:
        number = casts[int]
        casts[date] = lambda value: number(date_to_days(value))
        casts[time] = lambda value: number(time_to_ms(value))
        casts[datetime] = lambda value: number(timestamp_to_ms(value))

    def refuse(value: Value) -> Value:
        raise _unexpected(class_name(schema, value))

    cast = _by_class(casts, refuse)
    return _in_range(cast, target) if target in INT_BITS else cast


class Cast(SideTransform):
    """Casts fields, or all of the key or value, to another primitive type."""

    purpose = "cast types"
    null_stays = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        casts = _casts(config[SPEC])
        self._whole = casts.pop(_WHOLE, None)
        self._fields = {name: target for name, target in casts.items() if name is not None}
        self._replace_null = config[REPLACE_NULL]

    def plan(self, schema: Schema | None) -> Plan:
        if self._whole is not None:
            return self._whole_plan(self._whole, schema)
        if schema is None:
            schemaless = {name: schemaless_cast(to) for name, to in self._fields.items()}
            return self.planned(None, None, _change_fields(schemaless, lambda values: values))
        new = self._new_schema(schema)
        if not is_record(schema):
            return self.planned(schema, new, _change_fields({}, lambda values: values))
        casts = {
            field.name: schema_cast(field.schema, self._fields[field.name])
            for field in schema.fields
            if field.name in self._fields
        }
        return self.planned(
            schema,
            new,
            _change_fields(casts, fill(schema, new, replace_null=self._replace_null)),
        )

    def _whole_plan(self, target: Type, schema: Schema | None) -> Plan:
        if schema is None:
            cast, new = schemaless_cast(target), None
        else:
            cast = schema_cast(schema, target)
            new = self._finished(
                schema,
                Schema(
                    target,
                    name=schema.name,
                    version=schema.version,
                    doc=schema.doc,
                    parameters=schema.parameters,
                ),
            )
        return Plan(new, lambda values, rows: cast(values), self.refusal(schema))

    def _new_schema(self, schema: Schema) -> Schema:
        if schema.type is not Type.STRUCT:
            # Kafka Connect checks the fields before the value.
            raise DataError("Cannot list fields on non-struct type")
        fields = []
        for field in schema.fields:
            target, inner = self._fields.get(field.name), field.schema
            if target is not None:
                default = inner.default
                if default is not None:
                    default = schema_cast(inner, target)([default])[0]
                inner = Schema(target, optional=inner.optional, default=default)
            fields.append(Field(field.name, field.index, inner))
        new = Schema(
            Type.STRUCT,
            name=schema.name,
            version=schema.version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=tuple(fields),
        )
        return self._finished(schema, new)

    def _finished(self, old: Schema, new: Schema) -> Schema:
        default = old.default
        if default is not None:
            default = schema_cast(old, new.type)([default])[0]
        return replace(new, optional=old.optional, default=default)


def _change_fields(
    casts: Mapping[str, CastColumn], prepared: CastColumn
) -> Callable[[list[Value], Rows], list[Value]]:
    def change(values: list[Value], rows: Rows) -> list[Value]:
        copies = [value.copy() for value in prepared(values)]
        for name, cast in casts.items():
            cells = cast([value.get(name) for value in copies])
            for copy, cell in zip(copies, cells, strict=True):
                copy[name] = cell
        return copies

    return change


class CastKey(Cast):
    """Casts keys."""

    of_keys = True
    plugin = plugin("Cast$Key", CAST)


class CastValue(Cast):
    """Casts values."""

    plugin = plugin("Cast$Value", CAST)
