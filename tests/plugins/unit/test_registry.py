"""Plugins by the names configurations use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from penstock.api import (
    Plugin,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.config.define import Config, ConfigDef
from penstock.convert.json import JsonConverter
from penstock.convert.text import StringConverter
from penstock.plugins import registry as plugins
from penstock.plugins.registry import (
    InstalledPlugin,
    PluginKind,
    Registry,
    UnknownConnectorClass,
    ambiguous,
)


class Taps(SourceConnector):
    plugin = Plugin("org.example.TapSourceConnector", "1.2", ConfigDef())

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        raise NotImplementedError

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        raise NotImplementedError


class Drains(SinkConnector):
    plugin = Plugin("org.example.DrainSinkConnector", "3.4", ConfigDef())

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        raise NotImplementedError

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        raise NotImplementedError


class OtherTaps(Taps):
    plugin = Plugin("com.example.TapSourceConnector", "9", ConfigDef())


class NewerTaps(Taps):
    plugin = Plugin("org.example.TapSourceConnector", "99", ConfigDef())


REGISTRY = Registry([Taps, Drains, JsonConverter, StringConverter])

NAMES = ["org.example.TapSourceConnector", "TapSourceConnector", "TapSource"]


@pytest.mark.parametrize("name", NAMES)
def test_a_connector_is_found_by_full_simple_and_short_name(name: str) -> None:
    found = REGISTRY.connector(name)
    assert (found.cls, found.kind) == (Taps, PluginKind.SOURCE)


def test_a_connector_is_found_by_the_names_of_those_whose_configurations_it_understands() -> None:
    class Both(Taps):
        plugin = replace(Taps.plugin, also=("com.example.TapSourceConnector",))

    assert Registry([Both]).connector("com.example.TapSourceConnector").cls is Both
    assert Registry([Both, OtherTaps]).connector("com.example.TapSourceConnector").cls is OtherTaps


CONVERTERS = [
    ("org.apache.kafka.connect.json.JsonConverter", JsonConverter),
    ("JsonConverter", JsonConverter),
    ("Json", JsonConverter),
    ("String", StringConverter),
    ("json", None),
    ("TapSource", None),
]


@pytest.mark.parametrize(("name", "cls"), CONVERTERS)
def test_a_converter_is_found_by_full_simple_and_short_name(name: str, cls: object) -> None:
    assert REGISTRY.converter(name) is cls


@pytest.mark.parametrize("name", ["Nonsense", "tapsource", "JsonConverter", ""])
def test_an_unknown_connector_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(UnknownConnectorClass) as refused:
        REGISTRY.connector(name)
    said = str(refused.value)
    assert said.startswith(
        "Failed to find any class that implements Connector and which name matches "
        f"{name}, available connectors are: PluginDesc{{klass=class org.example.DrainSink"
    )
    assert "name='org.example.TapSourceConnector', version='1.2'" in said
    assert refused.value.status == 400


def test_an_alias_of_two_connectors_is_refused_and_their_full_names_are_not() -> None:
    registry = Registry([Taps, OtherTaps])
    with pytest.raises(UnknownConnectorClass) as refused:
        registry.connector("TapSource")
    assert str(refused.value) == (
        "More than one connector matches alias TapSource. Please use full package and class name "
        "instead. Classes found: com.example.TapSourceConnector, org.example.TapSourceConnector"
    )
    assert registry.connector("com.example.TapSourceConnector").cls is OtherTaps


class OlderTaps(Taps):
    plugin = Plugin("org.example.TapSourceConnector", "1.2-rc1", ConfigDef())


class SameTaps(Taps):
    plugin = Plugin("org.example.TapSourceConnector", "1.2.0", ConfigDef())


@pytest.mark.parametrize(
    ("classes", "chosen", "lost"),
    [
        ([Taps, NewerTaps], NewerTaps, [Taps]),
        ([NewerTaps, Taps], NewerTaps, [Taps]),
        ([OlderTaps, Taps, NewerTaps], NewerTaps, [OlderTaps, Taps]),
        ([Taps, OlderTaps], Taps, [OlderTaps]),
        ([Taps, SameTaps], Taps, [SameTaps]),
        ([SameTaps, Taps], SameTaps, [Taps]),
        ([Taps, Taps], Taps, []),
    ],
)
def test_of_several_with_one_class_name_the_highest_version_counts_or_else_the_first(
    classes: list[type[SourceConnector]], chosen: object, lost: list[object]
) -> None:
    # kafka-connect.md §15.4: the others are unreachable.
    registry = Registry(classes)
    assert registry.connector("TapSource").cls is chosen
    assert [found.cls for found, _ in registry.shadowed] == lost
    assert len(registry.of_kind(PluginKind.SOURCE)) == 1


class Lines(Taps):
    plugin = Plugin("org.example.JsonSource", "1", ConfigDef())


def test_names_that_several_plugins_answer_to_are_ambiguous() -> None:
    found = Registry([Taps, OtherTaps, Drains, JsonConverter, StringConverter]).found
    reported = [(name, [each.cls for each in several]) for name, several in ambiguous(found)]
    assert reported == [
        ("TapSource", [Taps, OtherTaps]),
        ("TapSourceConnector", [Taps, OtherTaps]),
    ]


def test_plugins_that_settings_cannot_confuse_may_share_a_name() -> None:
    assert ambiguous(Registry([Lines, JsonConverter]).found) == []
    # Plugins of different vendors share names (docs/files.md, docs/redis.md).
    shared = {name.removesuffix("Connector") for name, _ in ambiguous(Registry.installed().found)}
    assert shared == {
        "CassandraSink",
        "ElasticsearchSink",
        "GcsSink",
        "HttpSink",
        "MqttSink",
        "MqttSource",
        "RedisSink",
        "S3Source",
    }


class Bare(SourceConnector):
    plugin = Plugin("org.example.Bare", "1", ConfigDef())


class Nameless(SinkConnector):
    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        raise NotImplementedError

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (int, "it needs a `plugin` and one of the bases SinkConnector, SourceConnector"),
        (Bare, "it lacks open, plan_tasks"),
        (Nameless, "it needs a class variable `plugin`"),
        ("text", "it needs a `plugin` and one of the bases"),
    ],
)
def test_a_class_that_is_no_plugin_is_refused_with_the_reason(cls: object, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        InstalledPlugin.of(cls)


def test_plugins_are_listed_by_class_name() -> None:
    listed = [
        found.plugin.class_name for found in REGISTRY.of_kind(PluginKind.SOURCE, PluginKind.SINK)
    ]
    assert listed == ["org.example.DrainSinkConnector", "org.example.TapSourceConnector"]


def test_a_class_that_is_no_plugin_is_refused() -> None:
    with pytest.raises(TypeError, match="is not a plugin"):
        Registry([int])  # type: ignore[list-item]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what installed packages offer."""

    def offer(**values: str) -> None:
        entries = [EntryPoint(name, value, "penstock.plugins") for name, value in values.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries)

    return offer


BROKEN = {
    "gone": "no.such.module:Thing",
    "nameless": "penstock.plugins.registry:NoSuchClass",
    "plain": "penstock.ids:TaskId",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_plugin_that_cannot_be_loaded_is_skipped_and_named(
    offered: Callable[..., None], caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    offered(**{broken: BROKEN[broken]}, sink="penstock.connectors.file:FileStreamSink")
    with caplog.at_level(logging.WARNING):
        registry = Registry.installed()
    assert [found.plugin.simple_name for found in registry.found] == ["FileStreamSinkConnector"]
    assert f"plugin '{broken}' ({BROKEN[broken]}) is skipped: " in caplog.text


def test_the_built_in_plugins_are_installed() -> None:
    registry = Registry.installed()
    assert registry.connector("FileStreamSource").kind is PluginKind.SOURCE
    assert registry.connector("FileStreamSink").kind is PluginKind.SINK
    for name in ("JsonConverter", "StringConverter", "ByteArrayConverter"):
        assert registry.converter(name) is not None


def test_connectors_in_jars_do_not_hide_that_a_python_plugin_is_unused() -> None:
    class Newer(Lines):
        plugin = replace(Lines.plugin, version="99")

    python = Registry([Lines, Newer])
    assert [unused.cls for unused, _ in python.shadowed] == [Lines]
    assert python.with_java(list).shadowed == python.shadowed
