"""Change events as writes."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from penstock.api import DataError
from penstock.connectors.mongodb.write.entry import Kind, Write

from .builders import write

CDC = "com.mongodb.kafka.connect.sink.cdc"
MONGO = f"{CDC}.debezium.mongodb.MongoDbHandler"
STREAM = f"{CDC}.debezium.mongodb.ChangeStreamHandler"
RDBMS = f"{CDC}.debezium.rdbms.RdbmsHandler"
OWN = f"{CDC}.mongodb.ChangeStreamHandler"
QLIK = f"{CDC}.qlik.rdbms.RdbmsHandler"
OID = ObjectId("65a000000000000000000001")
KEY = {"id": '{"$oid": "65a000000000000000000001"}'}


@pytest.mark.parametrize(
    ("handler", "key", "value", "expected"),
    [
        (
            MONGO,
            KEY,
            {"op": "c", "after": '{"_id": {"$oid": "65a000000000000000000001"}, "a": 1}'},
            Write(Kind.REPLACE, {"_id": OID}, {"_id": OID, "a": 1}, upsert=True),
        ),
        (
            MONGO,
            {"id": "5"},
            {"op": "u", "patch": '{"$v": 1, "$set": {"a": 2}}'},
            Write(Kind.UPDATE, {"_id": 5}, {"$set": {"a": 2}}),
        ),
        (
            MONGO,
            {"id": "5"},
            {"op": "u", "patch": '{"_id": 5, "a": 2}'},
            Write(Kind.REPLACE, {"_id": 5}, {"_id": 5, "a": 2}, upsert=True),
        ),
        (MONGO, {"id": '"x"'}, {"op": "d"}, Write(Kind.DELETE, {"_id": "x"})),
        (MONGO, {"id": "5"}, None, None),
        (
            STREAM,
            {"id": "5"},
            {"op": "u", "after": '{"_id": 5, "a": 2}'},
            Write(Kind.REPLACE, {"_id": 5}, {"_id": 5, "a": 2}, upsert=True),
        ),
        (STREAM, {"id": "5"}, {"op": "r", "after": '{"_id": 5}'},
         Write(Kind.REPLACE, {"_id": 5}, {"_id": 5}, upsert=True)),
        (
            RDBMS,
            {"id": 1},
            {"op": "u", "before": {"id": 1, "a": 1}, "after": {"id": 1, "a": 2}},
            Write(Kind.REPLACE, {"_id": {"id": 1}}, {"_id": {"id": 1}, "a": 2}, upsert=True),
        ),
        (RDBMS, {"id": 1}, {"op": "d", "before": {}}, Write(Kind.DELETE, {"_id": {"id": 1}})),
        (RDBMS, None, {"op": "d", "before": {"a": 1}}, Write(Kind.DELETE, {"a": 1})),
        (
            RDBMS,
            None,
            {"op": "u", "before": {"a": 1}, "after": {"a": 2}},
            Write(Kind.REPLACE, {"a": 1}, {"a": 2}, upsert=True),
        ),
        (RDBMS, {"id": 1}, None, None),
        (RDBMS, {"id": 1}, {"ddl": "CREATE TABLE"}, None),
        (
            OWN,
            None,
            {"operationType": "insert", "documentKey": {"_id": 1}, "fullDocument": {"_id": 1}},
            Write(Kind.REPLACE, {"_id": 1}, {"_id": 1}, upsert=True),
        ),
        (
            OWN,
            None,
            {"operationType": "update", "documentKey": {"_id": 1},
             "updateDescription": {"updatedFields": {"a": 2}, "removedFields": ["b"]}},
            Write(Kind.UPDATE, {"_id": 1}, {"$set": {"a": 2}, "$unset": {"b": ""}}),
        ),
        (
            OWN,
            None,
            {"operationType": "update", "documentKey": {"_id": 1}, "fullDocument": {"a": 2}},
            Write(Kind.REPLACE, {"_id": 1}, {"a": 2}),
        ),
        (OWN, None, {"operationType": "delete", "documentKey": {"_id": 1}},
         Write(Kind.DELETE, {"_id": 1})),
        (OWN, None, {"operationType": "drop"}, None),
        (
            QLIK,
            {"id": 1},
            {"message": {"headers": {"operation": "INSERT"}, "data": {"a": 1}}},
            Write(Kind.REPLACE, {"_id": {"id": 1}}, {"_id": {"id": 1}, "a": 1}, upsert=True),
        ),
        (
            QLIK,
            {"id": 1},
            {"headers": {"operation": "UPDATE"}, "data": {"a": 1, "b": 2}, "beforeData": {"a": 1}},
            Write(Kind.UPDATE, {"_id": {"id": 1}}, {"$set": {"b": 2}}, upsert=True),
        ),
        (
            QLIK,
            None,
            {"headers": {"operation": "DELETE"}, "data": {"a": 1}, "beforeData": None},
            Write(Kind.DELETE, {"a": 1}),
        ),
        (
            QLIK,
            {"id": 1},
            {"headers": {"operation": "UPDATE"}, "data": {"a": 1}, "beforeData": {"a": 1}},
            None,
        ),
    ],
)  # fmt: skip
def test_events(handler: str, key: Any, value: Any, expected: Write | None) -> None:
    assert write(value, key, change_data_capture_handler=handler) == expected


@pytest.mark.parametrize(
    ("handler", "key", "value"),
    [
        (MONGO, None, {"op": "c", "after": "{}"}),
        (MONGO, {"id": "5"}, {"op": "c"}),
        (MONGO, {"id": "5"}, {"op": "c", "after": None}),
        (MONGO, {"id": "5"}, {"op": "c", "after": "{nonsense"}),
        (MONGO, {"id": "5"}, {"op": "x"}),
        (MONGO, {"id": "5"}, {"op": 1}),
        (MONGO, {"other": "5"}, {"op": "d"}),
        (RDBMS, None, {"op": "u", "before": None, "after": {"a": 1}}),
        (RDBMS, {"id": 1}, {"op": "c", "after": None}),
        (RDBMS, {"id": 1}, {"a": 1}),
        (OWN, None, None),
        (OWN, None, {"operationType": 5}),
        (OWN, None, {"operationType": "insert", "fullDocument": {}}),
        (OWN, None, {"operationType": "insert", "documentKey": 5, "fullDocument": {}}),
        (OWN, None, {"operationType": "update", "documentKey": {"_id": 1},
                     "updateDescription": {"updatedFields": {}, "removedFields": [], "new": 1}}),
        (OWN, None, {"operationType": "update", "documentKey": {"_id": 1},
                     "updateDescription": {"updatedFields": {}}}),
        (QLIK, None, {"headers": {}}),
        (QLIK, None, {"headers": {"operation": "SHRED"}}),
        (QLIK, None, {"headers": 5}),
    ],
)  # fmt: skip
def test_events_that_are_none(handler: str, key: Any, value: Any) -> None:
    with pytest.raises(DataError):
        write(value, key, change_data_capture_handler=handler)


def test_nulls_can_be_left_out() -> None:
    given = {
        "change_data_capture_handler": RDBMS,
        "change_data_capture_handler_remove_null_values": "true",
    }
    found = write({"op": "c", "after": {"id": 1, "a": None, "b": 2}}, {"id": 1}, **given)
    assert found is not None
    assert found.document == {"_id": {"id": 1}, "b": 2}
