"""compose.yaml is valid by the Compose specification, and our own code can run what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from penstock.cli import resources
from penstock.cli.app import cli
from penstock.cli.container import memory, variables
from penstock.config.worker import parse_distributed
from penstock.config.worker_keys import DISTRIBUTED
from penstock.plugins import path as plugin_path
from penstock.plugins.registry import Registry
from tests.places import ROOT

COMPOSE: Final = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: Final[Mapping[str, Any]] = COMPOSE["services"]
WORKERS: Final = sorted(name for name in SERVICES if name.startswith("worker-"))

TEXT: Final = {"type": "string"}
TEXTS: Final = {"type": "array", "items": TEXT, "uniqueItems": True}
DURATION: Final = {"type": "string", "pattern": r"^(\d+h)?(\d+m)?(\d+s)?$", "minLength": 2}
SIZE: Final = {"type": "string", "pattern": r"^\d+[bkmg]$"}
SERVICE: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image"],
    "properties": {
        "image": {"type": "string", "pattern": r"^[\w./-]+:[\w.${}:-]+$"},
        "build": TEXT,
        "command": {"type": "array", "items": TEXT},
        "entrypoint": {"type": "array", "items": TEXT},
        "environment": {"type": "object", "additionalProperties": TEXT},
        "ports": {**TEXTS, "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"}},
        "volumes": {
            **TEXTS,
            "items": {"type": "string", "pattern": r"^(\./)?[\w./-]+:/[\w./-]+(:ro)?$"},
        },
        "tmpfs": TEXTS,
        "profiles": TEXTS,
        "cap_drop": TEXTS,
        "security_opt": TEXTS,
        "read_only": {"type": "boolean"},
        "shm_size": SIZE,
        "mem_limit": SIZE,
        "stop_grace_period": DURATION,
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "healthcheck": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "disable": {"type": "boolean"},
                "test": {"type": "array", "items": TEXT, "minItems": 2},
                "interval": DURATION,
                "timeout": DURATION,
                "start_period": DURATION,
                "retries": {"type": "integer"},
            },
        },
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["condition"],
                "properties": {
                    "condition": {
                        "enum": [
                            "service_started",
                            "service_healthy",
                            "service_completed_successfully",
                        ]
                    }
                },
            },
        },
    },
}
SCHEMA: Final = {
    "type": "object",
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "required": ["services"],
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
}


def settled(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables as Compose hands them on: `${NAME:-default}` has its default."""
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text) for name, text in environment.items()}


def test_it_has_the_form_of_a_compose_file() -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(COMPOSE)


def test_references_of_the_compose_file_exist() -> None:
    used: set[str] = set()
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name
        for each, how in service.get("depends_on", {}).items():
            tested = SERVICES[each].get("healthcheck") or each.startswith("worker-")
            assert how["condition"] != "service_healthy" or tested, (name, each)
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists(), volume
            else:
                used.add(source)
    assert used == set(COMPOSE["volumes"])
    ports = [port.rsplit(":", 1)[0] for each in SERVICES.values() for port in each.get("ports", ())]
    assert len(ports) == len(set(ports))


def test_names_of_kafka_are_the_brokers() -> None:
    kafka = SERVICES["kafka"]["environment"]
    advertised = dict(each.split("://") for each in kafka["KAFKA_ADVERTISED_LISTENERS"].split(","))
    listening = dict(each.split("://") for each in kafka["KAFKA_LISTENERS"].split(","))
    assert advertised["INSIDE"] == SERVICES["worker-1"]["environment"]["CONNECT_BOOTSTRAP_SERVERS"]
    assert set(advertised) | {"CONTROLLER"} == set(listening)


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_settings_that_are_valid(name: str) -> None:
    service = SERVICES[name]
    said = variables.read(settled(service["environment"]), Path.read_text, lambda: "10.0.0.1")
    config = parse_distributed(said.settings)
    assert said.notes == ()
    assert config.props["rest.advertised.host.name"] == name
    assert config.props["listeners"] == "http://:8083"
    limit = memory.spark_memory_mb(service["mem_limit"])
    assert memory.heap(said.settings.get(variables.HEAP), limit) == "512m"
    unknown = set(said.settings) - set(DISTRIBUTED.by_name()) - {"topic.creation.enable"}
    assert {each for each in unknown if not each.startswith("config.providers.")} == set()


def test_workers_are_a_cluster() -> None:
    groups = {SERVICES[name]["environment"]["CONNECT_GROUP_ID"] for name in WORKERS}
    assert (len(WORKERS), len(groups)) == (2, 1)


def test_the_demo_is_a_command_of_ours() -> None:
    demo = SERVICES["demo"]
    command, *arguments = demo["command"]
    context = cli.commands[command].make_context(command, list(arguments))
    assert context.params["wait"]
    workers = context.params.get("url") or arguments[arguments.index("--url") + 1]
    assert workers == ",".join(f"http://{name}:8083" for name in WORKERS)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return plugin_path.registry({})


CONNECTORS: Final = sorted((ROOT / "packaging" / "demo" / "connectors").iterdir())


@pytest.mark.parametrize("file", CONNECTORS, ids=lambda file: file.name)
def test_a_connector_of_the_demo_is_valid(file: Path, registry: Registry) -> None:
    [wanted] = resources.read([str(file)]).wanted
    found = registry.find_connector(wanted.config["connector.class"])
    assert found is not None
    config = {k: re.sub(r"\$\{env:\w+\}", "secret", v) for k, v in wanted.config.items()}
    problems = [error for value in found.plugin.config.validate(config) for error in value.errors]
    assert problems == []
    allowed = SERVICES["worker-1"]["environment"]
    named = re.findall(r"\$\{env:(\w+)\}", json.dumps(dict(wanted.config)))
    pattern = allowed["CONNECT_CONFIG_PROVIDERS_ENV_PARAM_ALLOWLIST_PATTERN"]
    assert all(name in allowed and re.fullmatch(pattern, name) for name in named)
    used = {key for key in config if key not in found.plugin.config.by_name()}
    assert used <= {
        "name",
        "connector.class",
        "tasks.max",
        "topics",
        "topic.creation.default.partitions",
        "topic.creation.default.replication.factor",
    }
