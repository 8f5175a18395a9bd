"""Dashboard and alerts ask for metrics that exist, and every alert says what to do."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from penstock.runtime.metric_table import SECTIONS
from tests.places import ROOT

from .programs import program

MONITORING: Final = ROOT / "packaging" / "monitoring"
RULES: Final = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: Final = json.loads((MONITORING / "grafana" / "penstock.json").read_text())
NAME: Final = re.compile(r"\b(?:kafka_connect|penstock)_\w+")


METRICS: Final = {metric.name: metric for section in SECTIONS for metric in section.metrics}
SELECTOR: Final = re.compile(r"\b((?:kafka_connect|penstock)_\w+)\{([^}]*)\}")


def expressions() -> Iterator[str]:
    for rule in RULES:
        yield rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_that_is_asked_for_exists(expression: str) -> None:
    asked = NAME.findall(expression)
    assert asked or expression.startswith("up{")
    assert [name for name in asked if name not in METRICS] == []
    for name, selector in SELECTOR.findall(expression):
        labels = set(re.findall(r"(\w+)\s*[=!]~?", selector))
        assert labels <= {*METRICS[name].labels, "instance"}, name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_an_entry_in_the_runbook(rule: dict[str, Any]) -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    assert f"\n## {rule['alert']}\n" in runbook
    assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
    assert rule["labels"]["severity"] in ("warning", "critical")
    labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]+)\)", rule["expr"]))))
    assert labels <= (grouped or {"instance"})


def test_the_runbook_has_no_entries_of_alerts_that_are_gone() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    assert re.findall(r"^## (\w+)$", runbook, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_panels_have_places_of_their_own() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(x < 24 for x, _ in cells)
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(identities) == len(set(identities))


def test_prometheus_reads_the_rules() -> None:
    promtool = program("promtool")
    for command in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            [promtool, "check", command[0], str(MONITORING / command[1])],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
