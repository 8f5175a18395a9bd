"""TimestampConverter: converts formats of timestamps (kafka-connect.md §10.9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Final

from penstock.config.declare import choice, text
from penstock.config.define import HIGH, LOW, REQUIRED, Config, ConfigDef
from penstock.data.java_dates import DateFormat, PatternInvalid, Unparseable
from penstock.data.logical import (
    MS_PER_DAY,
    date_to_days,
    days_to_date,
    ms_to_time,
    time_to_ms,
    timestamp_to_ms,
)
from penstock.data.records import Column, Records
from penstock.data.schema import (
    DATE,
    INT64,
    TIME,
    TIMESTAMP,
    Field,
    Logical,
    Schema,
    Type,
    Value,
    java_class,
)
from penstock.data.schema import (
    STRING as TEXT,
)
from penstock.errors import ConfigInvalid, DataError
from penstock.transform.java import ConnectError, NullPointer, schema_text
from penstock.transform.moments import to_moments, to_ms
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import Change, Plan, Rows, SideTransform, fill, is_record


class Form(Enum):
    """A form of time; the value is that of `target.type`."""

    TEXT = "string"
    UNIX = "unix"
    DATE = "Date"
    TIME = "Time"
    TIMESTAMP = "Timestamp"


_SCHEMAS: Final = {
    Form.TEXT: TEXT,
    Form.UNIX: INT64,
    Form.DATE: DATE,
    Form.TIME: TIME,
    Form.TIMESTAMP: TIMESTAMP,
}

# fmt: off
FIELD: Final = text("field", "",
    "The field to convert; empty: the whole key or value.", importance=HIGH)
TARGET_TYPE: Final = choice("target.type", REQUIRED, tuple(form.value for form in Form),
    "The target type: string, unix (a number since the epoch), Date, Time or Timestamp.",
    importance=HIGH)
FORMAT: Final = text("format", "",
    "The pattern of string timestamps for Java's SimpleDateFormat. Required if strings are read "
    "or written.")
PRECISION: Final = choice(
    "unix.precision", "milliseconds", ("nanoseconds", "microseconds", "milliseconds", "seconds"),
    "The unit of Unix timestamps: seconds, milliseconds, microseconds or nanoseconds. A coarser "
    "unit truncates.", importance=LOW)
# fmt: on

TIMESTAMP_CONVERTER: Final = ConfigDef(FIELD, TARGET_TYPE, FORMAT, PRECISION, REPLACE_NULL)

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_PER_MS: Final = {"milliseconds": 1, "microseconds": 1000, "nanoseconds": 1_000_000}
_MS_PER_SECOND: Final = 1000

Convert = Callable[[list[Value]], list[Value]]


def _scale(value: int, factor: int) -> int:
    """To a finer unit as `java.util.concurrent.TimeUnit` does: limited to the range of a long."""
    return max(_LONG_MIN, min(value * factor, _LONG_MAX))


def _cut(value: int, divisor: int) -> int:
    """To a coarser unit as `TimeUnit` does: rounded towards zero."""
    return value // divisor if value >= 0 else -(-value // divisor)


@dataclass(frozen=True, slots=True)
class _Conversion:
    """Converts lists, without nulls, from one form to another."""

    format: DateFormat | None
    precision: str

    def column(self, source: Form, target: Form) -> Convert:
        """The function from one form to another, in the fewest steps. It raises DataError for
        values of another form, and times that Python cannot represent."""
        match source, target:
            case Form.TEXT, Form.TIMESTAMP:
                return self._text_to_moments
            case Form.TEXT, Form.DATE:
                return lambda texts: [moment.date() for moment in self._text_to_moments(texts)]
            case Form.TIMESTAMP, Form.TEXT:
                return lambda moments: list(map(self._pattern.format_moment, moments))
        to_ms, from_ms = self._to_ms(source), self._from_ms(target)
        return lambda values: from_ms(to_ms(values))

    def schemaless_column(self, source: Form, target: Form) -> Convert:
        """The same without a schema: Java has one class for all moments, here a datetime."""
        if target not in (Form.DATE, Form.TIME):
            return self.column(source, target)
        to_ms = self._to_ms(source)
        if target is Form.DATE:
            return lambda values: list(to_moments([ms - ms % MS_PER_DAY for ms in to_ms(values)]))
        return lambda values: list(to_moments([ms % MS_PER_DAY for ms in to_ms(values)]))

    def _to_ms(self, form: Form) -> Convert:
        match form:
            case Form.TEXT:
                return self._text_to_ms
            case Form.UNIX:
                return self._unix_to_ms
            case Form.DATE:
                return lambda days: [date_to_days(day) * MS_PER_DAY for day in days]
            case Form.TIME:
                return lambda times: list(map(time_to_ms, times))
            case Form.TIMESTAMP:
                return to_ms

    def _from_ms(self, form: Form) -> Convert:
        match form:
            case Form.TEXT:
                return lambda ms: list(map(self._pattern.format_known, ms))
            case Form.UNIX:
                return self._ms_to_unix
            case Form.DATE:
                return lambda ms: [days_to_date(value // MS_PER_DAY) for value in ms]
            case Form.TIME:
                return lambda ms: [ms_to_time(value % MS_PER_DAY) for value in ms]
            case Form.TIMESTAMP:
                return to_moments

    @property
    def _pattern(self) -> DateFormat:
        if self.format is None:
            # Kafka Connect does not check it; this is the JVM's message.
            raise NullPointer(
                'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" '
                "is null"
            )
        return self.format

    def _text_to_moments(self, texts: list[Value]) -> list[Value]:
        pattern = self._pattern
        try:
            return list(map(pattern.parse_moment, texts))
        except Unparseable as cause:
            raise DataError(
                f"Could not parse timestamp: value ({cause}) does not match pattern "
                f"({pattern.pattern})"
            ) from cause

    def _text_to_ms(self, texts: list[Value]) -> list[Value]:
        try:
            return to_ms(self._text_to_moments(texts))
        except DataError:
            if len(texts) > 1:
                raise
        # The time may be outside of Python's range.
        try:
            return [self._pattern.parse(texts[0])]
        except Unparseable:
            return self._text_to_moments(texts)

    def _unix_to_ms(self, values: list[Value]) -> list[Value]:
        if self.precision == "milliseconds":
            return values
        if self.precision == "seconds":
            return [_scale(value, _MS_PER_SECOND) for value in values]
        return [_cut(value, _PER_MS[self.precision]) for value in values]

    def _ms_to_unix(self, ms: list[Value]) -> list[Value]:
        if self.precision == "milliseconds":
            return ms
        if self.precision == "seconds":
            return [_cut(value, _MS_PER_SECOND) for value in ms]
        return [_scale(value, _PER_MS[self.precision]) for value in ms]


NO_FORMAT: Final = (
    "TimestampConverter requires format option to be specified when using string timestamps"
)


class TimestampConverter(SideTransform):
    """Converts timestamps between strings, numbers and the types Date, Time and Timestamp."""

    purpose = "converting timestamp formats"
    takes_null = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._name = config[FIELD]
        self._target = Form(config[TARGET_TYPE])
        self._replace_null = config[REPLACE_NULL]
        pattern = config[FORMAT]
        if self._target is Form.TEXT and not pattern.strip():
            raise ConfigInvalid([NO_FORMAT])
        self._conversion = _Conversion(
            _date_format(pattern) if pattern.strip() else None, config[PRECISION]
        )

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            return self._schemaless_plan()
        target = _SCHEMAS[self._target]
        if not self._name:
            new = target.as_optional() if schema.optional else target
            convert = self._column(_form_of(schema))
            return Plan(new, lambda values, rows: convert(values), self.refusal(schema))
        if not is_record(schema):
            return Plan(schema, _refuse_struct, self.refusal(schema))
        new, field = self._struct_schema(schema), schema.field(self._name)
        to_target = None if field is None else self._column(_form_of(field.schema))
        prepared = fill(schema, new, replace_null=self._replace_null)
        change = _change_field(self._name, to_target, prepared)
        if schema.default is not None:
            new = replace(new, default=change([schema.default], _NOWHERE)[0])
        return self.planned(schema, new, change)

    def _struct_schema(self, schema: Schema) -> Schema:
        target = _SCHEMAS[self._target]
        fields = tuple(
            Field(
                field.name,
                field.index,
                (target.as_optional() if field.schema.optional else target)
                if field.name == self._name
                else field.schema,
            )
            for field in schema.fields
        )
        return Schema(
            Type.STRUCT,
            optional=schema.optional,
            name=schema.name,
            version=schema.version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=fields,
        )

    def _column(self, source: Form) -> Convert:
        convert = self._conversion.column(source, self._target)

        def convert_all(values: list[Value]) -> list[Value]:
            if None not in values:
                return convert(values)
            converted = iter(convert([value for value in values if value is not None]))
            return [None if value is None else next(converted) for value in values]

        return convert_all

    def _schemaless_plan(self) -> Plan:
        columns = {
            kind: self._conversion.schemaless_column(form, self._target)
            for kind, form in _FORMS.items()
        }
        columns[type(None)] = _same

        def convert(values: list[Value]) -> list[Value]:
            kinds = set(map(type, values))
            if len(kinds) == 1:
                return columns.get(kinds.pop(), _refuse)(values)
            return [columns.get(type(value), _refuse)([value])[0] for value in values]

        if self._name:
            return self.planned(None, None, _change_field(self._name, convert, _same))
        return Plan(None, lambda values, rows: convert(values), self.refusal(None))


_NOWHERE: Final = Rows(Records([], [], [], Column([], []), Column([], [])), ())


def _same(values: list[Value]) -> list[Value]:
    return values


_FORMS: Final[Mapping[type, Form]] = {
    datetime: Form.TIMESTAMP,
    date: Form.DATE,
    time: Form.TIME,
    int: Form.UNIX,
    str: Form.TEXT,
}


def _refuse(values: list[Value]) -> list[Value]:
    raise DataError(
        f"TimestampConverter does not support {java_class(values[0])} objects as timestamps"
    )


def _form_of(schema: Schema) -> Form:
    """The form of time of a schema's values."""
    match schema.logical, schema.type:
        case Logical.TIMESTAMP, _:
            return Form.TIMESTAMP
        case Logical.DATE, _:
            return Form.DATE
        case Logical.TIME, _:
            return Form.TIME
        case _, Type.STRING:
            return Form.TEXT
        case _, Type.INT64:
            return Form.UNIX
    raise ConnectError(
        f"Schema {schema_text(schema)} does not correspond to a known timestamp type format"
    )


def _date_format(pattern: str) -> DateFormat:
    try:
        known = DateFormat(pattern)
    except PatternInvalid as cause:
        # Kafka Connect's message has the cause in place of the value, and the text as the name.
        raise ConfigInvalid(
            [
                f"Invalid value java.lang.IllegalArgumentException: {cause} for configuration "
                "TimestampConverter requires a SimpleDateFormat-compatible pattern for string "
                f"timestamps: {pattern}"
            ]
        ) from cause
    if not known.reads_short_years:
        return known
    # As in Java, only the century of years with two digits depends on the current date.
    return DateFormat(pattern, timestamp_to_ms(datetime.now(UTC)))


def _change_field(name: str, convert: Convert | None, prepared: Convert) -> Change:
    def change(values: list[Value], rows: Rows) -> list[Value]:
        if None in values:
            return [None if value is None else change([value], rows)[0] for value in values]
        copies = [value.copy() for value in prepared(values)]
        if convert is not None:
            cells = convert([value.get(name) for value in copies])
            for copy, cell in zip(copies, cells, strict=True):
                copy[name] = cell
        return copies

    return change


def _refuse_struct(values: list[Value], rows: Rows) -> list[Value]:
    if values == [None]:
        raise DataError("Cannot list fields on non-struct type")
    raise TypeError


class TimestampConverterKey(TimestampConverter):
    """Converts timestamps in keys."""

    of_keys = True
    plugin = plugin("TimestampConverter$Key", TIMESTAMP_CONVERTER)


class TimestampConverterValue(TimestampConverter):
    """Converts timestamps in values."""

    plugin = plugin("TimestampConverter$Value", TIMESTAMP_CONVERTER)
