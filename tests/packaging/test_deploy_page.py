"""docs/deploy.md names every variable and every message of the container."""

from __future__ import annotations

import inspect
import re
from typing import Final

import pytest

from penstock.cli.container import command, machine, memory, variables
from penstock.host import jars, logs
from tests.places import ROOT

PAGE: Final = (ROOT / "docs" / "deploy.md").read_text()

NAMES: Final = (
    *map(variables.variable, variables.REQUIRED),
    *variables.DEBEZIUM,
    variables.KAFKA_TIMEOUT,
    command.CONNECTORS,
    jars.JARS_VARIABLE,
    logs.FORMAT_VARIABLE,
    logs.ROOT_VARIABLE,
    logs.LOGGERS_VARIABLE,
    "KAFKA_HEAP_OPTS",
    "HEAP_OPTS",
    "LOG_LEVEL",
    variables.variable(variables.HEAP),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE or f"{name}=" in PAGE


def test_figures_of_memory_are_those_of_the_code() -> None:
    [section] = re.findall(r"### Memory\n(.*?)\n###", PAGE, re.DOTALL)
    assert f"from {memory.SMALLEST_MB} MB to {memory.LARGEST_MB >> 10} GB" in section
    assert f"needs {memory.BESIDES_MB} MB" in " ".join(section.split())


def test_every_message_of_the_page_is_one_of_ours() -> None:
    [table] = re.findall(r"### What a container may lack\n(.*?)\n##", PAGE, re.DOTALL)
    said = re.sub(r'"\s*f?"|\{[^}]*\}', "", inspect.getsource(machine) + inspect.getsource(memory))
    for message in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE):
        for part in re.split(r"…|/dev/shm|/var/lib/penstock|64|x86_64 and aarch64", message):
            assert part.strip() in " ".join(said.split()), message
