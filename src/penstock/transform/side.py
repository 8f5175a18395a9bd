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
"""Makes new values of a list of them, one for each; raises if one of them cannot be changed: a
DataError, or any other exception for a value that is not of the kind it takes at all."""

Members = dict[str, Any]
"""The members of `Fields` by name: an array each, or one value for all rows."""

ChangeMembers = Callable[[Members], Members]
"""The same as a Change for all values of `Fields`, none of whose members is null anywhere; raises
if some of them cannot be changed."""

Refusal = Callable[[Value], DataError]
"""What is said about a value that a Change does not take."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The change of values of one schema.

    `refusal` words why a value is not taken. `members` is there where `Fields` can be changed
    without looking at their values.
    """

    schema: Schema | None
    change: Change
    refusal: Refusal
    members: ChangeMembers | None = None


class SideTransform(Transform):
    """A transform of keys or of values, which alone differ in the class attribute `of_keys`.

    `purpose` is what messages call it. With `null_stays` a record whose key or value is null is
    passed on as it is, its schema too; otherwise null goes through the plan, whose function takes
    it if `takes_null`.
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
        """What to do with values of this schema; DataError if that cannot be."""

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
        """None where the values have to be looked at, be it to find out what is wrong with one."""
        plan = self.plan_of(column.schema)
        if plan.members is None or any(each.null_count for each in column.members.values()):
            return None
        try:
            return column.changed(plan.schema, plan.members(dict(column.members)))
        except Exception:
            return None

    def plan_of(self, schema: Schema | None) -> Plan:
        """The plan for a schema, kept for the next time."""
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
        """For a schema that cannot be changed: that is said of every value that would be."""

        def refuse(values: list[Value], rows: Rows) -> list[Value]:
            if values == [None] and not self.takes_null:
                raise TypeError
            raise error.with_traceback(None)

        return refuse

    def refusal(self, schema: Schema | None) -> Refusal:
        """What is said about values that are no map, or no struct, in the words for `purpose`."""
        if not is_record(schema):
            return lambda value: not_a_struct(schema, value, self.purpose)

        def refuse(value: Value) -> DataError:
            if isinstance(value, dict):  # it is of the kind, so what is wrong is inside, or here
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
    """The changed values; None for those that failed, which are noted."""
    if not values:
        return []
    try:
        return plan.change(values, rows)
    except Exception as error:
        if len(values) == 1:
            failed[rows.places[0]] = _told(plan, values[0], error)
            return [None]
    # Not in the handler: every error below would carry those above along as its context.
    middle = len(values) // 2
    first = Rows(rows.records, rows.places[:middle])
    second = Rows(rows.records, rows.places[middle:])
    return [
        *done(plan, values[:middle], first, failed),
        *done(plan, values[middle:], second, failed),
    ]


def _told(plan: Plan, value: Value, error: Exception) -> Exception:
    if isinstance(error, PenstockError):
        return error
    told = plan.refusal(value)
    if isinstance(value, dict):
        told.__cause__ = error
    return told


def _changed_but_nulls(
    plan: Plan, schema: Schema | None, part: list[Value], rows: Rows, failed: Failed
) -> tuple[list[Value], list[Run]]:
    """The same for values of which some are null and stay, with the schema they have."""
    held = [at for at, value in enumerate(part) if value is not None]
    places = [rows.places[at] for at in held]
    new = done(plan, [part[at] for at in held], Rows(rows.records, places), failed)
    values: list[Value] = [None] * len(part)
    for at, value in zip(held, new, strict=True):
        values[at] = value
    start = rows.places[0]
    if plan.schema == schema:
        return values, [Run(start + len(part), schema)]
    schemas = [schema] * len(part)
    for at in held:
        schemas[at] = plan.schema
    runs = Column.gather(values, schemas).runs
    return values, [Run(start + run.stop, run.schema) for run in runs]


# Structs


def fill(old: Schema, new: Schema, *, replace_null: bool) -> Callable[[list[Value]], list[Value]]:
    """The function that makes structs of `old` ready to be structs of `new`, which has a field for
    each of its fields, in its place: null becomes the field's default where there is one and it
    counts, and is an error where the new field does not allow it.

    A struct that needs nothing done is returned itself: copy it before it is changed.
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
        made = value.copy()
        for name, default in defaults.items():
            if made.get(name) is None:
                made[name] = default
        for name, field in strict.items():
            if made.get(name) is None:
                raise null_in_field(field.name, field.schema)
        return made

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
