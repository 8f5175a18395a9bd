"""The chart as Helm renders it: workers have valid settings, and parts fit together."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import penstock
from penstock.cli import resources
from penstock.cli.app import cli
from penstock.cli.container import memory, variables
from penstock.config.properties import parse_properties
from penstock.config.worker import parse_distributed
from penstock.rest.routes import ROUTES
from tests.places import ROOT

from .programs import program

CHART: Final = ROOT / "packaging" / "helm" / "penstock"

EVERYTHING: Final = {
    "bootstrapServers": "kafka-1:9092,kafka-2:9092",
    "groupId": "orders",
    "topicPrefix": "connect",
    "heap": "1g",
    "secretConfig": {"sasl.jaas.config": {"secret": "kafka-login", "key": "jaas"}},
    "connectorSecrets": ["shop"],
    "connectors": {
        "lines": {"connector.class": "FileStreamSource", "file": "/x", "topic": 'a\\b"c\nd'}
    },
    "config": {"security.protocol": "SASL_SSL", "client.rack": "a\\b"},
    "persistence": {"enabled": True, "storageClass": "fast"},
    "metrics": {"podMonitor": True},
    "autoscaling": {"enabled": True},
    "networkPolicy": {"egress": [{"ports": [{"port": 9092}]}]},
    "service": {"annotations": {"a": "b"}},
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "podLabels": {"team": "data"},
    "env": [{"name": "TZ", "value": "UTC"}],
}
TEMPLATE: Final = ("template", "penstock", str(CHART), "--kube-version", "1.30.0")
LEAST: Final = {"bootstrapServers": "kafka:9092"}


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("helm"), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def rendered(folder: Path, values: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """The resources by kind and name."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    done = helm(*TEMPLATE, "--namespace", "ns", "--values", str(file))
    assert done.returncode == 0, done.stderr
    documents = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """The container's variables; fields of the pod are made up."""
    values = {each["name"]: each.get("value", "10.0.0.7") for each in container["env"]}
    return {
        name: re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], text)
        for name, text in values.items()
    }


def settings(parts: Mapping[tuple[str, str], Any], kind: str) -> variables.Variables:
    """What the entry point makes of the rendered pod."""
    [container] = parts[kind, "penstock"]["spec"]["template"]["spec"]["containers"]
    file = parts["ConfigMap", "penstock"]["data"]["worker.properties"]
    given = parse_properties(file.encode())
    return variables.read(environment(container), lambda path: f"read {path}", lambda: "", given)


def test_helm_finds_nothing_wrong(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(EVERYTHING))
    done = helm("lint", "--strict", str(CHART), "--values", str(file))
    assert done.returncode == 0, done.stdout


def test_kafkas_address_is_required() -> None:
    done = helm(*TEMPLATE)
    assert done.returncode != 0
    assert "bootstrapServers is required" in done.stderr


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
@pytest.mark.parametrize("values", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_parts_fit_together(tmp_path: Path, values: Mapping[str, Any], kind: str) -> None:
    parts = rendered(tmp_path, {**values, "kind": kind})
    workers = parts[kind, "penstock"]["spec"]
    pod = workers["template"]
    [container] = pod["spec"]["containers"]
    selected = [
        workers["selector"]["matchLabels"],
        parts["Service", "penstock"]["spec"]["selector"],
        parts["PodDisruptionBudget", "penstock"]["spec"]["selector"]["matchLabels"],
        parts["NetworkPolicy", "penstock"]["spec"]["podSelector"]["matchLabels"],
    ]
    for labels in selected:
        assert labels.items() <= pod["metadata"]["labels"].items()
    volumes = {each["name"] for each in pod["spec"]["volumes"]} | {
        each["metadata"]["name"] for each in workers.get("volumeClaimTemplates", ())
    }
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    paths = [each["mountPath"] for each in container["volumeMounts"]]
    assert len(paths) == len(set(paths))
    for volume in pod["spec"]["volumes"]:
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in parts
    if kind == "StatefulSet":
        assert parts["Service", workers["serviceName"]]["spec"]["clusterIP"] == "None"
    assert pod["spec"]["serviceAccountName"] in {name for each, name in parts if "Account" in each}


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
@pytest.mark.parametrize("values", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_workers_have_settings_that_are_valid(
    tmp_path: Path, values: Mapping[str, Any], kind: str
) -> None:
    parts = rendered(tmp_path, {**values, "kind": kind})
    said = settings(parts, kind)
    parse_distributed(said.settings)
    assert said.notes == ()
    [container] = parts[kind, "penstock"]["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    cli.commands[command].make_context(command, arguments)
    limit = container["resources"]["limits"]["memory"]
    assert memory.heap(said.settings.get(variables.HEAP), memory.spark_memory_mb(limit[:-1]))
    host = said.settings["rest.advertised.host.name"]
    assert host == ("10.0.0.7.penstock-workers.ns.svc" if kind == "StatefulSet" else "10.0.0.7")


def test_values_of_the_chart_arrive(tmp_path: Path) -> None:
    parts = rendered(tmp_path, EVERYTHING)
    said = settings(parts, "StatefulSet").settings
    assert said["bootstrap.servers"] == "kafka-1:9092,kafka-2:9092"
    assert (said["group.id"], said["status.storage.topic"]) == ("orders", "connect-status")
    assert said["client.rack"] == "a\\b"
    assert said["value.converter"].endswith("JsonConverter")  # the chart's own
    assert said["sasl.jaas.config"] == "read /etc/penstock/settings/sasl.jaas.config/jaas"
    assert said["spark.driver.memory"] == "1g"
    pod = parts["StatefulSet", "penstock"]["spec"]["template"]["spec"]
    mounts = {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert {"/etc/penstock/settings/sasl.jaas.config", "/etc/penstock/secrets/shop"} <= set(mounts)
    assert parts["HorizontalPodAutoscaler", "penstock"]["spec"]["maxReplicas"] == 6
    assert "replicas" not in parts["StatefulSet", "penstock"]["spec"]

    [(name, text)] = parts["ConfigMap", "penstock-connectors"]["data"].items()
    (tmp_path / name).write_text(text)
    [wanted] = resources.read([str(tmp_path / name)]).wanted
    assert (wanted.name, wanted.config["topic"]) == ("lines", 'a\\b"c\nd')


def test_a_pod_may_do_little(tmp_path: Path) -> None:
    spec = rendered(tmp_path, LEAST)["StatefulSet", "penstock"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    user = re.search(r"USER (\d+):(\d+)", (CHART.parents[2] / "Dockerfile").read_text())
    assert user
    assert str(spec["securityContext"]["runAsUser"]) == user[1]


def test_probes_ask_for_what_is_there(tmp_path: Path) -> None:
    spec = rendered(tmp_path, LEAST)["StatefulSet", "penstock"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        path = container[probe]["httpGet"]["path"]
        assert path in {route.path for route in ROUTES}
        assert container[probe]["timeoutSeconds"] > 10  # the time that a worker takes to say no
    grace_s = spec["terminationGracePeriodSeconds"]
    said = settings(rendered(tmp_path, LEAST), "StatefulSet").settings
    assert grace_s * 1000 > 2 * int(said["task.shutdown.graceful.timeout.ms"])


def test_its_version_is_ours() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == penstock.VERSION
