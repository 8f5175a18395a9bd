"""ReplaceField: drops and renames fields (kafka-connect.md §10.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from penstock.config.checks import entries
from penstock.config.declare import listing
from penstock.config.define import Config, ConfigDef, invalid
from penstock.data.records import Column, Records
from penstock.data.schema import Schema, Type, Value
from penstock.errors import ConfigInvalid, DataError
from penstock.transform.java import named_fields
from penstock.transform.settings import PAIRS, REPLACE_NULL, Entries, plugin
from penstock.transform.side import (
    Change,
    ChangeMembers,
    Members,
    Plan,
    Rows,
    SideTransform,
    fill_kept,
    is_record,
)

Prepare = Callable[[list[Value]], list[Value]]


def _pairs(renames: Sequence[str]) -> dict[str, str]:
    """New names by old; raises ConfigInvalid for an entry that is not a pair."""
    pairs: dict[str, str] = {}
    for mapping in renames:
        parts = mapping.rstrip(":").split(":")
        if len(parts) != 2:
            raise ConfigInvalid(
                [
                    invalid(
                        "renames",
                        f"[{', '.join(renames)}]",
                        f"Invalid rename mapping: {mapping}",
                    )
                ]
            )
        pairs[parts[0]] = parts[1]
    return pairs


def _bad_pairs(renames: Sequence[str] | None) -> str | None:
    try:
        _pairs(renames or ())
    except ConfigInvalid as error:
        return error.problems[0]
    return None


# fmt: off
EXCLUDE: Final = listing("exclude", (),
    "Fields to drop; takes precedence over `include`.", check=entries(may_repeat=True))
INCLUDE: Final = listing("include", (),
    "Fields to keep, by their old names; empty: all.", check=entries(may_repeat=True))
RENAMES: Final = listing("renames", (),
    "Pairs of an old and a new name: `id:key,ts:time`.", check=Entries(PAIRS, _bad_pairs))
# fmt: on

REPLACE_FIELD: Final = ConfigDef(EXCLUDE, INCLUDE, RENAMES, REPLACE_NULL)


class ReplaceField(SideTransform):
    """Drops and renames fields."""

    purpose = "field replacement"
    null_stays = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._exclude = frozenset(config[EXCLUDE])
        self._include = frozenset(config[INCLUDE])
        self._renames = _pairs(config[RENAMES])
        self._origins = {new: old for old, new in self._renames.items()}
        self._replace_null = config[REPLACE_NULL]
        self.keeps_fields = True

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            change = self._included if self._include else self._changed_copies(self._exclude)
            return self.planned(None, None, change, _of_members(change))
        if not is_record(schema):
            return self.planned(schema, schema, lambda values, rows: values)
        remaining = [field for field in schema.fields if self._keeps(field.name)]
        names = [self._renames.get(field.name, field.name) for field in remaining]
        fields = named_fields(
            [(name, field.schema) for name, field in zip(names, remaining, strict=True)]
        )
        for name in names:
            # Kafka Connect looks up the old name of every field, even of one not renamed.
            old = self._origins.get(name, name)
            if schema.field(old) is None:
                raise DataError(f"{old} is not a valid field name")
        new = Schema(
            Type.STRUCT,
            name=schema.name,
            version=schema.version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=fields,
        )
        becomes = {old.name: field for old, field in zip(remaining, fields, strict=True)}
        prepared = fill_kept(schema, becomes, replace_null=self._replace_null)
        if len(remaining) * 2 >= len(schema.fields):
            drop = [field.name for field in schema.fields if field not in remaining]
            change = self._changed_copies(drop, prepared)
            return self.planned(schema, new, change, _of_members(self._changed_copies(drop)))
        chosen = [(old, field.name) for old, field in becomes.items()]

        def choose(values: list[Value], rows: Rows) -> list[Value]:
            return [{new: value.get(old) for old, new in chosen} for value in prepared(values)]

        return self.planned(
            schema, new, choose, lambda members: {new: members[old] for old, new in chosen}
        )

    def _changed_copies(self, drop: Iterable[str], prepared: Prepare | None = None) -> Change:
        """The function that copies maps or structs, drops fields and renames the rest."""
        drop = tuple(drop)
        renames = [(old, new) for old, new in self._renames.items() if old not in drop]
        # Names may be swapped: then all are removed before any is added.
        chained = not {new for _, new in renames}.isdisjoint(self._renames)

        def change(values: list[Value], rows: Rows) -> list[Value]:
            copies: list[Value] = []
            for value in values if prepared is None else prepared(values):
                copy = {**value}
                for name in drop:
                    copy.pop(name, None)
                if chained:
                    copy |= [(new, copy.pop(old)) for old, new in renames if old in copy]
                else:
                    for old, new in renames:
                        if old in copy:
                            copy[new] = copy.pop(old)
                copies.append(copy)
            return copies

        return change

    def _included(self, values: list[Value], rows: Rows) -> list[Value]:
        included = sorted(self._include - self._exclude)
        names = [(name, self._renames.get(name, name)) for name in included]
        copies: list[Value] = []
        for value in values:
            get, one = value.get, {}
            for old, new in names:
                cell = get(old, _NOT_THERE)
                if cell is not _NOT_THERE:
                    one[new] = cell
            copies.append(one)
        return copies


def _of_members(change: Change) -> ChangeMembers:
    """The same for `Fields`: the change affects names only."""

    def change_members(members: Members) -> Members:
        (changed,) = change([members], _NO_ROWS)
        return changed  # type: ignore[no-any-return]

    return change_members


_NOT_THERE: Final = object()
_NO_ROWS: Final = Rows(Records([], [], [], Column([], []), Column([], [])), ())


class ReplaceFieldKey(ReplaceField):
    """Drops and renames fields of keys."""

    of_keys = True
    plugin = plugin("ReplaceField$Key", REPLACE_FIELD)


class ReplaceFieldValue(ReplaceField):
    """Drops and renames fields of values."""

    plugin = plugin("ReplaceField$Value", REPLACE_FIELD)
