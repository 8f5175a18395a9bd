"""What records become: ids, steps, strategies, namespaces."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Int64, ObjectId

from penstock.api import ConfigInvalid, DataError, Failed
from penstock.connectors.mongodb.settings.overrides import override_problems
from penstock.connectors.mongodb.settings.sink import MONGODB_SINK
from penstock.connectors.mongodb.write.entry import Kind, Write
from penstock.connectors.mongodb.write.jobs import jobs_of
from penstock.connectors.mongodb.write.namespaces import Namespace
from penstock.connectors.mongodb.write.processors import moment_of
from penstock.testing.conformance import records_of

from .builders import NOW_MS, place, plan, write

IDS = "com.mongodb.kafka.connect.sink.processor.id.strategy"
STRATEGIES = "com.mongodb.kafka.connect.sink.writemodel.strategy"
STEPS = "com.mongodb.kafka.connect.sink.processor"
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
UUID = "00112233-4455-6677-8899-aabbccddeeff"


def test_keys_that_are_equal_to_the_server_are_of_one_document() -> None:
    keys = [{"_id": each} for each in (1, 1.0, Int64(1), True, "1", 0.0, -0.0, 2)]
    records = records_of([{"v": row} for row in range(len(keys))], keys=keys)
    unordered = plan(
        document_id_strategy=f"{IDS}.ProvidedInKeyStrategy", bulk_write_ordered="false"
    )
    refused: Failed = {}
    (job,) = jobs_of(records, lambda topic: unordered, refused)
    assert refused == {}
    assert job.rows == [2, 3, 4, 6, 7]


def test_by_default_a_document_gets_a_new_object_id_and_is_replaced() -> None:
    found = write({"a": 1})
    assert found is not None
    assert found.document is not None
    key = found.document["_id"]
    assert isinstance(key, ObjectId)
    assert found == Write(Kind.REPLACE, {"_id": key}, {"a": 1, "_id": key}, upsert=True)
    assert write({"a": 1, "_id": 5}) == Write(
        Kind.REPLACE, {"_id": 5}, {"a": 1, "_id": 5}, upsert=True
    )


@pytest.mark.parametrize(
    ("strategy", "more", "key", "value", "expected"),
    [
        ("FullKeyStrategy", {}, {"k": 1, "l": "x"}, {}, {"k": Int64(1), "l": "x"}),
        ("FullKeyStrategy", {}, None, {}, {}),
        ("KafkaMetaDataStrategy", {}, None, {}, "t#1#7"),
        ("ProvidedInKeyStrategy", {}, {"_id": "x"}, {}, "x"),
        ("ProvidedInValueStrategy", {}, None, {"_id": 4}, 4),
        (
            "PartialKeyStrategy",
            {"key_projection_type": "AllowList", "key_projection_list": "a.b"},
            {"a": {"b": "1", "c": "2"}, "d": "3"},
            {},
            {"a": {"b": "1"}},
        ),
        (
            "PartialKeyStrategy",
            {
                "document_id_strategy_partial_key_projection_type": "BlockList",
                "document_id_strategy_partial_key_projection_list": "d",
                "key_projection_type": "AllowList",
                "key_projection_list": "d",
            },
            {"a": "1", "d": "3"},
            {},
            {"a": "1"},
        ),
        (
            "PartialValueStrategy",
            {"value_projection_type": "allowlist", "value_projection_list": "a"},
            None,
            {"a": "1", "d": "3"},
            {"a": "1"},
        ),
        ("UuidProvidedInKeyStrategy", {}, {"_id": UUID}, {}, Binary.from_uuid(uuid.UUID(UUID))),
        (
            "UuidProvidedInValueStrategy",
            {},
            None,
            {"_id": UUID.replace("-", "")},
            Binary.from_uuid(uuid.UUID(UUID)),
        ),
    ],
)
def test_ids(strategy: str, more: dict[str, str], key: Any, value: Any, expected: Any) -> None:
    found = write(
        value,
        key,
        document_id_strategy=f"{IDS}.{strategy}",
        document_id_strategy_overwrite_existing="true",
        **more,
    )
    assert found is not None
    assert found.filter == {"_id": expected}


def test_new_uuids_are_texts_or_binary() -> None:
    text = write({}, document_id_strategy="UuidStrategy")
    assert text is not None
    assert str(uuid.UUID(text.filter["_id"])) == text.filter["_id"]
    binary = write(
        {}, document_id_strategy="UuidStrategy", document_id_strategy_uuid_format="Binary"
    )
    assert binary is not None
    assert binary.filter["_id"].subtype == 4


@pytest.mark.parametrize(
    ("strategy", "key", "value", "message"),
    [
        ("ProvidedInKeyStrategy", {"a": 1}, {}, "_id is missing"),
        ("ProvidedInKeyStrategy", None, {}, "_id is missing"),
        ("ProvidedInValueStrategy", None, {"_id": None}, "_id is null"),
        ("UuidProvidedInValueStrategy", None, {"_id": "x"}, "UUID cannot be constructed"),
        ("FullKeyStrategy", "plain text", {}, "Could not convert key"),
        ("FullKeyStrategy", 5, {}, "Could not convert key"),
    ],
)
def test_keys_that_a_strategy_cannot_use(strategy: str, key: Any, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        write(
            value,
            key,
            document_id_strategy=strategy,
            document_id_strategy_overwrite_existing="true",
        )


def test_a_key_that_nobody_asks_for_may_be_anything() -> None:
    assert write({"_id": 1}, "plain text") is not None


def test_members_of_keys_without_a_schema_are_in_the_order_of_javas_maps() -> None:
    found = write({}, {"zip": 1, "a": 2, "city": 3}, document_id_strategy="FullKeyStrategy")
    assert found is not None
    assert [*found.filter["_id"]] == ["zip", "a", "city"]


@pytest.mark.parametrize(
    ("strategy", "value", "expected"),
    [
        (
            "InsertOneDefaultStrategy",
            {"_id": 1, "a": 2},
            Write(Kind.INSERT, {}, {"_id": 1, "a": 2}),
        ),
        (
            "ReplaceOneBusinessKeyStrategy",
            {"_id": {"b": {"c": 1}}, "a": 2},
            Write(Kind.REPLACE, {"b": {"c": 1}}, {"a": 2}, upsert=True),
        ),
        (
            "UpdateOneDefaultStrategy",
            {"_id": 1, "a": 2},
            Write(Kind.UPDATE, {"_id": 1}, {"$set": {"a": 2}}, upsert=True),
        ),
        (
            "UpdateOneTimestampsStrategy",
            {"_id": 1, "a": 2},
            Write(
                Kind.UPDATE,
                {"_id": 1},
                {
                    "$set": {"_id": 1, "a": 2, "_modifiedTS": NOW},
                    "$setOnInsert": {"_insertedTS": NOW},
                },
                upsert=True,
            ),
        ),
        (
            "UpdateOneBusinessKeyTimestampStrategy",
            {"_id": {"b": 1}, "a": 2},
            Write(
                Kind.UPDATE,
                {"b": 1},
                {"$set": {"a": 2, "_modifiedTS": NOW}, "$setOnInsert": {"_insertedTS": NOW}},
                upsert=True,
            ),
        ),
        ("DeleteOneBusinessKeyStrategy", {"_id": {"b": 1}}, Write(Kind.DELETE, {"b": 1})),
    ],
)
def test_strategies(strategy: str, value: Any, expected: Write) -> None:
    assert write(value, writemodel_strategy=f"{STRATEGIES}.{strategy}") == expected


def test_a_partial_business_key_is_found_by_paths() -> None:
    found = write(
        {"a": {"b": "1"}, "c": "2"},
        writemodel_strategy="ReplaceOneBusinessKeyStrategy",
        document_id_strategy="PartialValueStrategy",
        document_id_strategy_overwrite_existing="true",
        value_projection_type="AllowList",
        value_projection_list="a.b",
    )
    assert found is not None
    assert found.filter == {"a.b": "1"}


@pytest.mark.parametrize(
    "strategy", ["ReplaceOneBusinessKeyStrategy", "DeleteOneBusinessKeyStrategy"]
)
def test_a_business_key_is_a_document(strategy: str) -> None:
    with pytest.raises(DataError, match="business key"):
        write({"_id": 1}, writemodel_strategy=strategy)


@pytest.mark.parametrize(
    ("ids", "key", "expected"),
    [
        ("FullKeyStrategy", {"k": "1"}, {"_id": {"k": "1"}}),
        ("ProvidedInKeyStrategy", {"_id": "1"}, {"_id": "1"}),
    ],
)
def test_a_record_without_a_value_deletes(ids: str, key: Any, expected: Any) -> None:
    found = write(None, key, delete_on_null_values="true", document_id_strategy=ids)
    assert found == Write(Kind.DELETE, expected)


def test_tombstones_delete_by_the_paths_of_a_partial_key() -> None:
    found = write(
        None,
        {"a": {"b": "1"}, "c": "2"},
        delete_on_null_values="true",
        delete_writemodel_strategy=f"{STRATEGIES}.DeleteOneTombstoneBusinessKeyStrategy",
        document_id_strategy="PartialKeyStrategy",
        key_projection_type="AllowList",
        key_projection_list="a.b",
    )
    assert found == Write(Kind.DELETE, {"a.b": "1"})


def test_records_without_a_value_are_refused_unless_they_delete() -> None:
    with pytest.raises(DataError, match=r"delete\.on\.null\.values"):
        write(None, {"k": 1})
    with pytest.raises(DataError, match="neither key doc nor value doc"):
        write(None, None, delete_on_null_values="true", document_id_strategy="FullKeyStrategy")


VALUE = {
    "name": "Anon",
    "age": 42,
    "active": True,
    "address": {"city": "Graz", "country": "AT"},
    "food": ["A", {"x": 1, "y": 2}],
    "data": {"k1": {"p": 1, "q": 2}, "k2": {"p": 3}},
}


@pytest.mark.parametrize(
    ("step", "fields", "expected"),
    [
        ("AllowListValueProjector", "name,address.city", {"name", "address.city"}),
        ("AllowListValueProjector", "**", {"name", "age", "active", "address.city",
                                           "address.country", "food", "data.k1.p", "data.k1.q",
                                           "data.k2.p"}),
        ("AllowListValueProjector", "*", {"name", "age", "active", "food"}),
        ("AllowListValueProjector", "data.*.p", {"data.k1.p", "data.k2.p"}),
        ("AllowListValueProjector", "data.**", {"data.k1.p", "data.k1.q", "data.k2.p"}),
        ("AllowListValueProjector", "a*", {"age", "active", "address.city", "address.country"}),
        ("BlockListValueProjector", "name,age,active,food,data", {"address.city",
                                                                  "address.country"}),
        ("BlockListValueProjector", "*", {"address.city", "address.country", "data.k1.p",
                                          "data.k1.q", "data.k2.p"}),
        ("BlockListValueProjector", "data.*.p,address,food,a*,name", {"data.k1.q"}),
        ("BlockListValueProjector", "data.**,food,name,age,active", {"address.city",
                                                                     "address.country"}),
        ("BlockListValueProjector", "**", set()),
    ],
)  # fmt: skip
def test_projections(step: str, fields: str, expected: set[str]) -> None:
    import copy

    found = write(
        copy.deepcopy({**VALUE, "_id": 1}),
        post_processor_chain=f"{STEPS}.{step},{STEPS}.DocumentIdAdder",
        value_projection_type="none",
        value_projection_list=fields,
    )
    assert found is not None
    assert found.document is not None
    found.document.pop("_id", None)
    assert set(leaves(found.document)) == expected


def leaves(document: dict[str, Any], above: str = "") -> list[str]:
    paths = []
    for name, value in document.items():
        if isinstance(value, dict):
            paths += leaves(value, f"{above}{name}.")
        else:
            paths.append(f"{above}{name}")
    return paths


def test_fields_of_documents_in_arrays_are_projected() -> None:
    found = write(
        {"_id": 1, "food": ["A", {"x": 1, "y": 2}]},
        post_processor_chain=f"{STEPS}.BlockListValueProjector",
        value_projection_list="food.x",
    )
    assert found is not None
    assert found.document == {"_id": 1, "food": ["A", {"y": 2}]}


def test_fields_are_renamed_by_mapping_and_by_patterns() -> None:
    found = write(
        {"_id": 1, "my_a": {"b": 2}, "c": 3, "taken": 4, "x": 5},
        {"id": "k"},
        post_processor_chain=f"{STEPS}.field.renaming.RenameByMapping,"
        f"{STEPS}.field.renaming.RenameByRegExp",
        field_renamer_mapping='[{"oldName": "value.c", "newName": "d"},'
        ' {"oldName": "value.x", "newName": "taken"}]',
        field_renamer_regexp=r'[{"regexp": "^value\\.my.*$", "pattern": "my_(a)", '
        r'"replace": "$1$1"}, {"regexp": "value\\.aa\\.b", "pattern": "b", "replace": "e"}]',
    )
    assert found is not None
    assert found.document == {"_id": 1, "taken": 4, "d": 3, "aa": {"e": 2}}


def test_the_place_is_added_and_nulls_are_removed() -> None:
    found = write(
        {"_id": 1, "a": None, "b": {"c": None}, "d": [{"e": None}, None]},
        post_processor_chain=f"{STEPS}.KafkaMetaAdder,{STEPS}.NullFieldValueRemover",
    )
    assert found is not None
    assert found.document == {
        "_id": 1,
        "b": {},
        "d": [{}, None],
        "topic-partition-offset": "t-1-7",
        "CREATE_TIME": Int64(5),
    }


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2021-01-15", datetime(2021, 1, 15, tzinfo=UTC)),
        ("2021-01-15 12:30:45", datetime(2021, 1, 15, 12, 30, 45, tzinfo=UTC)),
        ("2021-01-15T12:30:45.123Z", datetime(2021, 1, 15, 12, 30, 45, 123000, tzinfo=UTC)),
        ("2021-01-15 12:30:45 +02", datetime(2021, 1, 15, 10, 30, 45, tzinfo=UTC)),
        ("2021-01-15T12:30:45 Europe/Berlin", datetime(2021, 1, 15, 11, 30, 45, tzinfo=UTC)),
        ("2021-01-15T12:30:45+01:00[Europe/Berlin]", datetime(2021, 1, 15, 11, 30, 45, tzinfo=UTC)),
    ],
)
def test_times_of_series(text: str, moment: datetime) -> None:
    assert moment_of(text) == moment
    found = write(
        {"_id": 1, "ts": text},
        timeseries_timefield="ts",
        timeseries_timefield_auto_convert="true",
    )
    assert found is not None
    assert found.kind is Kind.INSERT
    assert found.document == {"_id": 1, "ts": moment}


def test_namespaces_by_fields() -> None:
    mapper = "com.mongodb.kafka.connect.sink.namespace.mapping.FieldPathNamespaceMapper"
    given = {
        "namespace_mapper": mapper,
        "namespace_mapper_value_collection_field": "where.coll",
        "namespace_mapper_key_database_field": "db",
    }
    assert place({"_id": 1, "where": {"coll": "c"}}, {"db": "d"}, **given) == Namespace("d", "c")
    assert place({"_id": 1}, None, **given) == Namespace("shop", "t")
    assert place({"_id": 1, "where.coll": "dotted"}, None, **given) == Namespace("shop", "dotted")
    strict = {**given, "namespace_mapper_error_if_invalid": "true"}
    for value, key in (
        ({"_id": 1}, {"db": "d"}),
        ({"where": {"coll": 5}}, {"db": "d"}),
        ({}, None),
    ):
        with pytest.raises(DataError):
            place(value, key, **strict)
    with pytest.raises(DataError, match="is not a valid database name"):
        place({"_id": 1}, {"db": "a b"}, **given)


def test_a_topic_may_have_settings_of_its_own() -> None:
    given = {"topic.override.a.b.collection": "special", "topic.override.a.b.max.batch.size": "3"}
    config = MONGODB_SINK.parse({"database": "shop", **given})
    assert override_problems(config, "a.b") == []
    assert plan("a.b", **given).most == 3
    assert place({"_id": 1}, topic="a.b", **given) == Namespace("shop", "special")
    assert place({"_id": 1}, topic="other", **given) == Namespace("shop", "other")


def test_settings_of_a_topic_that_are_wrong_are_named_as_they_were_given() -> None:
    config = MONGODB_SINK.parse({"database": "d", "topic.override.t.max.batch.size": "-1"})
    ((name, text),) = override_problems(config, "t")
    assert name == "topic.override.t.max.batch.size"
    assert name in text
    with pytest.raises(ConfigInvalid, match=name):
        plan(**{"topic.override.t.max.batch.size": "-1"})


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"connection.uri": "http://x"}, "connection.uri"),
        ({"connection.uri": "mongodb://"}, "connection.uri"),
        ({"connection.uri": "mongodb://u:p@"}, "connection.uri"),
        ({"database": None}, "database"),
        ({"document.id.strategy": "com.example.MyStrategy"}, "document.id.strategy"),
        ({"writemodel.strategy": "Nope"}, "writemodel.strategy"),
        ({"post.processor.chain": "com.example.Mine"}, "post.processor.chain"),
        ({"change.data.capture.handler": "com.example.Mine"}, "change.data.capture.handler"),
        ({"delete.on.null.values": "true"}, "delete.on.null.values"),
        ({"document.id.strategy": f"{IDS}.PartialKeyStrategy"}, "document.id.strategy"),
        ({"namespace.mapper": "FieldPathNamespaceMapper"}, "namespace.mapper"),
        ({"field.renamer.mapping": "{"}, "field.renamer.mapping"),
        ({"field.renamer.mapping": "[{}]"}, "field.renamer.mapping"),
        (
            {"field.renamer.regexp": '[{"regexp":"(","pattern":"a","replace":""}]'},
            "field.renamer.regexp",
        ),
        ({"timeseries.metafield": "m"}, "timeseries.metafield"),
        ({"timeseries.granularity": "days"}, "timeseries.granularity"),
        ({"csfle.enabled": "true"}, "csfle.enabled"),
        ({"field.value.transformer": "com.example.T"}, "field.value.transformer"),
        ({"topic.override.%s.%s": "x"}, "topic.override.%s.%s"),
        ({"mongo.errors.tolerance": "some"}, "mongo.errors.tolerance"),
        ({"server.api.version": "2"}, "server.api.version"),
    ],
)
def test_settings_that_are_refused(given: dict[str, str | None], setting: str) -> None:
    whole = {"database": "d", **given}
    props = {name: value for name, value in whole.items() if value is not None}
    wrong = {value.name: value.errors for value in MONGODB_SINK.validate(props) if value.errors}
    assert setting in wrong
    assert not any("u:p" in text for texts in wrong.values() for text in texts)
