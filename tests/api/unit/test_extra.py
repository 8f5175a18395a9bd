"""What a family of plugins needs installed, and the errors if it is missing."""

from __future__ import annotations

import sys
from collections.abc import Collection

import pytest

from penstock.api import (
    Extra,
    NotInstalled,
    Plugin,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import Config, ConfigDef

SHELVES = Extra("shelves", "Shelves", ("json", "no_such_shelf", "no_such_board"), "acme-shelves")


class Shelf(SinkConnector):
    """Needs everything of its extra."""

    plugin = Plugin("acme.Shelf", "1", ConfigDef(), extra=SHELVES)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return []

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        raise NotImplementedError


class Rack(Shelf):
    """Needs what its configuration says."""

    def required_modules(self, config: Config) -> Collection[str]:
        return config.props.get("modules", "").split()


class Bare(Shelf):
    """Needs nothing beside penstock."""

    plugin = Plugin("acme.Bare", "1", ConfigDef())


def test_modules_that_cannot_be_found_are_missing_and_nothing_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    assert SHELVES.missing() == ["no_such_shelf", "no_such_board"]
    assert SHELVES.missing(["wave", "no_such_board"]) == ["no_such_board"]
    assert SHELVES.missing([]) == []
    assert "wave" not in sys.modules
    monkeypatch.setitem(sys.modules, "json", None)
    assert SHELVES.missing(["json"]) == ["json"]


def test_the_message_names_what_is_missing_and_the_command() -> None:
    text = (
        "Shelves need packages that are not installed (no_such_shelf, no_such_board); install them "
        "with: pip install 'acme-shelves[shelves]'"
    )
    assert SHELVES.problem() == text
    assert SHELVES.problem(["json"]) is None
    with pytest.raises(NotInstalled) as refused:
        SHELVES.require()
    assert str(refused.value) == text
    assert (refused.value.status, refused.value.retriable) == (400, False)


def test_a_connector_needs_all_of_its_extra_unless_it_says_what_a_configuration_needs() -> None:
    config = ConfigDef().parse({})
    with pytest.raises(NotInstalled, match="no_such_shelf, no_such_board"):
        Shelf().check_installed(config)
    Rack().check_installed(config)
    with pytest.raises(NotInstalled, match=r"\(no_such_board\)"):
        Rack().check_installed(ConfigDef().parse({"modules": "json no_such_board"}))
    Bare().check_installed(config)
    assert not Bare().required_modules(config)
