"""What commands that store, show, validate and compare configurations request, and print.

Bodies are those of kafka-connect.md §1.5 and §1.8.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .answers import INFO, PAUSED, SINK, STATUS, not_found
from .workers import FakeWorkers, Penstock


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "snk.properties"
    path.write_text("name=snk\nconnector.class=FileStreamSink\ntopics=t\n")
    return str(path)


def test_loading_a_predefined_connector_prints_it(penstock: Penstock, workers: FakeWorkers) -> None:
    sent = {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": "test.txt",
        "topic": "connect-test",
        "name": "file-source",
    }
    info = {"name": "file-source", "config": sent, "tasks": [], "type": "source"}
    workers.on("POST", "/connectors", (201, info))
    result = penstock("load", "file-source")
    assert workers.asked == [("POST", "/connectors", {"name": "file-source", "config": sent})]
    assert result.code == 0
    assert json.loads(result.out) == info
    assert result.lines[0] == "{"


def test_the_predefined_connectors_are_listed(penstock: Penstock, workers: FakeWorkers) -> None:
    assert {line.split()[0] for line in penstock("list", "predefined").lines[1:]} == {
        "file-source",
        "file-sink",
        "jdbc-source",
        "jdbc-sink",
    }
    assert workers.asked == []


def test_loading_what_is_neither_predefined_nor_in_a_file_says_how(penstock: Penstock) -> None:
    result = penstock("load", "jdbc")
    assert result.code == 5
    assert "file-source, file-sink" in result.err
    assert "penstock load jdbc -d FILE" in result.err


def test_the_name_on_the_command_line_counts(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    workers.on("POST", "/connectors", (201, INFO))
    assert penstock("load", "other", "-d", file, "--set", "topics=u", "--set", "x=a=b").code == 0
    [(_, _, body)] = workers.asked
    assert body == {
        "name": "other",
        "config": {**SINK, "name": "other", "topics": "u", "x": "a=b"},
    }


def test_creating_takes_a_create_request_from_standard_input(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("POST", "/connectors", (201, INFO))
    request = {"name": "snk", "config": {"tasks.max": 1, "a": True}, "initial_state": "stopped"}
    result = penstock("create", "-", stdin=json.dumps(request))
    assert (result.code, result.out) == (0, "created snk (sink)\n")
    config = {"tasks.max": "1", "a": "true", "name": "snk"}
    assert workers.asked == [
        ("POST", "/connectors", {"name": "snk", "config": config, "initial_state": "STOPPED"})
    ]


def test_updating_tells_what_has_changed(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    workers.on("GET", "/connectors/snk/config", (200, {**SINK, "topics": "old", "x.secret": "s"}))
    workers.on("PUT", "/connectors/snk/config", (200, INFO))
    result = penstock("update", file)
    assert workers.asked[1] == ("PUT", "/connectors/snk/config", SINK)
    assert result.out == "updated snk\n-topics=old\n+topics=t\n-x.secret=********\n"


def test_updating_what_is_not_there_creates_it_only_when_asked_to(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    workers.on("GET", "/connectors/snk/config", not_found("Connector snk not found"))
    workers.on("PUT", "/connectors/snk/config", (201, INFO))
    assert penstock("update", file).code == 5
    assert [method for method, _, _ in workers.asked] == ["GET"]
    result = penstock("update", file, "--create")
    assert (result.code, result.out) == (0, "created snk (sink)\n")


def test_a_file_with_a_state_creates_it_in_that_state(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    workers.on("GET", "/connectors/snk/config", not_found("Connector snk not found"))
    workers.on("POST", "/connectors", (201, INFO))
    request = {"name": "snk", "config": SINK, "initial_state": "PAUSED"}
    assert penstock("update", "-", "--create", stdin=json.dumps(request)).code == 0
    assert workers.asked[-1] == ("POST", "/connectors", request)


def test_patching_sends_only_what_changes(
    penstock: Penstock, workers: FakeWorkers, tmp_path: Path
) -> None:
    workers.on("GET", "/connectors/snk/config", (200, {**SINK, "a": "1"}))
    workers.on("PATCH", "/connectors/snk/config", (200, INFO))
    file = tmp_path / "patch.json"
    file.write_text('{"a": null, "b": 1.50, "c": "x"}')
    result = penstock("patch", "snk", str(file), "--set", "c=y")
    assert (result.code, result.out) == (0, "updated snk\n-a=1\n")
    assert workers.asked[-1][2] == {"a": None, "b": "1.50", "c": "y"}


def test_patching_nothing_is_refused_before_anybody_is_asked(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    assert penstock("patch", "snk").code == 2
    assert workers.asked == []


def test_the_configuration_is_a_table_with_secrets_masked(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    stored = {"b": "1", "a.password": "hunter2", "c.token": "${file:/f:k}", "a.secret": ""}
    workers.on("GET", "/connectors/snk/config", (200, stored))
    assert penstock("config", "snk").lines == [
        "KEY         VALUE",
        "a.password  ********",
        "a.secret",
        "b           1",
        "c.token     ${file:/f:k}",
    ]
    assert "hunter2" in penstock("config", "snk", "--show-secrets").out


def test_a_printed_properties_file_can_be_loaded(
    penstock: Penstock, workers: FakeWorkers, tmp_path: Path
) -> None:
    stored = {**SINK, "a.password": " hü=nter:2", "x": "two\nlines"}
    workers.on("GET", "/connectors/snk/config", (200, stored))
    file = tmp_path / "again.properties"
    file.write_text(penstock("config", "snk", "--properties").out)
    assert penstock("diff", str(file)).code == 0


def infos(**errors: list[str]) -> dict[str, object]:
    """`ConfigInfos` (kafka-connect.md §1.8) of the sink, with these errors."""
    return {
        "name": "FileStreamSink",
        "error_count": sum(map(len, errors.values())),
        "groups": ["Common"],
        "configs": [
            {
                "definition": {"name": key, "type": "STRING", "required": False},
                "value": {
                    "name": key,
                    "value": value,
                    "recommended_values": [],
                    "errors": errors.get(key, []),
                    "visible": True,
                },
            }
            for key, value in {**SINK, **dict.fromkeys(errors, "v")}.items()
        ]
        # Of a null setting only name and type are returned.
        + [{"definition": {"name": "predicates", "type": "LIST"}, "value": None}],
    }


VALIDATE = "/connector-plugins/FileStreamSink/config/validate"


def test_invalid_settings_are_shown_by_key(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    workers.on(
        "PUT", VALIDATE, (200, infos(topics=["Must configure one"], password=["one", "two"]))
    )
    result = penstock("validate", file)
    assert result.code == 3
    assert result.lines == [
        "KEY       VALUE     ERROR",
        "topics    v         Must configure one",
        "password  ********  one",
        "password  ********  two",
    ]
    assert workers.asked == [("PUT", VALIDATE, SINK)]


def test_a_valid_configuration_is_called_valid_and_odd_keys_are_reported(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    workers.on("PUT", VALIDATE, (200, infos()))
    result = penstock("validate", file, "--set", "topicz=t")
    assert (result.code, result.out) == (0, "'snk' is valid.\n")
    assert "topicz" in result.err
    assert penstock("validate", file).err == ""
    assert penstock("validate", file, "--set", "predicates=").err == ""


def test_a_configuration_without_a_class_is_not_valid(
    penstock: Penstock, workers: FakeWorkers
) -> None:
    result = penstock("validate", "-", stdin="name=x\n")
    assert result.code == 3
    assert 'Missing required configuration "connector.class"' in result.err
    assert workers.asked == []


def test_a_class_nobody_has_is_not_valid(penstock: Penstock, workers: FakeWorkers) -> None:
    text = (
        "org.apache.kafka.connect.errors.ConnectException: Failed to find any class that "
        "implements Connector and which name matches Nope, available connectors are: "
    )
    path = "/connector-plugins/Nope/config/validate"
    workers.on("PUT", path, (400, {"error_code": 400, "message": text}))
    result = penstock("validate", "-", stdin="name=x\nconnector.class=Nope\n")
    assert result.code == 3
    assert "penstock list plugins" in result.err


def test_a_difference_is_reported_by_key(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    stored = {**SINK, "topics": "a\nb", "gone": "1", "db.password": "x"}
    workers.on("GET", "/connectors/snk/config", (200, stored))
    result = penstock("diff", file, "--set", "db.password=y", "--set", "new=2")
    assert result.code == 1
    assert result.lines == [
        "--- snk (stored)",
        f"+++ snk ({file})",
        "-db.password=********",
        "+db.password=********",
        "-gone=1",
        "+new=2",
        "-topics=a",
        "-  b",
        "+topics=t",
    ]
    assert [method for method, _, _ in workers.asked] == ["GET"], "diff only looks"


def test_a_difference_for_programs(penstock: Penstock, workers: FakeWorkers, file: str) -> None:
    workers.on("GET", "/connectors/snk/config", (200, {**SINK, "topics": "old", "gone": "1"}))
    workers.on("PUT", VALIDATE, (200, infos()))
    result = penstock("diff", file, "--set", "new=2", "--validate", "--json")
    assert result.code == 1
    assert json.loads(result.out) == {
        "name": "snk",
        "exists": True,
        "added": {"new": "2"},
        "removed": {"gone": "1"},
        "changed": {"topics": {"from": "old", "to": "t"}},
        "validation": infos(),
    }


def test_no_difference_is_exit_code_0(penstock: Penstock, workers: FakeWorkers, file: str) -> None:
    workers.on("GET", "/connectors/snk/config", (200, SINK))
    result = penstock("diff", file)
    assert (result.code, result.out) == (0, "")


def test_a_missing_connector_differs(penstock: Penstock, workers: FakeWorkers, file: str) -> None:
    workers.on("GET", "/connectors/snk/config", not_found("Connector snk not found"))
    result = penstock("diff", file)
    assert result.code == 1
    assert "would be created" in result.err
    assert result.lines[2:] == ["+connector.class=FileStreamSink", "+name=snk", "+topics=t"]


def test_a_difference_that_is_not_valid_says_so(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    workers.on("GET", "/connectors/snk/config", (200, SINK))
    workers.on("PUT", VALIDATE, (200, infos(topics=["Bad"])))
    result = penstock("diff", file, "--validate")
    assert result.code == 3
    assert "Bad" in result.out


def test_a_connector_created_paused_is_waited_for_to_be_paused(
    penstock: Penstock, workers: FakeWorkers, file: str
) -> None:
    workers.on("POST", "/connectors", (201, INFO))
    workers.on("GET", "/connectors/snk/status", (200, {**STATUS, "connector": PAUSED, "tasks": []}))
    assert penstock("create", file, "--initial-state", "paused", "--wait").code == 0
