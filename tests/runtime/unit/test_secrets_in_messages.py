"""Secrets are planted into every setting of every connector, and none comes out in a message."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.api import Finding, Plugin
from penstock.config.define import (
    HIGH,
    PASSWORD,
    STRING,
    Config,
    ConfigDef,
    Key,
)
from penstock.config.redaction import without
from penstock.config.worker import parse_distributed
from penstock.plugins.registry import PluginKind, Registry
from penstock.runtime import validation
from penstock.runtime.planning import Planner
from penstock.runtime.providers import LogFilter, Providers

from .test_planning import REGISTRY, WORKER, Greedy

MARK = "S3cr3tMark"
INSTALLED = Registry.installed()
CONNECTORS = sorted(
    entry.plugin.class_name
    for kind in (PluginKind.SOURCE, PluginKind.SINK)
    for entry in INSTALLED.of_kind(kind)
)
PLANTED = [
    f"https://user:{MARK}@127.0.0.1:port/x?sv=1&sig={MARK}",
    f"http://127.0.0.1:99999/x?token={MARK}&upload_id={MARK}&X-Amz-Signature={MARK}",
    f"http://user:{MARK}/x@127.0.0.1:1",
    f"jdbc:postgresql://127.0.0.1:port/db?user=me&password={MARK}",
    f"jdbc:mysql://me:{MARK}@127.0.0.1:port/db",
    f"mongodb://me:{MARK}@127.0.0.1:port/?x=y",
    f"redis://:{MARK}@127.0.0.1:port",
    f"tcp://me:{MARK}@127.0.0.1:port",
    f"AccountName=a;AccountKey={MARK};SharedAccessKey={MARK}",
    f'x.PlainLoginModule required username="me" password="{MARK}" oops',
    f"INSERT INTO x SELECT * FROM y PROPERTIES('password'='{MARK}')",
    f'{{"private_key": "{MARK}", "password": "{MARK}"}}',
]


SPLIT = {"couchbase.topic.to.collection", "http.response.record.offset.pointer"}
"""Lists of names: their messages quote the parts around an equals sign. They are no addresses."""


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(parse_distributed(WORKER), INSTALLED)


@pytest.fixture(autouse=True)
def no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are checked; nothing is connected to, and few addresses would answer anyway."""
    monkeypatch.setattr(validation, "_live_findings", lambda connector, config: [])


def errors_of(infos: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for info in infos["configs"]:
        for error in info["value"]["errors"]:
            yield info["value"]["name"], error


@pytest.mark.parametrize("name", CONNECTORS)
def test_no_error_about_a_setting_contains_a_secret(name: str, planner: Planner) -> None:
    """The settings by themselves, so that one error does not hide another."""
    for key in INSTALLED.connector(name).plugin.config.keys:
        if key.name in SPLIT:
            continue
        secret = key.kind is PASSWORD
        for value in (MARK, *PLANTED[:2]) if secret else PLANTED[:2]:
            for result in ConfigDef(key).validate({key.name: value}):
                for error in result.errors:
                    shown = planner.providers.redacted(without(error, [value] if secret else []))
                    assert MARK not in shown, (key.name, value, shown)


@pytest.mark.parametrize("name", CONNECTORS)
def test_no_error_of_settings_that_belong_together_contains_a_secret(
    name: str, planner: Planner
) -> None:
    """All texts and secrets at once: rules over several settings quote some of them."""
    entry = INSTALLED.connector(name)
    for value in ("; ".join(PLANTED), PLANTED[0]):
        props = {"name": "c", "connector.class": name, "topics": "t"}
        for key in entry.plugin.config.keys:
            if key.kind is PASSWORD:
                props[key.name] = MARK
            elif key.kind.name in ("STRING", "LIST"):
                props[key.name] = value
        props["connector.class"] = name
        for setting, error in errors_of(planner.validate(props)):
            assert MARK not in error, (value, setting, error)


TOLD = Key("told", STRING, default="", importance=HIGH, doc="A text.")
HUSHED = Key("hushed", PASSWORD, importance=HIGH, doc="A secret.")


class Telling(Greedy):
    """Tells its secrets wherever it can."""

    plugin = Plugin("test.Telling", "1", ConfigDef(TOLD, HUSHED))

    def validate_live(self, config: Config) -> Iterator[Finding]:
        yield Finding("told", f"cannot connect with {config[HUSHED].value}")


def telling() -> Planner:
    return Planner(parse_distributed(WORKER), Registry([*REGISTRY.found, Telling]))


PROPS = {
    "name": "c",
    "connector.class": "test.Telling",
    "topics": "t",
    "tasks.max.enforce": "false",
    "hushed": MARK,
    "consumer.override.ssl.key.password": f"key-{MARK}",
}


def test_a_password_in_a_connectors_message_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def live(connector: Telling, config: Config) -> list[Finding]:
        return list(connector.validate_live(config))

    monkeypatch.setattr(validation, "_live_findings", live)
    found = dict(errors_of(telling().validate(PROPS)))
    assert found == {"told": "cannot connect with [hidden]"}


def test_passwords_of_a_started_connector_are_hidden_in_messages_and_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = telling()
    made.planned("c", PROPS)
    assert made.providers.redacted(f"login as me/{MARK}") == "login as me/[hidden]"
    assert made.providers.redacted(f"with key-{MARK}") == "with [hidden]"
    record = logging.LogRecord("x", logging.INFO, "x", 1, "got %s", (MARK,), None)
    assert LogFilter(made.providers).filter(record)
    assert record.getMessage() == "got [hidden]"


def test_a_password_that_is_a_word_is_not_hidden_inside_a_settings_name() -> None:
    providers = Providers({}, REGISTRY)
    providers.remember(["password"])
    text = "Invalid value x for configuration connection.password: not 'password'"
    assert providers.redacted(text) == (
        "Invalid value x for configuration connection.password: not '[hidden]'"
    )


def test_the_workers_own_passwords_are_hidden() -> None:
    worker = parse_distributed(
        {**WORKER, "ssl.keystore.password": MARK, "producer.sasl.jaas.config": f"x {MARK}2 y;"}
    )
    made = Planner(worker, REGISTRY)
    assert made.providers.redacted(f"a {MARK} b x {MARK}2 y;") == "a [hidden] b [hidden]"
