"""InsertField: adds record metadata or a constant as fields (kafka-connect.md §10.6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.config.declare import text
from penstock.config.define import Config, ConfigDef, Key
from penstock.data.logical import ms_to_timestamp
from penstock.data.schema import INT32, INT64, TIMESTAMP, Schema, Type, Value
from penstock.data.schema import STRING as TEXT
from penstock.errors import ConfigInvalid, DataError
from penstock.transform.java import named_fields
from penstock.transform.moments import to_moments
from penstock.transform.settings import REPLACE_NULL, plugin
from penstock.transform.side import ChangeMembers, Plan, Rows, SideTransform, fill, is_record


def _field(name: str, content: str) -> Key[str | None]:
    return text(
        name,
        None,
        f"The name of a field for {content}; unset: none. With a schema the field is optional, or "
        "required if the name ends with `!` (`?`: optional).",
    )


# fmt: off
TOPIC_FIELD: Final = _field("topic.field", "the record's topic")
PARTITION_FIELD: Final = _field("partition.field", "the record's partition")
OFFSET_FIELD: Final = _field("offset.field", "the record's offset (sinks only)")
TIMESTAMP_FIELD: Final = _field("timestamp.field", "the record's timestamp")
STATIC_FIELD: Final = _field("static.field", "the string in `static.value`")
STATIC_VALUE: Final = text("static.value", None, "The value of `static.field`.")
# fmt: on

INSERT_FIELD: Final = ConfigDef(
    TOPIC_FIELD,
    PARTITION_FIELD,
    OFFSET_FIELD,
    TIMESTAMP_FIELD,
    STATIC_FIELD,
    STATIC_VALUE,
    REPLACE_NULL,
)

ValuesOf = Callable[[Rows], list[Value]]
"""The values to insert, by row; None: nothing."""


@dataclass(frozen=True, slots=True)
class _Insert:
    """A field to insert; `always` is its value if it is the same for every record."""

    name: str
    schema: Schema
    values_of: ValuesOf
    always: str | None = None


def _topics(rows: Rows) -> list[Value]:
    return _of(rows.records.topics, rows)


def _partitions(rows: Rows) -> list[Value]:
    return _of(rows.records.partitions, rows)


def _offsets(rows: Rows) -> list[Value]:
    if not rows.records.offsets:
        raise DataError(
            "Only SinkRecord supported for [field insertion], "
            "found: org.apache.kafka.connect.source.SourceRecord"
        )
    return _of(rows.records.offsets, rows)


def _timestamps(rows: Rows) -> list[Value]:
    return _of(rows.records.timestamps, rows)


def _moments(rows: Rows) -> list[Value]:
    cells = _timestamps(rows)
    if None in cells:
        return [None if ms is None else ms_to_timestamp(ms) for ms in cells]
    return list(to_moments(cells))


def _of(cells: list[Value], rows: Rows) -> list[Value]:
    places = rows.places
    if isinstance(places, range):
        return cells[places.start : places.stop]
    return [cells[place] for place in places]


class InsertField(SideTransform):
    """Adds the topic, partition, offset or timestamp of a record, or a constant, as fields."""

    purpose = "field insertion"
    null_stays = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._replace_null = config[REPLACE_NULL]
        static = config[STATIC_VALUE]
        inserts = [
            (config[TOPIC_FIELD], TEXT, _topics),
            (config[PARTITION_FIELD], INT32, _partitions),
            (config[OFFSET_FIELD], INT64, _offsets),
            (config[TIMESTAMP_FIELD], TIMESTAMP, _timestamps),
        ]
        self._inserts = [
            _Insert(*_named(setting, schema), cells)
            for setting, schema, cells in inserts
            if setting is not None
        ]
        static_name = config[STATIC_FIELD]
        if not self._inserts and static_name is None:
            raise ConfigInvalid(["No field insertion configured"])
        if static_name is not None and static is None:
            raise ConfigInvalid(
                [
                    "Invalid value null for configuration static.value: "
                    f"No value specified for static field: {static_name}"
                ]
            )
        if static_name is not None and static is not None:
            name, schema = _named(static_name, TEXT)
            self._inserts.append(
                _Insert(name, schema, lambda rows: [static] * len(rows.places), static)
            )
        self._always = {
            insert.name: insert.always for insert in self._inserts if insert.always is not None
        }
        if len(self._always) == len(self._inserts):
            self.keeps_fields = True

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            same = self._change(lambda values: values, _same_cells)
            return self.planned(None, None, same, self._inserted())
        if not is_record(schema):
            return self.planned(schema, schema, lambda values, rows: values)
        fields = [(field.name, field.schema) for field in schema.fields]
        fields += [(insert.name, insert.schema) for insert in self._inserts]
        new = Schema(
            Type.STRUCT,
            name=schema.name,
            version=schema.version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=named_fields(fields),
        )
        prepared = fill(schema, new, replace_null=self._replace_null)
        changed = self._change(prepared, _struct_cells)
        return self.planned(schema, new, changed, self._inserted())

    def _inserted(self) -> ChangeMembers | None:
        """The function that adds members with the same value for all records; None if one
        differs."""
        if len(self._always) < len(self._inserts):
            return None
        return lambda members: members | self._always

    def _change(
        self,
        prepared: Callable[[list[Value]], list[Value]],
        cells_of: Callable[[_Insert, Rows], list[Value]],
    ) -> Callable[[list[Value], Rows], list[Value]]:
        first, *others = self._inserts
        name, always = first.name, first.always

        def change(values: list[Value], rows: Rows) -> list[Value]:
            values = prepared(values)
            if always is not None:
                copies: list[Value] = [{**value, name: always} for value in values]
            else:
                cells = cells_of(first, rows)
                if None in cells:
                    copies = [{**value} for value in values]
                    _put(copies, name, cells)
                else:
                    copies = [
                        {**value, name: cell} for value, cell in zip(values, cells, strict=True)
                    ]
            for insert in others:
                _put(copies, insert.name, cells_of(insert, rows))
            return copies

        return change


def _named(text: str, schema: Schema) -> tuple[str, Schema]:
    """The name of the field, and its schema by its suffix."""
    if text.endswith("!"):
        return text[:-1], schema
    return text.removesuffix("?"), schema.as_optional()


def _same_cells(insert: _Insert, rows: Rows) -> list[Value]:
    return insert.values_of(rows)


def _struct_cells(insert: _Insert, rows: Rows) -> list[Value]:
    return _moments(rows) if insert.values_of is _timestamps else insert.values_of(rows)


def _put(copies: list[Value], name: str, cells: list[Value]) -> None:
    if None in cells:
        for value, cell in zip(copies, cells, strict=True):
            if cell is not None:
                value[name] = cell
    else:
        for value, cell in zip(copies, cells, strict=True):
            value[name] = cell


class InsertFieldKey(InsertField):
    """Inserts into keys."""

    of_keys = True
    plugin = plugin("InsertField$Key", INSERT_FIELD)


class InsertFieldValue(InsertField):
    """Inserts into values."""

    plugin = plugin("InsertField$Value", INSERT_FIELD)
