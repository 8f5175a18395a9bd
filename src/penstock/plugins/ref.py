"""A plugin as a value: what it is, and how the process that runs it loads it.

Flow plans name plugins so. Only `load` knows that a plugin is a Python class; another way of
loading is another class beside `PythonClass`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar, cast, final

from penstock.plugins.registry import InstalledPlugin, PluginClass, PluginKind

P = TypeVar("P", covariant=True)


@final
@dataclass(frozen=True, slots=True)
class PythonClass:
    """A class that its module has by name. Where the plugin runs, the module is importable: see
    `flow.spark.shipping` and `plugins.path`."""

    module: str
    name: str

    def load(self) -> object:
        return reduce(getattr, self.name.split("."), importlib.import_module(self.module))


@final
@dataclass(frozen=True, slots=True)
class LocalClass:
    """A class that no module has by name, such as one that a function defines: the value carries
    it."""

    cls: object

    def load(self) -> object:
        return self.cls


Loading = PythonClass | LocalClass


@dataclass(frozen=True, slots=True)
class PluginRef(Generic[P]):
    """One plugin. `class_name` is the name that configurations use, `name` its short one."""

    kind: PluginKind
    name: str
    class_name: str
    version: str
    loading: Loading
    task_class: str | None = None

    @classmethod
    def of(cls, plugin_class: type[P]) -> PluginRef[P]:
        """The reference to a class. Raises TypeError if it is not a plugin."""
        plugin = InstalledPlugin.of(plugin_class)
        return cls(
            plugin.kind,
            plugin_class.__name__,
            plugin.plugin.class_name,
            plugin.plugin.version,
            _loading(plugin.cls),
            plugin.plugin.task_class,
        )

    def load(self) -> type[P]:
        """The class. Raises ImportError or AttributeError if it is not installed here."""
        return cast("type[P]", self.loading.load())

    @property
    def runs_as(self) -> str:
        """The class name that failures and dead letters show."""
        return self.task_class or self.class_name


def _loading(cls: PluginClass) -> Loading:
    by_name = PythonClass(cls.__module__, cls.__qualname__)
    try:
        is_there = cls.__module__ != "__main__" and by_name.load() is cls
    except (ImportError, AttributeError):
        is_there = False
    return by_name if is_there else LocalClass(cls)
