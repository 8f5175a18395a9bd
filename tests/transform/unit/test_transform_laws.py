"""Laws of all transforms and predicates, over generated batches."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api import Failed, Predicate, Transform
from penstock.data import schema as s
from penstock.data.columns import Fields
from penstock.data.java_dates import DateFormat
from penstock.data.logical import ms_to_timestamp
from penstock.data.records import Column, Header, Records
from penstock.data.schema import Schema, Value
from penstock.data.text import column_texts
from penstock.plugins.registry import Registry
from penstock.transform import BUILT_IN

PACKAGE: Final = "org.apache.kafka.connect.transforms."
TIMES: Final = {"target.type": "string", "format": "yyyy-MM-dd HH:mm:ss"}
CONFIGS: Final[list[tuple[str, dict[str, str]]]] = [
    ("Cast$Value", {"spec": "a:int8,b:string"}),
    ("Cast$Value", {"spec": "string"}),
    ("DropHeaders", {"headers": "h"}),
    ("ExtractField$Value", {"field": "c.a", "field.syntax.version": "V2"}),
    ("Filter", {}),
    ("Flatten$Value", {}),
    ("HeaderFrom$Value", {"fields": "a,b", "headers": "h,i", "operation": "move"}),
    ("HeaderFrom$Value", {"fields": "b", "headers": "h", "operation": "copy"}),
    ("HoistField$Value", {"field": "whole"}),
    ("InsertField$Value", {"topic.field": "t", "timestamp.field": "w", "offset.field": "o"}),
    ("InsertField$Value", {"static.field": "s", "static.value": "x"}),
    ("InsertField$Value", {"static.field": "a!", "static.value": "x"}),
    ("InsertHeader", {"header": "h", "value.literal": "12"}),
    ("MaskField$Value", {"fields": "a,b"}),
    ("MaskField$Value", {"fields": "b", "replacement": "7"}),
    ("MaskField$Value", {"fields": "a,d", "replacement": "1.5"}),
    ("RegexRouter", {"regex": "t(.*)", "replacement": "x$1"}),
    ("ReplaceField$Value", {"exclude": "a"}),
    ("ReplaceField$Value", {"include": "b"}),
    ("ReplaceField$Value", {"exclude": "a,b", "renames": "d:a"}),
    ("ReplaceField$Value", {"renames": "a:Aa,b:BB"}),
    ("ReplaceField$Value", {"renames": "a:b2,b:a"}),
    ("SetSchemaMetadata$Value", {"schema.name": "N"}),
    ("TimestampConverter$Value", {**TIMES, "field": "a"}),
    ("TimestampConverter$Value", {**TIMES, "target.type": "Timestamp", "field": "b"}),
    ("TimestampRouter", {}),
    ("ValueToKey", {"fields": "a"}),
    ("predicates.HasHeaderKey", {"name": "h"}),
    ("predicates.RecordIsTombstone", {}),
    ("predicates.TopicNameMatches", {"pattern": "t1"}),
]
REGISTRY: Final = Registry(BUILT_IN)

STRUCT: Final = s.struct(
    {
        "a": s.OPTIONAL_INT64,
        "b": Schema(s.Type.STRING, default="none"),
        "c": s.struct({"a": s.OPTIONAL_INT8}, optional=True),
    },
    optional=True,
)
INTS: Final = st.integers(-(2**40), 2**40)
TEXTS: Final = st.sampled_from(["", "7", "x", "2024-02-29 12:00:00", "true"])
ANY: Final = st.none() | st.booleans() | INTS | st.floats() | TEXTS | st.binary(max_size=2)
MAPS: Final = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    ANY | st.lists(ANY, max_size=2) | st.dictionaries(st.sampled_from("ab"), ANY, max_size=2),
)
STRUCTS: Final = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | INTS,
        "b": st.none() | TEXTS,
        "c": st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(-128, 127)}),
    },
)
ROWS: Final = st.lists(
    st.one_of(
        st.tuples(st.none(), st.none() | MAPS | ANY),
        st.tuples(st.just(STRUCT), st.none() | STRUCTS),
        st.tuples(st.just(s.OPTIONAL_STRING), st.none() | TEXTS),
    ),
    max_size=6,
)


def made(name: str, config: dict[str, str]) -> Transform | Predicate:
    find = REGISTRY.predicate if name.startswith("predicates.") else REGISTRY.transform
    cls = find(PACKAGE + name)
    assert cls is not None
    return cls(cls.plugin.config.parse(config))


def batch(rows: list[tuple[Schema | None, Value]]) -> Records:
    numbers = range(len(rows))
    return Records(
        topics=[f"t{row % 2}" for row in numbers],
        partitions=[0] * len(rows),
        timestamps=[None if row % 3 == 2 else row for row in numbers],
        keys=Column.of([None] * len(rows), None),
        values=Column.gather([value for _, value in rows], [schema for schema, _ in rows]),
        offsets=list(numbers),
        headers=[[Header("h", row)] if row % 2 else [] for row in numbers],
    )


def outcome(plugin: Transform | Predicate, records: Records) -> list[str]:
    """The result of each record, as text, in which NaN equals itself."""
    failed: Failed = {}
    found: list[Any]
    if isinstance(plugin, Predicate):
        found = list(plugin.test(records, failed))
    else:
        result = plugin.apply(records, failed)
        found = [None] * len(records)
        places = {origin: place for place, origin in enumerate(records.origins)}
        for row, origin in enumerate(result.origins):
            found[places[origin]] = (
                *(result.topics[row], result.partitions[row], result.timestamps[row]),
                *(result.keys.schemas()[row], result.keys.values[row]),
                *(result.values.schemas()[row], result.values.values[row]),
                list(result.headers[row]) if result.headers else [],
            )
    for row, error in failed.items():
        found[row] = (type(error), str(error))
    return [repr(each) for each in found]


@pytest.mark.parametrize(("name", "config"), CONFIGS)
@settings(max_examples=15)
@given(rows=ROWS)
def test_write_does_not_modify_the_batch(
    name: str, config: dict[str, str], rows: list[tuple[Schema | None, Value]]
) -> None:
    records = batch(rows)
    before = repr(deepcopy(records))
    outcome(made(name, config), records)
    assert repr(records) == before


@pytest.mark.parametrize(("name", "config"), CONFIGS)
@settings(max_examples=15)
@given(rows=ROWS)
def test_a_record_fares_in_a_batch_as_it_does_alone(
    name: str, config: dict[str, str], rows: list[tuple[Schema | None, Value]]
) -> None:
    plugin, records = made(name, config), batch(rows)
    alone = [outcome(plugin, records.only([row]))[0] for row in range(len(rows))]
    assert outcome(plugin, records) == alone


MOMENTS: Final = st.integers(-11_676_096_000_000, 221_845_392_000_000).map(ms_to_timestamp)


@pytest.mark.parametrize(
    "pattern",
    [
        "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "yyyy-MM-dd HH:mm:ss.SSS",
        "yyyyMMddHHmmssSSS",
        "EEEE d MMMM yyyy, h:mm:ss.SSS a",
        "D yyyy k:m:s.S Z",
        "YYYY w u H:m:s.S",
    ],
)
@given(moment=MOMENTS)
def test_a_written_moment_is_read_back(pattern: str, moment: datetime) -> None:
    format = DateFormat(pattern)
    assert format.parse_moment(format.format_moment(moment)) == moment


FIELDS: Final = s.struct(
    {
        "a": s.INT64,
        "b": Schema(s.Type.STRING, default="none", optional=True),
        "d": s.OPTIONAL_FLOAT64,
        "e": s.BOOLEAN,
    }
)
FIELD_ROWS: Final = st.lists(
    st.tuples(INTS, st.none() | TEXTS, st.none() | st.floats(-9, 9), st.booleans()),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("schema", [None, FIELDS])
@pytest.mark.parametrize(("name", "config"), CONFIGS)
@settings(max_examples=15)
@given(rows=FIELD_ROWS)
def test_fields_become_what_their_values_would(
    name: str, config: dict[str, str], schema: Schema | None, rows: list[tuple[Value, ...]]
) -> None:
    whole = [row for row in rows if schema is not None or None not in row]
    arrays = [
        pa.array([row[at] for row in whole], kind)
        for at, kind in enumerate([pa.int64(), pa.large_string(), pa.float64(), pa.bool_()])
    ]
    fields = Fields(schema, dict(zip("abde", arrays, strict=True)), len(whole))
    plain = batch([(schema, value) for value in fields.values])
    plugin = made(name, config)
    held = plain.with_values(fields)
    assert outcome(plugin, held) == outcome(plugin, plain)
    if isinstance(plugin, Transform):
        assert texts(plugin.apply(held, {}).values) == texts(plugin.apply(plain, {}).values)


def texts(column: Column) -> list[str]:
    return [text for array in column_texts(column) for text in array.to_pylist()]
