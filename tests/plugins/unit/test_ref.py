"""Plugins as values."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark import cloudpickle

from penstock.api import Plugin, Transform
from penstock.api.settings import ConfigDef
from penstock.connectors.file import FileStreamSink
from penstock.convert.json import JsonConverter
from penstock.data.records import Failed, Records
from penstock.plugins.ref import LocalClass, PluginRef, PythonClass
from penstock.plugins.registry import PluginKind


class Outer:
    """Has a plugin."""

    class Nested(Transform):
        plugin = Plugin("test.Nested", "2", ConfigDef())

        def apply(self, records: Records, failed: Failed) -> Records:
            return records


@pytest.mark.parametrize(
    ("cls", "kind", "name"),
    [
        (JsonConverter, PluginKind.CONVERTER, "JsonConverter"),
        (FileStreamSink, PluginKind.SINK, "FileStreamSink"),
        (Outer.Nested, PluginKind.TRANSFORM, "Nested"),
    ],
)
def test_a_plugin_is_named_and_loaded_by_its_name(cls: Any, kind: PluginKind, name: str) -> None:
    ref = PluginRef.of(cls)
    assert (ref.kind, ref.name, ref.class_name) == (kind, name, cls.plugin.class_name)
    assert ref.version == cls.plugin.version
    assert ref.loading == PythonClass(cls.__module__, cls.__qualname__)
    sent = pickle.loads(pickle.dumps(ref))
    assert sent == ref
    assert sent.load() is cls


def test_a_reference_does_not_carry_the_class() -> None:
    data = pickle.dumps(PluginRef.of(JsonConverter))
    assert b"penstock.convert.json" in data
    assert b"plugin" not in data.replace(b"penstock.plugins", b"")


def test_failures_name_the_task_of_a_connector_and_any_other_plugin_itself() -> None:
    assert PluginRef.of(FileStreamSink).runs_as == FileStreamSink.plugin.task_class
    assert PluginRef.of(JsonConverter).runs_as == JsonConverter.plugin.class_name


def test_a_class_that_no_module_has_travels_itself() -> None:
    class Local(Outer.Nested):
        pass

    ref = PluginRef.of(Local)
    assert ref.loading == LocalClass(Local)
    sent = pickle.loads(cloudpickle.dumps(ref))  # type: ignore[no-untyped-call]
    assert sent.load().__name__ == "Local"


def test_a_class_that_is_no_plugin_has_no_reference() -> None:
    with pytest.raises(TypeError, match="is not a plugin"):
        PluginRef.of(dict)
