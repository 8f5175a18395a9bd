"""What validation learns from installed packages, and from the system of a connector."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pytest

from penstock.api import (
    Extra,
    Finding,
    Plugin,
    Props,
)
from penstock.config.define import INT, Config, ConfigDef, Key
from penstock.config.define import STRING as STRING_KIND
from penstock.config.worker import parse_distributed
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.json import JsonConverter
from penstock.convert.text import StringConverter
from penstock.errors import ConfigInvalid, NotInstalled, PenstockError, Unavailable
from penstock.plugins.registry import Registry
from penstock.runtime import validation
from penstock.runtime.planning import Planner

from .test_planning import REGISTRY, WORKER, Greedy, errors

HOST = Key("host", STRING_KIND, doc="Where it is.")
PORT = Key("host.port", INT, default=1, doc="Its port.")


class Looking(Greedy):
    """Looks at a system that the test defines."""

    plugin = Plugin("test.Looking", "1", ConfigDef(HOST, PORT))
    seen: list[Config]
    answer: Iterable[Finding] = ()

    def validate_live(self, config: Config) -> Iterable[Finding]:
        self.seen.append(config)
        return self.answer


class Lacking(Looking):
    """Needs missing packages for all hosts but one."""

    plugin = Plugin(
        "test.Lacking",
        "1",
        ConfigDef(HOST, PORT),
        extra=Extra("far", "Connectors to far hosts", ("no_such_package",)),
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return () if config[HOST] == "near" else ("no_such_package",)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]


def test_a_missing_package_is_refused_before_anything_is_connected_to() -> None:
    Lacking.seen = []
    lacking = Planner(parse_distributed(WORKER), Registry([*REGISTRY.found, Lacking]))
    props = {"name": "l", "connector.class": "test.Lacking", "topics": "t", "host": "far"}
    text = (
        "Connectors to far hosts need packages that are not installed (no_such_package); install "
        "them with: pip install 'penstock[far]'"
    )
    assert errors(props, lacking) == {"connector.class": [text]}
    assert Lacking.seen == []
    with pytest.raises(NotInstalled, match="no_such_package"):
        lacking.planned("l", props)
    near = {**props, "host": "near"}
    assert errors(near, lacking) == {}
    assert len(Lacking.seen) == 1
    assert len(lacking.planned("l", near).configs) == 1


LOOKING: dict[str, str | None] = {
    "name": "l",
    "connector.class": "test.Looking",
    "topics": "t",
    "host": "there",
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that were validated live."""
    made: list[Config] = []
    monkeypatch.setattr(Looking, "seen", made, raising=False)
    return made


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, seen: list[Config]) -> Callable[..., None]:
    """Sets the findings of each live validation."""
    return lambda *given: monkeypatch.setattr(Looking, "answer", given)


def looking(**settings: str) -> Planner:
    registry = Registry([JsonConverter, StringConverter, SimpleHeaderConverter, Looking])
    given = {name.replace("__", "."): text for name, text in settings.items()}
    return Planner(parse_distributed({**WORKER, **given}), registry)


def value_of(infos: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (row["value"] for row in infos["configs"] if row["value"]["name"] == name)
    assert isinstance(found, dict)
    return found


def test_findings_of_a_connector_at_its_target_are_part_of_the_validation(
    answers: Callable[..., None], seen: list[Config]
) -> None:
    answers(
        Finding("host", recommended=["here", "elsewhere"]),
        Finding("host", error="Nobody is there."),
        Finding("topics", error="There is no place for 't'."),
        Finding("tea.pot", error="It is empty."),
    )
    infos = looking().validate(LOOKING)
    host = value_of(infos, "host")
    assert host["recommended_values"] == ["here", "elsewhere"]
    assert (host["value"], host["errors"]) == ("there", ["Nobody is there."])
    assert value_of(infos, "topics")["errors"] == ["There is no place for 't'."]
    assert value_of(infos, "tea.pot")["errors"] == ["It is empty."]
    assert infos["error_count"] == 3
    assert [(config[HOST], config[PORT]) for config in seen] == [("there", 1)]


@pytest.mark.parametrize("wrong", [{"host.port": "x"}, {"host": None}])
def test_nothing_is_looked_at_before_the_connectors_own_settings_are_in_order(
    answers: Callable[..., None], seen: list[Config], wrong: dict[str, str | None]
) -> None:
    answers(Finding("host", error="Nobody is there."))
    assert value_of(looking().validate({**LOOKING, **wrong}), "host")["errors"] == []
    assert seen == []


def failing(error: Exception, *before: Finding) -> Iterator[Finding]:
    yield from before
    raise error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            Unavailable("Nobody listens (host.port)."),
            {"host.port": ["Nobody listens (host.port)."]},
        ),
        (PenstockError("The host's gone."), {"host": ["The host's gone."]}),
        (PenstockError("No hosts."), {"connector.class": ["No hosts."]}),
        (
            ConfigInvalid(["host: wrong", "ghost: seen"]),
            {"host": ["host: wrong"], "connector.class": ["ghost: seen"]},
        ),
    ],
)
def test_an_error_of_the_look_is_one_of_the_setting_it_names(
    monkeypatch: pytest.MonkeyPatch,
    seen: list[Config],
    error: Exception,
    expected: dict[str, list[str]],
) -> None:
    before = Finding("host.port", recommended=[2])
    monkeypatch.setattr(Looking, "answer", failing(error, before))
    infos = looking().validate(LOOKING)
    found = {row["value"]["name"]: row["value"]["errors"] for row in infos["configs"]}
    assert {name: errors for name, errors in found.items() if errors} == expected
    assert value_of(infos, "host.port")["recommended_values"] == ["2"]


def test_a_mistake_in_the_look_is_no_error_of_the_users(
    monkeypatch: pytest.MonkeyPatch, seen: list[Config]
) -> None:
    monkeypatch.setattr(Looking, "answer", failing(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        looking().validate(LOOKING)


def test_a_look_that_does_not_end_is_an_error_and_what_it_found_before_counts(
    monkeypatch: pytest.MonkeyPatch, seen: list[Config]
) -> None:
    over = threading.Event()

    def endless() -> Iterator[Finding]:
        yield Finding("host", error="Nobody is there.")
        over.wait(60)

    monkeypatch.setattr(Looking, "answer", endless())
    monkeypatch.setattr(validation, "_LIVE_S", 0.2)
    try:
        infos = looking().validate(LOOKING)
    finally:
        over.set()
    assert value_of(infos, "host")["errors"] == ["Nobody is there."]
    assert value_of(infos, "connector.class")["errors"] == [
        "The connector did not finish checking its system within 0.2 s."
    ]


def test_values_of_placeholders_are_used_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, answers: Callable[..., None], seen: list[Config]
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_HOST", "secret-place")
    made = looking(config__providers="env", config__providers__env__class="EnvVarConfigProvider")
    answers(
        Finding("host.port", error="Port 1 of secret-place is closed."),
        Finding("host", error="secret-place is away."),
    )
    infos = made.validate({**LOOKING, "host": "${env:PENSTOCK_TEST_HOST}"})
    assert [config[HOST] for config in seen] == ["secret-place"]
    assert value_of(infos, "host.port")["errors"] == ["Port 1 of [hidden] is closed."]
    assert value_of(infos, "host")["value"] == "${env:PENSTOCK_TEST_HOST}"
    assert "secret-place" not in str(infos)


ENV = {"config__providers": "env", "config__providers__env__class": "EnvVarConfigProvider"}
MISSING = "config provider 'env' has no value for ${env:PENSTOCK_TEST_MISSING}"


def test_an_invalid_configuration_names_the_variable_that_is_missing(
    answers: Callable[..., None],
) -> None:
    answers()
    made = looking(**ENV)
    props = {
        **LOOKING,
        "host": "${env:PENSTOCK_TEST_MISSING}",
        "host.port": "many",
    }
    found = errors(props, made)
    assert found["host"] == [f"Placeholder in configuration host: {MISSING}"]
    assert len(found["host.port"]) == 1
    assert errors({**props, "host.port": "1"}, made) == {}  # as in Kafka Connect


def test_a_connector_that_does_not_start_names_the_variable_that_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    props = {
        "name": "look",
        "connector.class": "test.Looking",
        "host": "h",
        "host.port": "${env:PENSTOCK_TEST_MISSING}",
    }
    made = looking(**ENV)
    with pytest.raises(ConfigInvalid) as refused:
        made.planned("look", props)
    assert refused.value.problems[-1] == f"Placeholder in configuration host.port: {MISSING}"
    assert f"configuration host.port: {MISSING}" in caplog.text


def test_a_provider_that_fails_names_the_setting() -> None:
    files = {"config__providers": "file", "config__providers__file__class": "FileConfigProvider"}
    props = {"name": "look", "connector.class": "test.Looking", "host": "${file:/no/such:key}"}
    with pytest.raises(PenstockError) as failed:
        looking(**files).validate(props)
    assert failed.value.status == 500
    assert str(failed.value) == (
        "Could not read properties from file /no/such (config provider 'file': "
        "${file:/no/such:key} in 'host')"
    )
