"""What change events become: JSON, structs, topics, offsets."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import DataError, PenstockError
from penstock.api.schema import (
    INT32,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
    Type,
    check,
    decimal,
    struct,
)
from penstock.connectors.mongodb.read.json import Mode, text_of
from penstock.connectors.mongodb.read.offsets import offset_of, partition_of, token_of
from penstock.connectors.mongodb.read.values import inferred, value_of
from penstock.connectors.mongodb.settings.avro import SchemaInvalid, schema_of
from penstock.connectors.mongodb.settings.source import MONGODB_SOURCE, copy_setting, startup_mode
from penstock.connectors.mongodb.settings.topics import MapInvalid, TopicMapper
from penstock.connectors.mongodb.text.shell import parse

OID = ObjectId("65a000000000000000000001")
MOMENT = datetime(2026, 1, 31, 12, 30, 0, 120_000, UTC)
MS = 1_769_862_600_120

# A value, as DefaultJson, ExtendedJson and SimplifiedJson write it.
TEXTS: list[tuple[Any, str, str, str]] = [
    (1, "1", '{"$numberInt": "1"}', "1"),
    (Int64(1), '{"$numberLong": "1"}', '{"$numberLong": "1"}', "1"),
    (1.0, "1.0", '{"$numberDouble": "1.0"}', "1.0"),
    (1e21, "1.0E21", '{"$numberDouble": "1.0E21"}', "1.0E21"),
    (True, "true", "true", "true"),
    (None, "null", "null", "null"),
    ("a\"\\\n\u00e9\u2028\U0001f600", '"a\\"\\\\\\n\u00e9\\u2028\\ud83d\\ude00"',
     '"a\\"\\\\\\n\u00e9\\u2028\\ud83d\\ude00"', '"a\\"\\\\\\n\u00e9\\u2028\\ud83d\\ude00"'),
    (MOMENT, f'{{"$date": {MS}}}', f'{{"$date": {{"$numberLong": "{MS}"}}}}',
     '"2026-01-31T12:30:00.12Z"'),
    (DatetimeMS(-1), '{"$date": -1}', '{"$date": {"$numberLong": "-1"}}',
     '"1969-12-31T23:59:59.999Z"'),
    (OID, f'{{"$oid": "{OID}"}}', f'{{"$oid": "{OID}"}}', f'"{OID}"'),
    (Decimal128("1.50"), '{"$numberDecimal": "1.50"}', '{"$numberDecimal": "1.50"}', '"1.50"'),
    (b"\x00\x01", '{"$binary": "AAE=", "$type": "00"}',
     '{"$binary": {"base64": "AAE=", "subType": "00"}}', '"AAE="'),
    (Binary(b"\x00", 4), '{"$binary": "AA==", "$type": "04"}',
     '{"$binary": {"base64": "AA==", "subType": "04"}}', '"AA=="'),
    (Timestamp(1, 2), '{"$timestamp": {"t": 1, "i": 2}}', '{"$timestamp": {"t": 1, "i": 2}}',
     '{"$timestamp": {"t": 1, "i": 2}}'),
    (Regex("a", "i"), '{"$regex": "a", "$options": "i"}',
     '{"$regularExpression": {"pattern": "a", "options": "i"}}',
     '{"$regularExpression": {"pattern": "a", "options": "i"}}'),
    (Code("f()"), '{"$code": "f()"}', '{"$code": "f()"}', '{"$code": "f()"}'),
    (MaxKey(), '{"$maxKey": 1}', '{"$maxKey": 1}', '{"$maxKey": 1}'),
    ({"a": [1, {}], "b": []}, '{"a": [1, {}], "b": []}',
     '{"a": [{"$numberInt": "1"}, {}], "b": []}', '{"a": [1, {}], "b": []}'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "strict", "extended", "simplified"), TEXTS)
def test_json(value: Any, strict: str, extended: str, simplified: str) -> None:
    assert text_of(value, Mode.STRICT) == strict
    assert text_of(value, Mode.EXTENDED) == extended
    assert text_of(value, Mode.SIMPLIFIED) == simplified


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 31), (1 << 31) - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(blacklist_categories=["Cs"]))
    | st.just(OID),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES))
def test_extended_json_that_is_written_can_be_read_again(document: dict[str, Any]) -> None:
    assert parse(text_of(document, Mode.EXTENDED)) == document


@given(st.dictionaries(st.text("abc_", min_size=1, max_size=3), VALUES))
def test_a_document_fits_the_schema_that_is_inferred_from_it(document: dict[str, Any]) -> None:
    schema = inferred(document)
    check(schema, value_of(schema, document, Mode.STRICT))


def test_elements_that_have_no_schema_in_common_are_texts() -> None:
    schema = inferred({"_id": 1, "z": 1, "a": [1, "x"], "b": [{"p": 1}, {"q": None}], "n": None})
    assert [each.name for each in schema.fields] == ["_id", "a", "b", "n", "z"]
    by_name = {each.name: each.schema for each in schema.fields}
    assert by_name["a"].value_schema == OPTIONAL_STRING
    inner = by_name["b"].value_schema
    assert inner is not None
    assert [(each.name, each.schema.type) for each in inner.fields] == [
        ("p", Type.INT32),
        ("q", Type.STRING),
    ]
    assert by_name["n"] == OPTIONAL_STRING


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (STRING, {"a": Int64(1)}, '{"a": {"$numberLong": "1"}}'),
        (STRING, 5, "5"),
        (INT32, 5.9, 5),
        (TIMESTAMP, MOMENT, MOMENT),
        (TIMESTAMP, Timestamp(1, 5), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (decimal(2), Decimal128("1.10"), Decimal("1.10")),
        (struct({"a.b": INT32}), {"a": {"b": 3}}, {"a.b": 3}),
    ],
)
def test_values_of_a_schema(schema: Any, value: Any, expected: Any) -> None:
    assert value_of(schema, value, Mode.STRICT) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT32, "x"),
        (INT32, True),
        (INT32, 1 << 40),
        (INT32, None),
        (struct({"a": INT32}), {}),
        (struct({"a": INT32}), [1]),
        (decimal(2), 1),
    ],
)
def test_values_that_do_not_fit(schema: Any, value: Any) -> None:
    with pytest.raises(DataError):
        value_of(schema, value, Mode.STRICT)


MAPPED = (
    '{"shop": "s", "shop.orders": "o", "/re(.*)": "x-{db}{sep_coll}", "*": "other", "shop.x": ""}'
)


@pytest.mark.parametrize(
    ("mapped", "db", "coll", "topic"),
    [
        ("", "shop", "orders", "p-shop-orders-q"),
        ("", "shop", "", "p-shop-q"),
        (MAPPED, "shop", "orders", "p-o-q"),
        (MAPPED, "shop", "x", "p-s-x-q"),
        (MAPPED, "shop", "", "p-s-q"),
        (MAPPED, "red", "c", "p-x-red-c-q"),
        (MAPPED, "red", "", "p-x-red-q"),
        (MAPPED, "blue", "c", "p-other-q"),
    ],
)
def test_topics_of_namespaces(mapped: str, db: str, coll: str, topic: str) -> None:
    mapper = TopicMapper.of("p", "q", "-", mapped)
    namespace = {"db": db, **({"coll": coll} if coll else {})}
    assert mapper.topic({"ns": namespace}) == topic


@pytest.mark.parametrize(
    "mapped", ['{"a": 1}', '{"a/b": "c"}', '{"/(": "c"}', '{"/a": "{x}"}', '{"/a": "{db"}', "["]
)
def test_maps_that_cannot_be(mapped: str) -> None:
    with pytest.raises(MapInvalid):
        TopicMapper.of("", "", ".", mapped)


def test_an_event_without_a_namespace_has_no_topic() -> None:
    assert TopicMapper.of("", "", ".", "").topic({"operationType": "invalidate"}) == ""


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "mongodb://localhost:27017,localhost:27018,localhost:27019/"),
        (
            {"connection.uri": "mongodb://u:p@h:1,i:2/admin?x=1", "database": "d"},
            "mongodb://h:1,i:2/d",
        ),
        (
            {"connection.uri": "mongodb+srv://h.example/", "database": "d", "collection": "c"},
            "mongodb+srv://h.example/d.c",
        ),
        ({"offset.partition.name": "mine"}, "mine"),
    ],
)
def test_partitions_are_named_as_the_jvms_connector_names_them(
    given: dict[str, str], name: str
) -> None:
    assert partition_of(MONGODB_SOURCE.parse(given)) == {"ns": name}


def test_offsets_are_those_of_the_jvms_connector() -> None:
    token = {"_data": "8265"}
    assert offset_of(token) == {"_id": '{"_data": "8265"}'}
    assert offset_of(token, heartbeat=True) == {"_id": '{"_data": "8265"}', "HEARTBEAT": "true"}
    assert token_of(offset_of(token, heartbeat=True)) == token
    assert token_of({"_id": '{"_id": 1, "copyingData": true}', "copy": "true"}) is None
    assert token_of(None) is None
    with pytest.raises(PenstockError):
        token_of({"_id": "nonsense"})


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, "latest"),
        ({"copy.existing": "true"}, "copy_existing"),
        ({"copy.existing": "true", "startup.mode": "LATEST"}, "latest"),
    ],
)
def test_old_names_of_settings(given: dict[str, str], mode: str) -> None:
    assert startup_mode(MONGODB_SOURCE.parse(given)) == mode


def test_a_setting_of_the_copy_has_two_names() -> None:
    old = {"copy.existing.namespace.regex": "a"}
    assert copy_setting(MONGODB_SOURCE.parse(old), "namespace.regex") == "a"
    both = {**old, "startup.mode.copy.existing.namespace.regex": "b"}
    assert copy_setting(MONGODB_SOURCE.parse(both), "namespace.regex") == "b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"string"', "Record"),
        ("{", "Invalid Avro schema"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":["int","string"]}]}', "Union"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"r"}]}', "contains itself"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"enum"}}]}', "ENUM"),
        ('{"type":"record","name":"r"}', "fields"),
    ],
)
def test_avro_schemas_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(SchemaInvalid, match=message):
        schema_of(text)


def test_avro_records_may_be_used_twice() -> None:
    text = (
        '{"type":"record","name":"r","namespace":"n","fields":[{"name":"a","type":{"type":"record",'
        '"name":"i","fields":[{"name":"x","type":"int","default":3}]}},{"name":"b","type":"i"}]}'
    )
    schema = schema_of(text)
    assert schema.name == "n.r"
    assert schema.fields[0].schema == schema.fields[1].schema
    assert value_of(schema, {"a": {}, "b": {"x": 1}}, Mode.STRICT) == {"a": {"x": 3}, "b": {"x": 1}}
