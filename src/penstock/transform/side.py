"""Transforms of one side of a record, its key or its value.

The change is planned once per schema and applied to whole lists. A list that fails is halved until
the failing records are found, so that the others cost little more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from penstock.api.transform import Transform
from penstock.config.define import Config
from penstock.data.columns import Fields
from penstock.data.records import Column, Failed, Records, Run
from penstock.data.schema import Field, Schema, Type, Value
from penstock.errors import DataError, PenstockError
from penstock.transform.java import not_a_map, not_a_struct, null_in_field

_MOST_PLANS: Final = 1024


class Rows(NamedTuple):
    """The place of values: `places` are their rows in `records`."""

    records: Records
    places: Sequence[int]


Change = Callable[[list[Value], Rows], list[Value]]
"""Changes a list of values, one by one. Raises DataError if one cannot be changed, and any other
exception for a value of the wrong kind."""

Members = dict[str, Any]
"""The members of `Fields` by name: an array each, or one value for all rows."""

ChangeMembers = Callable[[Members], Members]
"""A Change for `Fields` without nulls. Raises if some values cannot be changed."""

Refusal = Callable[[Value], DataError]
"""The error for a value of the wrong kind."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The change of values of one schema.

    `refusal` makes the error for a value of the wrong kind. `members` is set if `Fields` can be
    changed without their values.
    """

    schema: Schema | None
    change: Change
    refusal: Refusal
    members: ChangeMembers | None = None


class SideTransform(Transform):
    """A transform of keys or of values, which differ only in the class attribute `of_keys`.

    `purpose` is its name in messages. With `null_stays`, a null key or value stays, with its
    schema; otherwise the plan changes null, and its function accepts it if `takes_null`.
    """

    of_keys: ClassVar[bool] = False
    purpose: ClassVar[str]
    null_stays: ClassVar[bool] = False
    takes_null: ClassVar[bool] = False

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.keeps_fields = self.of_keys
        self._plans: dict[Schema | None, Plan] = {}

    @abstractmethod
    def plan(self, schema: Schema | None) -> Plan:
        """The plan for values of this schema. Raises DataError if there is none."""

    def apply(self, records: Records, failed: Failed) -> Records:
        if self.of_keys:
            return records.with_keys(self.changed(records, records.keys, failed))
        return records.with_values(self.changed(records, records.values, failed))

    def changed(self, records: Records, column: Column, failed: Failed) -> Column:
        """The column with every run changed as planned."""
        if isinstance(column, Fields):
            fields = self._changed_fields(column)
            if fields is not None:
                return fields
        values: list[Value] = []
        runs: list[Run] = []
        for schema, start, stop in column.slices():
            part = column.values if stop - start == len(column) else column.values[start:stop]
            plan = self.plan_of(schema)
            rows = Rows(records, range(start, stop))
            if self.null_stays and _some_null(part):
                changed, more = _changed_but_nulls(plan, schema, part, rows, failed)
                values += changed
                runs += more
            else:
                values += done(plan, part, rows, failed)
                runs.append(Run(stop, plan.schema))
        return Column(values, runs)

    def _changed_fields(self, column: Fields) -> Fields | None:
        """None if the values are needed, for the change or for an error."""
        plan = self.plan_of(column.schema)
        if plan.members is None or any(member.null_count for member in column.members.values()):
            return None
        try:
            return column.changed(plan.schema, plan.members(dict(column.members)))
        except Exception:
            return None

    def plan_of(self, schema: Schema | None) -> Plan:
        """The plan for a schema, cached."""
        plan = self._plans.get(schema)
        if plan is None:
            try:
                plan = self.plan(schema)
            except DataError as error:
                plan = Plan(schema, self._refusing(error), self.refusal(schema))
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[schema] = plan
        return plan

    def _refusing(self, error: DataError) -> Change:
        """For a schema that cannot be changed: raises the error for every value to change."""

        def refuse(values: list[Value], rows: Rows) -> list[Value]:
            if values == [None] and not self.takes_null:
                raise TypeError
            raise error.with_traceback(None)

        return refuse

    def refusal(self, schema: Schema | None) -> Refusal:
        """The error for values that are not a map, or a struct, with `purpose`."""
        if not is_record(schema):
            return lambda value: not_a_struct(schema, value, self.purpose)

        def refuse(value: Value) -> DataError:
            if isinstance(value, dict):  # the right kind: the fault is inside it, or in our code
                return DataError(f"This cannot be done with the record [{self.purpose}]")
            if schema is None:
                return not_a_map(value, self.purpose)
            return not_a_struct(schema, value, self.purpose)

        return refuse

    def planned(
        self,
        old: Schema | None,
        new: Schema | None,
        change: Change,
        members: ChangeMembers | None = None,
    ) -> Plan:
        """The plan for maps or structs; any other value is refused."""
        if not is_record(old):
            return Plan(new, _no_value_will_do, self.refusal(old))
        return Plan(new, change, self.refusal(old), members)


def is_record(schema: Schema | None) -> bool:
    """Whether values are maps without a schema, or structs."""
    return schema is None or (schema.type is Type.STRUCT and schema.logical is None)


def _no_value_will_do(values: list[Value], rows: Rows) -> list[Value]:
    raise TypeError


def _some_null(values: list[Value]) -> bool:
    # Faster than `in`, which compares each value with None.
    return type(None) in set(map(type, values))


def done(plan: Plan, values: list[Value], rows: Rows, failed: Failed) -> list[Value]:
    """The changed values; None for those that failed, which are added to the failures."""
    if not values:
        return []
    try:
        return plan.change(values, rows)
    except Exception as error:
        if len(values) == 1:
            failed[rows.places[0]] = _with_cause(plan, values[0], error)
            return [None]
    # Outside of the handler: otherwise every error below has those above as its context.
    middle = len(values) // 2
    first = Rows(rows.records, rows.places[:middle])
    second = Rows(rows.records, rows.places[middle:])
    return [
        *done(plan, values[:middle], first, failed),
        *done(plan, values[middle:], second, failed),
    ]


def _with_cause(plan: Plan, value: Value, error: Exception) -> Exception:
    if isinstance(error, PenstockError):
        return error
    refusal = plan.refusal(value)
    if isinstance(value, dict):
        refusal.__cause__ = error
    return refusal


def _changed_but_nulls(
    plan: Plan, schema: Schema | None, part: list[Value], rows: Rows, failed: Failed
) -> tuple[list[Value], list[Run]]:
    """The same for values with nulls, which stay with their schema."""
    not_null = [at for at, value in enumerate(part) if value is not None]
    places = [rows.places[at] for at in not_null]
    new = done(plan, [part[at] for at in not_null], Rows(rows.records, places), failed)
    values: list[Value] = [None] * len(part)
    for at, value in zip(not_null, new, strict=True):
        values[at] = value
    start = rows.places[0]
    if plan.schema == schema:
        return values, [Run(start + len(part), schema)]
    schemas = [schema] * len(part)
    for at in not_null:
        schemas[at] = plan.schema
    runs = Column.gather(values, schemas).runs
    return values, [Run(start + run.stop, run.schema) for run in runs]


# Structs


def fill(old: Schema, new: Schema, *, replace_null: bool) -> Callable[[list[Value]], list[Value]]:
    """The function that prepares structs of `old` for `new`, whose fields correspond by position:
    null becomes the field's default, if it has one that applies, and is an error if the new field
    does not allow it.

    An unchanged struct is returned, not a copy: copy it before you modify it.
    """
    pairs = zip(old.fields, new.fields, strict=False)
    kept = {one.name: other for one, other in pairs}
    return fill_kept(old, kept, replace_null=replace_null)


def fill_kept(
    old: Schema, kept: Mapping[str, Field], *, replace_null: bool
) -> Callable[[list[Value]], list[Value]]:
    """The same if only some fields of `old` are kept: `kept` maps each to its new field."""
    defaults = {
        name: default
        for name, default in defaults_of(old, replace_null=replace_null).items()
        if name in kept
    }
    strict = {
        name: field
        for name, field in kept.items()
        if not field.schema.optional and name not in defaults
    }
    if not defaults and not strict:
        return lambda values: values
    size = len(old.fields)

    def filled(value: Value) -> Value:
        copy = value.copy()
        for name, default in defaults.items():
            if copy.get(name) is None:
                copy[name] = default
        for name, field in strict.items():
            if copy.get(name) is None:
                raise null_in_field(field.name, field.schema)
        return copy

    def all_filled(values: list[Value]) -> list[Value]:
        return [
            value if len(value) == size and None not in value.values() else filled(value)
            for value in values
        ]

    return all_filled


def defaults_of(schema: Schema, *, replace_null: bool) -> dict[str, Value]:
    """The defaults of a struct's fields that have one, if they are to replace null."""
    if not replace_null:
        return {}
    return {
        field.name: field.schema.default
        for field in schema.fields
        if field.schema.default is not None
    }
