"""The registry in memory answers as the REST API of Confluent's Schema Registry does."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

Ask = Callable[..., tuple[int, Any]]


def record(*fields: dict[str, Any], name: str = "n.R") -> dict[str, Any]:
    return {"schema": json.dumps({"type": "record", "name": name, "fields": list(fields)})}


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "int"}
B0 = {"name": "b", "type": "int", "default": 0}


def register(ask: Ask, subject: str, body: dict[str, Any], **query: str) -> int:
    status, answer = ask("POST", f"/subjects/{subject}/versions", body, **query)
    assert status == 200, answer
    return int(answer["id"])


def test_equal_schemas_have_one_id_in_all_subjects(ask: Ask) -> None:
    assert register(ask, "s", record(A)) == 1
    assert register(ask, "s", record(A)) == 1
    assert register(ask, "t", record(A)) == 1
    assert register(ask, "t", record(A, B0)) == 2
    assert ask("GET", "/subjects") == (200, ["s", "t"])
    assert ask("GET", "/subjects/s/versions") == (200, [1])
    assert ask("GET", "/subjects/t/versions") == (200, [1, 2])
    assert ask("GET", "/schemas/ids/1/versions") == (
        200,
        [{"subject": "s", "version": 1}, {"subject": "t", "version": 1}],
    )
    assert ask("GET", "/schemas/ids/1/subjects") == (200, ["s", "t"])


@pytest.mark.parametrize(
    "text",
    [
        '{ "fields":[{"type":{"type":"int"},"name":"a"}],"name":"R","namespace":"n",'
        '"type":"record"}',
        '{"type":"record","name":"n.R","fields":[{"name":"a","type":"int"}]}',
    ],
)
def test_two_ways_to_write_a_schema_are_one_schema(ask: Ask, text: str) -> None:
    register(ask, "s", record(A))
    status, found = ask("POST", "/subjects/s", {"schema": text})
    assert (status, found["id"], found["version"], found["subject"]) == (200, 1, 1, "s")


def test_a_doc_makes_another_schema(ask: Ask) -> None:
    register(ask, "s", record(A))
    assert register(ask, "s", record({**A, "doc": "words"})) == 2


def test_a_schema_is_served_with_its_type_and_references(ask: Ask) -> None:
    register(ask, "a", record(A, name="n.A"))
    body = {
        **record({"name": "x", "type": "n.A"}),
        "references": [{"name": "n.A", "subject": "a", "version": 1}],
    }
    register(ask, "s", body)
    status, found = ask("GET", "/schemas/ids/2")
    assert (status, found["references"]) == (200, body["references"])
    assert "schemaType" not in found
    register(ask, "j", {"schema": '{"type":"object"}', "schemaType": "JSON"})
    assert ask("GET", "/schemas/ids/3")[1] == {
        "schema": '{"type":"object"}',
        "schemaType": "JSON",
    }
    assert ask("GET", "/schemas/ids/3/schema") == (200, {"type": "object"})
    assert ask("GET", "/subjects/a/versions/1/referencedby") == (200, [2])
    assert ask("DELETE", "/subjects/a/versions/1")[1]["error_code"] == 42206
    assert ask("DELETE", "/subjects/a")[1]["error_code"] == 42206
    assert ask("DELETE", "/subjects/s") == (200, [1])
    assert ask("DELETE", "/subjects/a") == (200, [1])


def test_deleting_is_hiding_and_then_removing(ask: Ask) -> None:
    register(ask, "s", record(A))
    register(ask, "s", record(A, B0))
    assert ask("DELETE", "/subjects/s/versions/1", permanent="true")[1]["error_code"] == 40407
    assert ask("DELETE", "/subjects/s/versions/1") == (200, 1)
    assert ask("DELETE", "/subjects/s/versions/1")[1]["error_code"] == 40406
    assert ask("GET", "/subjects/s/versions") == (200, [2])
    assert ask("GET", "/subjects/s/versions", deleted="true") == (200, [1, 2])
    assert ask("GET", "/subjects/s/versions/1")[1]["error_code"] == 40402
    assert ask("GET", "/subjects/s/versions/1", deleted="true")[1]["id"] == 1
    assert ask("POST", "/subjects/s", record(A))[1]["error_code"] == 40403
    assert ask("POST", "/subjects/s", record(A), deleted="true")[1]["version"] == 1
    assert ask("GET", "/schemas/ids/1")[0] == 200
    assert ask("DELETE", "/subjects/s/versions/1", permanent="true") == (200, 1)
    assert ask("GET", "/schemas/ids/1")[1]["error_code"] == 40403
    assert ask("DELETE", "/subjects/s", permanent="true")[1]["error_code"] == 40405
    assert ask("DELETE", "/subjects/s") == (200, [2])
    assert ask("DELETE", "/subjects/s")[1]["error_code"] == 40404
    assert ask("GET", "/subjects") == (200, [])
    assert ask("GET", "/subjects", deleted="true") == (200, ["s"])
    assert ask("DELETE", "/subjects/s", permanent="true") == (200, [2])
    assert ask("GET", "/subjects", deleted="true") == (200, [])


def test_a_version_number_is_not_given_twice(ask: Ask) -> None:
    register(ask, "s", record(A))
    ask("DELETE", "/subjects/s/versions/1")
    assert register(ask, "s", record(A)) == 1
    assert ask("GET", "/subjects/s/versions") == (200, [2])


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "message"),
    [
        ("GET", "/subjects/nope/versions", None, 40401, "Subject 'nope' not found."),
        ("POST", "/subjects/nope", record(A), 40401, "Subject 'nope' not found."),
        ("DELETE", "/subjects/nope", None, 40401, "Subject 'nope' not found."),
        ("GET", "/subjects/s/versions/9", None, 40402, "Version 9 not found."),
        ("GET", "/schemas/ids/77", None, 40403, "Schema 77 not found"),
        ("POST", "/subjects/s", record(B), 40403, "Schema not found"),
        ("GET", "/subjects/s/versions/zero", None, 42202, "not a valid version id"),
        ("GET", "/subjects/s/versions/0", None, 42202, "between [1, 2^31-1]"),
        ("POST", "/subjects/s/versions", {"schema": "{"}, 42201, "Invalid schema"),
        ("POST", "/subjects/s/versions", {"schema": ""}, 42201, "Empty schema"),
        ("POST", "/subjects/s/versions", {"schema": '"nope"'}, 42201, "Invalid schema"),
        ("POST", "/subjects/s/versions", {**record(A), "schemaType": "X"}, 42201, "type X"),
        (
            "POST",
            "/subjects/s/versions",
            {**record(A), "references": [{"name": "x", "subject": "q", "version": 1}]},
            42201,
            "no schema reference found",
        ),
        ("PUT", "/config", {"compatibility": "SOME"}, 42203, "Invalid compatibility level"),
        ("PUT", "/mode", {"mode": "SOME"}, 42204, "Invalid mode"),
        ("GET", "/config/s", None, 40408, "does not have subject-level compatibility"),
        ("GET", "/mode/s", None, 40409, "does not have subject-level mode"),
        ("POST", "/subjects/s/versions", record(B), 409, 'for subject "s", details: ['),
        ("GET", "/nowhere", None, 404, "Not Found"),
        ("PUT", "/subjects", None, 405, "Method Not Allowed"),
    ],
)
def test_refusals_have_the_documented_codes(
    ask: Ask, method: str, path: str, body: object, code: int, message: str
) -> None:
    register(ask, "s", record(A))
    status, answer = ask(method, path, body)
    assert answer["error_code"] == code
    assert status == (code // 100 if code > 999 else code)
    assert message in answer["message"]


LEVELS: list[tuple[str, list[str]]] = [
    # level, which of these may follow {a}: field added, field with default added, field removed
    ("NONE", ["added", "defaulted", "removed"]),
    ("BACKWARD", ["defaulted", "removed"]),
    ("FORWARD", ["added", "defaulted"]),
    ("FULL", ["defaulted"]),
]


@pytest.mark.parametrize(("level", "allowed"), LEVELS)
def test_compatibility_is_checked_by_level(ask: Ask, level: str, allowed: list[str]) -> None:
    ask("PUT", "/config/s", {"compatibility": level})
    assert ask("GET", "/config/s") == (200, {"compatibilityLevel": level})
    register(ask, "s", record(A, {"name": "r", "type": "int"}))
    candidates = {
        "added": record(A, {"name": "r", "type": "int"}, B),
        "defaulted": record(A, {"name": "r", "type": "int"}, B0),
        "removed": record(A),
    }
    possible = [
        name
        for name, body in candidates.items()
        if ask("POST", "/compatibility/subjects/s/versions/latest", body)[1]["is_compatible"]
    ]
    assert possible == allowed
    for name, body in candidates.items():
        status, answer = ask("POST", "/subjects/s/versions", body)
        assert (status == 200) is (name in allowed), answer
        if status == 200:
            number = ask("GET", "/subjects/s/versions/latest")[1]["version"]
            ask("DELETE", f"/subjects/s/versions/{number}")


def test_only_transitive_levels_look_at_all_versions(ask: Ask) -> None:
    ask("PUT", "/config/s", {"compatibility": "NONE"})
    register(ask, "s", record({"name": "x", "type": "string"}))
    register(ask, "s", record(A))
    again = record(A, {"name": "x", "type": "int", "default": 1})
    for level, allowed in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
        ask("PUT", "/config/s", {"compatibility": level})
        answer = ask("POST", "/compatibility/subjects/s/versions", again, verbose="true")[1]
        assert answer["is_compatible"] is allowed
        assert bool(answer["messages"]) is not allowed
    assert ask("POST", "/subjects/s/versions", again)[0] == 409


def test_a_subjects_level_wins_over_the_global_one(ask: Ask) -> None:
    assert ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask("PUT", "/config", {"compatibility": "full"}) == (200, {"compatibility": "FULL"})
    assert ask("GET", "/config/s", defaultToGlobal="true")[1] == {"compatibilityLevel": "FULL"}
    ask("PUT", "/config/s", {"compatibility": "NONE"})
    register(ask, "s", record(A))
    register(ask, "s", record(B))
    assert ask("DELETE", "/config/s") == (200, {"compatibilityLevel": "NONE"})
    assert ask("POST", "/subjects/s/versions", record(A, B))[0] == 409


def test_nothing_is_registered_while_read_only(ask: Ask) -> None:
    register(ask, "s", record(A))
    assert ask("PUT", "/mode", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert ask("POST", "/subjects/s/versions", record(A))[1]["error_code"] == 42205
    assert ask("GET", "/schemas/ids/1")[0] == 200
    ask("PUT", "/mode/s", {"mode": "READWRITE"})
    assert ask("POST", "/subjects/s/versions", record(A))[0] == 200


def test_protobuf_is_served_serialized_as_it_was_registered(ask: Ask) -> None:
    def file(*numbers: int, type: int = FieldDescriptorProto.TYPE_STRING) -> dict[str, str]:
        descriptor = FileDescriptorProto(name="x.proto", syntax="proto3")
        message = descriptor.message_type.add(name="M")
        for number in numbers:
            message.field.add(name=f"f{number}", number=number, type=type, label=1)
        text = b64encode(descriptor.SerializeToString()).decode()
        return {"schema": text, "schemaType": "PROTOBUF"}

    register(ask, "s", file(1))
    assert ask("GET", "/schemas/ids/1", format="serialized")[1] == file(1)
    register(ask, "s", file(1, 2))
    register(ask, "s", file(2))
    status, answer = ask("POST", "/subjects/s/versions", file(2, type=5))
    assert status == 409
    assert "FIELD_KIND_CHANGED at /M/2: f2" in answer["message"]
