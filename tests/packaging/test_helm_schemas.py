"""What the chart renders is valid for Kubernetes: no unknown fields, no wrong types."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from .programs import program, schemas
from .test_helm import CHART, EVERYTHING, LEAST, helm

OLDEST: Final = "1.27.0"  # `kubeVersion` of the chart
NEWEST: Final = "1.37.0"

OUTSIDE: Final = {
    **LEAST,
    "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    "serviceAccount": {"create": False, "name": "workers"},
    "imagePullSecrets": [{"name": "registry"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "podDisruptionBudget": {"maxUnavailable": "30%"},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
    "resources": {"requests": {"cpu": 2}, "limits": {"memory": "4Gi"}},
}
BARE: Final = {
    **LEAST,
    "networkPolicy": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "metrics": {"annotations": False},
}
VALUES: Final = {"least": LEAST, "everything": EVERYTHING, "outside": OUTSIDE, "bare": BARE}

TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
NAMED: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "labels": TEXTS},
}
POD_MONITOR: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "PodMonitor"},
        "metadata": NAMED,
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["selector", "podMetricsEndpoints"],
            "properties": {
                "selector": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"matchLabels": TEXTS},
                },
                "podMetricsEndpoints": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"port": {"type": "string"}, "path": {"type": "string"}},
                    },
                },
            },
        },
    },
}
"""The fields that the chart sets, by the Prometheus operator's reference; it has no package."""


def kubeconform(
    folder: Path, values: Mapping[str, Any], version: str
) -> tuple[int, list[dict[str, Any]], int]:
    """The exit code, the resources with their errors, and how many are valid."""
    checker = program("kubeconform")
    source = schemas(version)
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    command = ("template", "penstock", str(CHART), "--kube-version", version)
    done = helm(*command, "--namespace", "ns", "--values", str(file))
    assert done.returncode == 0, done.stderr

    local = folder / version
    local.mkdir()
    for each in ("_definitions", *sorted(stems(done.stdout))):
        found = source / f"{each}.json"
        if found.is_file():
            # They refer to each other by URL; here they are side by side.
            schema = json.loads(found.read_text().replace('"/api/_defin', '"_defin'))
            schema.pop("$id", None)
            (local / found.name).write_text(json.dumps(schema))
    (local / "podmonitor-monitoring-v1.json").write_text(json.dumps(POD_MONITOR))

    pattern = f"{local}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    checked = subprocess.run(
        [checker, "-strict", "-summary", "-output", "json", "-schema-location", pattern, "-"],
        input=done.stdout,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    report = json.loads(checked.stdout)
    return checked.returncode, report["resources"], report["summary"]["valid"]


def stems(text: str) -> set[str]:
    """How the files of the resources' schemas are named: `service-v1`, `deployment-apps-v1`."""
    resources = [each for each in yaml.safe_load_all(text) if each]
    groups = {each["kind"]: each["apiVersion"].split("/") for each in resources}
    return {
        "-".join([kind.lower(), *(part.split(".")[0] for part in parts)])
        for kind, parts in groups.items()
    }


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_kubernetes_takes_every_resource(
    tmp_path: Path, values: Mapping[str, Any], kind: str, version: str
) -> None:
    code, wrong, valid = kubeconform(tmp_path, {**values, "kind": kind}, version)
    assert (code, wrong) == (0, [])
    assert valid >= (4 if values is BARE else 5) - (kind == "Deployment")


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"resources": {"limit": {"memory": "2Gi"}}}, "limit"),
        ({"tolerations": [{"operater": "Exists"}]}, "operater"),
        ({"terminationGracePeriodSeconds": "soon"}, "terminationGracePeriodSeconds"),
        ({"podSecurityContext": {"runAsUsr": 1001}}, "runAsUsr"),
    ],
)
def test_a_misspelt_field_is_noticed(tmp_path: Path, values: Mapping[str, Any], wrong: str) -> None:
    code, resources, _ = kubeconform(tmp_path, {**LEAST, **values}, NEWEST)
    assert code == 1
    [workers] = resources
    assert (workers["kind"], workers["status"]) == ("StatefulSet", "statusInvalid")
    assert wrong in json.dumps(workers)


def test_the_oldest_version_is_the_charts() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={OLDEST}-0"
