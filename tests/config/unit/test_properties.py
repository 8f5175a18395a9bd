from __future__ import annotations

import pytest

from penstock.config.properties import (
    ConnectorFile,
    load_connector_file,
    parse_properties,
    render_properties,
)
from penstock.errors import ConfigInvalid

CASES: list[tuple[bytes, dict[str, str]]] = [
    (b"", {}),
    (b"a=1", {"a": "1"}),
    (b"a:1\nb 2\nc\t3\nd\f4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
    (b"a = 1\nb : 2\nc   3", {"a": "1", "b": "2", "c": "3"}),
    (b"a==1\nb=:1\nc  = =1", {"a": "=1", "b": ":1", "c": "=1"}),
    (b"a=1 \nb= 2\t", {"a": "1 ", "b": "2\t"}),
    (b"  a=1\n\t\fb=2", {"a": "1", "b": "2"}),
    (b"# c\n! c\n  # c\na=1 # 2", {"a": "1 # 2"}),
    (b"# c \\\na=1", {"a": "1"}),
    (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    (b"a=1\\\n   2\\\r\n3", {"a": "123"}),
    (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    (b"a=1\\\\\\\nb", {"a": "1\\b"}),
    (b"a=1\\\n\nb=2", {"a": "1", "b": "2"}),
    (b"a=1\\", {"a": "1"}),
    (b"\\", {"": ""}),
    (b"\\\n", {"": ""}),
    (b"\\\n\n", {}),
    (b"\\\n ", {}),
    (b"a=1\\\n#2", {"a": "1#2"}),
    (b"\\\n#c=1\nb=2", {"b": "2"}),
    (b"a\\=b=1\na\\:c=2\na\\ d=3", {"a=b": "1", "a:c": "2", "a d": "3"}),
    (b'a=\\t\\n\\r\\f\\q\\\\\\"', {"a": '\t\n\r\fq\\"'}),
    (b"a=\\u00e9\\u20AC", {"a": "é€"}),
    (b"a=\\uD83D\\uDE00", {"a": "\U0001f600"}),
    (b"a=\xe9", {"a": "é"}),
    ("a=é".encode(), {"a": "Ã©"}),
    (b"a", {"a": ""}),
    (b"=1", {"": "1"}),
    (b"a=1\nb=2\na=3", {"a": "3", "b": "2"}),
    (b"a=\\ 1", {"a": " 1"}),
    (b"a\\\n  b=1", {"ab": "1"}),
    (b"a=\x00\x85", {"a": "\x00\x85"}),
]


@pytest.mark.parametrize(("data", "settings"), CASES)
def test_properties_read_as_java_reads_them(data: bytes, settings: dict[str, str]) -> None:
    assert parse_properties(data) == settings
    assert parse_properties(render_properties(settings)) == settings


def test_settings_keep_the_order_of_the_file() -> None:
    assert list(parse_properties(b"b=1\na=2\nb=3")) == ["b", "a"]


@pytest.mark.parametrize("data", [b"a=\\u12", b"a=\\u12g4", b"\\uu0041=1"])
def test_a_malformed_unicode_escape_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigInvalid, match="Malformed"):
        parse_properties(data)


FILES: list[tuple[bytes, ConnectorFile]] = [
    (b'{"name":"c","tasks.max":"1"}', ConnectorFile("c", {"name": "c", "tasks.max": "1"})),
    (
        b' {"name":"c","n":1e5,"m":1.50,"b":true,"z":null} trailing',
        ConnectorFile("c", {"name": "c", "n": "1e5", "m": "1.50", "b": "true", "z": None}),
    ),
    (
        b'{"name":"c","config":{"a":"1"},"initial_state":"stopped","more":[]}',
        ConnectorFile("c", {"a": "1", "name": "c"}, "STOPPED"),
    ),
    (
        b'{"name":"c","config":{"name":"c"},"initial_state":null}',
        ConnectorFile("c", {"name": "c"}),
    ),
    (b"name=c\na: 1\n", ConnectorFile("c", {"name": "c", "a": "1"})),
]


@pytest.mark.parametrize(("data", "file"), FILES)
def test_a_connector_file_is_read_in_any_of_its_forms(data: bytes, file: ConnectorFile) -> None:
    assert load_connector_file(data, "f") == file


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a=1", "Connector configuration at 'f' is missing the mandatory 'name' configuration"),
        (b'{"a":"1"}', "is missing the mandatory 'name' configuration"),
        (b'{"name":null}', "is missing the mandatory 'name' configuration"),
        (b"", "is missing the mandatory 'name' configuration"),
        (
            b'{"name":"c","config":{"name":"d"}}',
            "Connector name configuration in 'config' doesn't match the one specified in 'name'",
        ),
        (b'{"name":"c","config":{"a":[1]}}', "missing the mandatory 'name'"),
        (b'{"name":"c","config":{},"initial_state":"x"}', "missing the mandatory 'name'"),
    ],
)
def test_a_connector_file_without_a_usable_name_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        load_connector_file(data, "f")
