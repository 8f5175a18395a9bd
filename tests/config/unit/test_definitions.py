"""Our definitions against those captured from the reference runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.connector import SINK, SOURCE
from penstock.config.define import ConfigDef
from penstock.config.render import config_key_info
from penstock.config.worker_keys import DISTRIBUTED, STANDALONE

CAPTURED = [
    Path(__file__).with_name(f"kafka-definitions{added}.tsv") for added in ("", "-added-in-4.4.0")
]
DEFINITIONS = {
    "source": SOURCE,
    "sink": SINK,
    "distributed": DISTRIBUTED,
    "standalone": STANDALONE,
}
ONLY_OURS = {
    # Read by the Allowlist policy itself in Kafka Connect, so not part of its worker's definition.
    "connector.client.config.override.allowlist",
    *(key.name for key in DISTRIBUTED.keys if key.name.startswith(("penstock.", "spark."))),
}


def captured(definition: str) -> list[list[str]]:
    lines = [line for path in CAPTURED for line in path.read_text().splitlines()[1:]]
    rows = [line.split("\t") for line in lines]
    return [row[1:] for row in rows if row[0] == definition]


def declared(definition: ConfigDef) -> list[list[str]]:
    rows = []
    for key in definition.keys:
        info = config_key_info(key)
        default = info["default_value"]
        text = "null" if default is None else f"'{default}'"
        rows.append(
            [
                info["name"],
                info["type"],
                "REQUIRED" if info["required"] else text,
                info["importance"],
                str(info["group"] or "null"),
                str(info["order_in_group"]),
                info["width"],
                info["display_name"],
                f"[{', '.join(info['dependents'])}]",
            ]
        )
    return rows


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_setting_is_declared_as_the_reference_declares_it(name: str) -> None:
    reference = {row[0]: row for row in captured(name)}
    ours = {row[0]: row for row in declared(DEFINITIONS[name]) if row[0] not in ONLY_OURS}
    assert {key: reference.get(key) for key in ours} == ours


@pytest.mark.parametrize("name", DEFINITIONS)
def test_only_sasl_settings_are_left_to_the_clients_alone(name: str) -> None:
    ours = {key.name for key in DEFINITIONS[name].keys}
    missing = [row[0] for row in captured(name) if row[0] not in ours]
    assert [key for key in missing if not key.startswith("sasl.")] == []


@pytest.mark.parametrize("name", ["source", "sink"])
def test_settings_of_connectors_come_in_the_order_of_the_reference(name: str) -> None:
    assert [row[0] for row in declared(DEFINITIONS[name])] == [row[0] for row in captured(name)]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_setting_says_what_it_is(name: str) -> None:
    assert [key.name for key in DEFINITIONS[name].keys if not key.doc.endswith(".")] == []
