"""Rules of data contracts, which cannot be run: data of such schemas are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.api import Use
from penstock.data.records import Column, Failed
from penstock.data.schema import INT32, struct
from penstock.schema_registry import wire
from penstock.schema_registry.avro import AvroConverter
from penstock.schema_registry.json_schema import JsonSchemaConverter
from penstock.schema_registry.protobuf import ProtobufConverter

Ask = Callable[..., tuple[int, Any]]

ENCRYPT = {"name": "hide", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}
VALUE = Column.of([{"a": 1}], struct({"a": INT32}, name="R"))


@pytest.fixture(
    params=[AvroConverter, JsonSchemaConverter, ProtobufConverter], ids=lambda kind: kind.__name__
)
def kind(request: pytest.FixtureRequest) -> type[Any]:
    return request.param  # type: ignore[no-any-return]


def converter(kind: type[Any], url: str, **settings: str) -> Any:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    config = kind.plugin.config.parse({"schema.registry.url": url, **given})
    return kind(config, Use.VALUE)


def written(kind: type[Any], url: str, ask: Ask, rule: dict[str, Any]) -> bytes:
    """A message that was written without the rule, and now is of a schema with it."""
    (cell,) = converter(kind, url).from_connect(["t"], VALUE, {})
    _, body = ask("GET", "/schemas/ids/1")
    status, registered = ask(
        "POST", "/subjects/t-value/versions", {**body, "ruleSet": {"domainRules": [rule]}}
    )
    assert (status, registered["id"]) == (200, 2)
    return wire.head(2) + bytes(cell[wire.HEAD_SIZE :])


def read(kind: type[Any], url: str, cell: bytes) -> Failed:
    failed: Failed = {}
    converter(kind, url).to_connect(["t"], [cell], failed)
    return failed


def write(kind: type[Any], url: str) -> Failed:
    failed: Failed = {}
    latest = converter(
        kind,
        url,
        auto_register_schemas="false",
        use_latest_version="true",
        latest_compatibility_strict="false",
    )
    latest.from_connect(["t"], VALUE, failed)
    return failed


def test_data_of_a_schema_with_a_rule_are_neither_read_nor_written(
    kind: type[Any], ask: Ask, registry_url: str
) -> None:
    cell = written(kind, registry_url, ask, ENCRYPT)
    for failed in (read(kind, registry_url, cell), write(kind, registry_url)):
        assert "Could not find rule executor of type ENCRYPT" in str(failed[0])
        assert "'hide'" in str(failed[0])


@pytest.mark.parametrize(
    ("change", "reads", "writes"),
    [
        ({"disabled": True}, True, True),
        ({"mode": "READ"}, False, True),
        ({"mode": "WRITE"}, True, False),
        ({"mode": "UPGRADE"}, True, True),
        ({"onFailure": "NONE"}, True, True),
        ({"onFailure": "ERROR,NONE"}, True, False),
    ],
)
def test_a_rule_prevents_only_that_for_which_it_runs(
    ask: Ask, registry_url: str, change: dict[str, Any], reads: bool, writes: bool
) -> None:
    kind = AvroConverter
    cell = written(kind, registry_url, ask, {**ENCRYPT, **change})
    assert (read(kind, registry_url, cell) == {}) == reads
    assert (write(kind, registry_url) == {}) == writes
