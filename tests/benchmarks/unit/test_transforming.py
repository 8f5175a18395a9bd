"""The cases of the benchmark of transforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.inputs import JSON, SCHEMAS
from benchmarks.transforming import CASES, Case, digest, lines_written
from penstock.api import Transform
from penstock.config.worker import parse_distributed
from penstock.plugins.registry import Registry
from penstock.runtime.planning import Planner

REGISTRY = Registry.installed()


@pytest.fixture(scope="module")
def planner() -> Planner:
    storage = ("config.storage", "offset.storage", "status.storage")
    worker = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **{f"{name}.topic": name for name in storage},
    }
    return Planner(parse_distributed(worker), REGISTRY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_a_valid_configuration(case: Case, planner: Planner) -> None:
    sink = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    props = {"name": "c", "connector.class": sink, "topics": "t", "file": "f", **case.settings()}
    found = planner.validate(props)
    errors = [error for info in found["configs"] for error in info["value"]["errors"]]
    assert errors == []


def test_every_built_in_transform_is_measured() -> None:
    measured = {cls.partition("$")[0] for case in CASES for cls, _ in case.steps}
    package = "org.apache.kafka.connect.transforms."
    builtin = {
        entry.plugin.class_name.removeprefix(package).partition("$")[0]
        for entry in REGISTRY.found
        if issubclass(entry.cls, Transform) and entry.plugin.class_name.startswith(package)
    }
    assert builtin, "the registry knows Kafka's transforms"
    assert measured == builtin


def test_lines_are_counted_while_the_file_grows(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    count = lines_written(file)
    assert count() == 0
    file.write_bytes(b"a\nb")
    assert count() == 1
    with file.open("ab") as out:
        out.write(b"\nc\n")
    assert count() == 3


def test_a_digest_does_not_depend_on_the_order_of_lines(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in "abc")
    first.write_text("x\ny\n")
    second.write_text("y\nx\n")
    other.write_text("x\nx\n")
    assert digest(first) == digest(second) != digest(other)


def test_both_kinds_of_records_have_the_fields_that_the_cases_name() -> None:
    assert set(JSON.fields) == set(SCHEMAS.fields) == {"id", "name", "city", "score", "active"}
