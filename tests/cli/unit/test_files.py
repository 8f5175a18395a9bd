"""Connectors in files: the formats, precedence, and errors with their location."""

from __future__ import annotations

import pytest

from penstock.cli.exits import Unusable
from penstock.cli.files import connector_of, settings
from penstock.config.properties import ConnectorFile

FLAT = b'{"name": "c", "connector.class": "X", "n": 1.50, "yes": true, "gone": null}'
CONFIG = {"name": "c", "connector.class": "X", "n": "1.50", "yes": "true", "gone": None}


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        ("c.json", FLAT, ConnectorFile("c", CONFIG)),
        ("c", FLAT, ConnectorFile("c", CONFIG)),
        ("-", b"\xef\xbb\xbf" + FLAT, ConnectorFile("c", CONFIG)),
        ("c.properties", b"name=c\na = b\n", ConnectorFile("c", {"name": "c", "a": "b"})),
        ("-", b"# a comment\nname: c\n", ConnectorFile("c", {"name": "c"})),
        (
            "c.json",
            b'{"name": "c", "config": {"a": "b"}, "initial_state": "paused"}',
            ConnectorFile("c", {"a": "b", "name": "c"}, "PAUSED"),
        ),
        (
            "c.json",  # as GET /connectors/c answers it
            b'{"name": "c", "config": {"a": "b", "name": "c"}, "tasks": [], "type": "sink"}',
            ConnectorFile("c", {"a": "b", "name": "c"}),
        ),
    ],
)
def test_a_connector_is_written_in_one_of_three_ways(
    path: str, data: bytes, expected: ConnectorFile
) -> None:
    assert connector_of(data, path) == expected


@pytest.mark.parametrize(
    ("data", "name", "overrides", "expected"),
    [
        (b"name=a\nx=1", None, {}, ("a", "1")),
        (b"name=a\nx=1", "b", {"x": "2"}, ("b", "2")),
        (b"x=1", "b", {}, ("b", "1")),
        (b"name=a\nx=1", None, {"name": "c"}, ("c", "1")),
        (b'{"name": "a", "config": {"name": "z", "x": 1}}', "b", {}, ("b", "1")),
        (b'{"name": "a", "config": {"x": 1}}', None, {"name": "c"}, ("c", "1")),
    ],
)
def test_options_count_before_the_file(
    data: bytes, name: str | None, overrides: dict[str, str], expected: tuple[str, str]
) -> None:
    found = connector_of(data, "-", name, overrides)
    assert (found.name, found.config["x"]) == expected
    assert found.config["name"] == found.name


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("c.json", b'{"name": "c",}', "is not JSON"),
        ("c.json", b"name=c", "is not JSON"),
        ("c", b'{"name"', "is not JSON"),
        ("c.json", b"[]", "does not contain a JSON object"),
        ("c.json", b'{"name": "c", "x": NaN}', "NaN is not JSON"),
        ("c.json", b'{"name": "c", "x": [1]}', "The value of 'x'"),
        ("c.json", b'{"x": "1"}', "missing the mandatory 'name'"),
        ("c.properties", b"x=1", "missing the mandatory 'name'"),
        ("c.json", b'{"name": "c", "config": {"name": "d"}}', "doesn't match"),
        ("c.json", b'{"name": "c", "config": {}, "initial_state": "GONE"}', "initial_state"),
        ("c.json", b'{"name": "c", "config": {}, "intial_state": "PAUSED"}', "'intial_state'"),
        ("c.json", b'{"name": 1.5, "config": {"x": []}}', "The value of 'x'"),
    ],
)
def test_a_misspelled_setting_is_reported(path: str, data: bytes, said: str) -> None:
    with pytest.raises(Unusable) as caught:
        connector_of(data, path)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_settings_are_what_stands_on_both_sides_of_the_first_equals_sign() -> None:
    assert settings(["a=b=c", "d=", "a=e"]) == {"a": "e", "d": ""}
    for wrong in ("a", "=b"):
        with pytest.raises(Unusable):
            settings([wrong])
