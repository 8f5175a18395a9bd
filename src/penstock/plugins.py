"""The plugins of a worker: found through entry points, looked up by the names configurations use.

A `Registry` is a value that is passed along; importing it has no side effects, and a test makes its
own with two plugins in it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import entry_points
from typing import Final

from penstock.api import (
    ConfigProvider,
    Converter,
    HeaderConverter,
    Plugin,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transform,
)
from penstock.errors import BadRequest

log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "penstock.plugins"

PluginClass = (
    type[SourceConnector]
    | type[SinkConnector]
    | type[HeaderConverter]
    | type[Transform]
    | type[Predicate]
    | type[ConfigProvider]
)


class Kind(Enum):
    """What a plugin is; the names of `GET /connector-plugins`, where config providers are not."""

    SINK = "sink"
    SOURCE = "source"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORM = "transformation"
    PREDICATE = "predicate"
    CONFIG_PROVIDER = "configprovider"


_BASES: Final[Sequence[tuple[Kind, type, str]]] = (
    (Kind.SINK, SinkConnector, "Connector"),
    (Kind.SOURCE, SourceConnector, "Connector"),
    (Kind.CONVERTER, Converter, "Converter"),
    (Kind.HEADER_CONVERTER, HeaderConverter, "HeaderConverter"),
    (Kind.TRANSFORM, Transform, "Transformation"),
    (Kind.PREDICATE, Predicate, "Predicate"),
    (Kind.CONFIG_PROVIDER, ConfigProvider, "ConfigProvider"),
)
"""Every kind: its base class, and the suffix that may be left out of a name (reference §15.3)."""


@dataclass(frozen=True, slots=True)
class Found:
    """One plugin class and what it says of itself."""

    kind: Kind
    cls: PluginClass
    plugin: Plugin

    def names(self) -> frozenset[str]:
        """Every name a configuration may use for it."""
        simple = self.plugin.simple_name
        suffix = next(suffix for kind, _, suffix in _BASES if kind is self.kind)
        cut = simple.rfind(suffix)  # the last occurrence; what follows it is lost too
        short = simple[:cut] if cut > 0 else simple
        return frozenset({self.plugin.class_name, simple, short})


class UnknownConnectorClass(BadRequest):
    """`connector.class` names nothing that is installed, or more than one thing."""

    code = "plugins.unknown_connector"


class Registry:
    """Plugins by name. Later duplicates of one class name are ignored."""

    def __init__(self, classes: Iterable[PluginClass]) -> None:
        self.found: list[Found] = []
        for cls in classes:
            found = Found(_kind_of(cls), cls, cls.plugin)
            if all(found.plugin.class_name != f.plugin.class_name for f in self.found):
                self.found.append(found)

    @classmethod
    def installed(cls) -> Registry:
        """Every plugin that an installed package offers; one that cannot be loaded is skipped.

        An entry point names a class, or a tuple of classes.
        """
        classes: list[PluginClass] = []
        for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
            try:
                loaded = entry.load()
                found = loaded if isinstance(loaded, tuple) else (loaded,)
                for each in found:
                    _kind_of(each)
                classes += found
            except Exception as error:  # somebody else's code; the others shall still work
                log.warning("plugin '%s' (%s) is skipped: %s", entry.name, entry.value, error)
        return cls(classes)

    def of_kind(self, *kinds: Kind) -> list[Found]:
        """The plugins of these kinds, by class name."""
        matching = (found for found in self.found if found.kind in kinds)
        return sorted(matching, key=lambda found: found.plugin.class_name)

    def connector(self, name: str) -> Found:
        """The connector a `connector.class` names; raises UnknownConnectorClass."""
        connectors = self.of_kind(Kind.SOURCE, Kind.SINK)
        matching = [f for f in connectors if name in f.names() or f"{name}Connector" in f.names()]
        exact = [f for f in matching if f.plugin.class_name == name]
        if len(exact or matching) == 1:
            return (exact or matching)[0]
        if matching:
            names = ", ".join(found.plugin.class_name for found in matching)
            raise UnknownConnectorClass(
                f"More than one connector matches alias {name}. Please use full package and class "
                f"name instead. Classes found: {names}"
            )
        available = ", ".join(
            f"PluginDesc{{klass=class {f.plugin.class_name}, name='{f.plugin.class_name}', "
            f"version='{f.plugin.version}', encodedVersion={f.plugin.version}, "
            f"type={f.kind.value}, typeName='{f.kind.value}', location='classpath'}}"
            for f in connectors
        )
        raise UnknownConnectorClass(
            "Failed to find any class that implements Connector and which name matches "
            f"{name}, available connectors are: {available}"
        )

    def find_connector(self, name: str | None) -> Found | None:
        """The connector a `connector.class` names, or None when it names none here."""
        try:
            return self.connector(name.strip()) if name is not None else None
        except UnknownConnectorClass:
            return None

    def version(self, name: str | None) -> str | None:
        """The version of the connector a `connector.class` names, if it is installed."""
        found = self.find_connector(name)
        return found.plugin.version if found else None

    def converter(self, name: str) -> type[Converter] | None:
        """The converter a configuration names, or None when there is no such (or no single) one."""
        found = self._single(name, Kind.CONVERTER)
        return found if found is not None and issubclass(found, Converter) else None

    def header_converter(self, name: str) -> type[HeaderConverter] | None:
        """The header converter a configuration names; every converter is one too."""
        found = self._single(name, Kind.CONVERTER, Kind.HEADER_CONVERTER)
        return found if found is not None and issubclass(found, HeaderConverter) else None

    def transform(self, name: str) -> type[Transform] | None:
        """The transform a configuration names, or None when there is no such (or no single) one."""
        found = self._single(name, Kind.TRANSFORM)
        return found if found is not None and issubclass(found, Transform) else None

    def predicate(self, name: str) -> type[Predicate] | None:
        """The predicate a configuration names, or None when there is no such (or no single) one."""
        found = self._single(name, Kind.PREDICATE)
        return found if found is not None and issubclass(found, Predicate) else None

    def any(self, name: str) -> Found | None:
        """The plugin of whatever kind a name means; None when it means none, or several."""
        return _meant(name, self.found)

    def config_provider(self, name: str) -> type[ConfigProvider] | None:
        """The config provider a configuration names, or None when there is no such one."""
        found = self._single(name, Kind.CONFIG_PROVIDER)
        return found if found is not None and issubclass(found, ConfigProvider) else None

    def _single(self, name: str, *kinds: Kind) -> PluginClass | None:
        found = _meant(name, self.of_kind(*kinds))
        return found.cls if found is not None else None


def _meant(name: str, among: Iterable[Found]) -> Found | None:
    """The one of these that a name means: by its full class name, or else by any other."""
    matching = [found for found in among if name in found.names()]
    exact = [found for found in matching if found.plugin.class_name == name]
    chosen = exact or matching
    return chosen[0] if len(chosen) == 1 else None


def _kind_of(cls: object) -> Kind:
    if inspect.isclass(cls) and isinstance(getattr(cls, "plugin", None), Plugin):
        for kind, base, _ in _BASES:
            if issubclass(cls, base):
                return kind
    bases = ", ".join(base.__name__ for _, base, _ in _BASES)
    raise TypeError(f"{cls!r} is not a plugin: it needs a `plugin` and one of the bases {bases}")
