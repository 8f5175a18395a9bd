"""The plugins of a worker: found through entry points, looked up by the names in configurations.

A `Registry` is a value; importing it has no side effects, and a test can make its own with two
plugins. Plugins in `plugin.path`: see `path`.
"""

from __future__ import annotations

import inspect
import logging
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Final, cast

from penstock.api import (
    ConfigProvider,
    ConsumerInterceptor,
    Converter,
    HeaderConverter,
    Plugin,
    Predicate,
    ProducerInterceptor,
    SinkConnector,
    SourceConnector,
    Transform,
)
from penstock.config.connector_keys import CONNECTOR_CLASS
from penstock.config.java_host import wants_java
from penstock.config.versions import Version
from penstock.errors import BadRequest

log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "penstock.plugins"

CLASSPATH: Final = "classpath"
"""Kafka Connect's name for the location of plugins that are installed with the worker."""

PluginClass = (
    type[SourceConnector]
    | type[SinkConnector]
    | type[HeaderConverter]
    | type[Transform]
    | type[Predicate]
    | type[ConfigProvider]
    | type[ProducerInterceptor]
    | type[ConsumerInterceptor]
)


class PluginKind(Enum):
    """The kinds of plugins; the names are those of `GET /connector-plugins`, which has no
    providers and no interceptors."""

    SINK = "sink"
    SOURCE = "source"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORM = "transformation"
    PREDICATE = "predicate"
    CONFIG_PROVIDER = "configprovider"
    PRODUCER_INTERCEPTOR = "producer_interceptor"
    CONSUMER_INTERCEPTOR = "consumer_interceptor"


_BASES: Final[Sequence[tuple[PluginKind, type, str]]] = (
    (PluginKind.SINK, SinkConnector, "Connector"),
    (PluginKind.SOURCE, SourceConnector, "Connector"),
    (PluginKind.CONVERTER, Converter, "Converter"),
    (PluginKind.HEADER_CONVERTER, HeaderConverter, "HeaderConverter"),
    (PluginKind.TRANSFORM, Transform, "Transformation"),
    (PluginKind.PREDICATE, Predicate, "Predicate"),
    (PluginKind.CONFIG_PROVIDER, ConfigProvider, "ConfigProvider"),
    (PluginKind.PRODUCER_INTERCEPTOR, ProducerInterceptor, "ProducerInterceptor"),
    (PluginKind.CONSUMER_INTERCEPTOR, ConsumerInterceptor, "ConsumerInterceptor"),
)
"""Every kind: its base class, and the suffix that an alias leaves out (kafka-connect.md §15.3)."""


_IN_JAVA: Final = frozenset({PluginKind.SOURCE, PluginKind.SINK})
"""The kinds of plugins that are found in jars."""

BASES: Final = tuple(base for _, base, _ in _BASES)
"""The base classes of plugins."""


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """One plugin class, its description and its location. `java`: the class is written in Java, and
    `cls` has its name and its description only."""

    kind: PluginKind
    cls: PluginClass
    plugin: Plugin
    location: str = CLASSPATH
    java: bool = False

    @classmethod
    def of(cls, plugin_class: object, location: str = CLASSPATH) -> InstalledPlugin:
        """Raises TypeError, with the reason, if it is not a plugin class."""
        kind, checked = _kind_of(plugin_class)
        return cls(kind, checked, checked.plugin, location)

    def names(self) -> frozenset[str]:
        """Every name that a configuration may use for it."""
        simple = self.plugin.simple_name
        suffix = next(suffix for kind, _, suffix in _BASES if kind is self.kind)
        cut = simple.rfind(suffix)  # the last occurrence; what follows it is lost too
        short = simple[:cut] if cut > 0 else simple
        return frozenset({self.plugin.class_name, simple, short, *self.plugin.also})


class Level(Enum):
    """The severity of a skipped plugin."""

    NOTE = "note"  # expected
    WARNING = "warning"  # possibly a mistake
    BROKEN = "broken"  # a broken plugin


@dataclass(frozen=True, slots=True)
class SkippedPlugin:
    """A skipped plugin or file: what, why, and advice. If `what` is empty, `why` names it."""

    what: str
    why: str
    level: Level = Level.BROKEN
    advice: str = ""

    def __str__(self) -> str:
        text = f"plugin {self.what} is skipped: {self.why}" if self.what else self.why
        return f"{text}. {self.advice}" if self.advice else text


@dataclass(frozen=True, slots=True)
class SearchedLocation:
    """A searched location and its plugins. `kind` is for messages; `where` is the path or, for
    installed plugins, the distribution."""

    kind: str
    where: str
    found: tuple[InstalledPlugin, ...] = ()
    skipped: tuple[SkippedPlugin, ...] = ()


class UnknownConnectorClass(BadRequest):
    """`connector.class` matches no installed connector, or more than one."""


class Registry:
    """Plugins by name. Of several with one class name the highest version is used; of equal
    versions the first, so that installed ones win over `plugin.path` (kafka-connect.md §15.4).

    `plugins` may be a function, which is called at the first use: it imports every plugin, which
    takes a while. `roots` are the folders and wheels that `plugin.path` added to the import path,
    here and wherever the plugins run. `java` finds the connectors written in Java; one whose class
    name a Python connector has, too, is used only where a configuration asks for it. Thread-safe.
    """

    def __init__(
        self,
        plugins: Iterable[PluginClass | InstalledPlugin]
        | Callable[[], Iterable[PluginClass | InstalledPlugin]],
        roots: Sequence[str] = (),
        java: Callable[[], Sequence[InstalledPlugin]] | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self._find_java = java
        self._java_lock = threading.Lock()  # guards the search of jars
        self._java: Sequence[InstalledPlugin] | None = None
        self._lock = threading.Lock()  # guards the choice while it is made
        self._import: Callable[[], Iterable[PluginClass | InstalledPlugin]] | None = None
        self._choice: _Choice | None = None
        if callable(plugins):
            self._import = plugins
        else:
            self._choice = _choose(plugins)

    @property
    def found(self) -> Sequence[InstalledPlugin]:
        """All plugins that can be used, including those in jars that Python has none of."""
        return [*self.load().chosen, *self._only_in_java()]

    @property
    def shadowed(self) -> Sequence[tuple[InstalledPlugin, InstalledPlugin]]:
        """Unused plugins, each with the one that is used instead."""
        return self.load().shadowed

    def load(self) -> _Choice:
        """Imports the plugins, unless that has been done."""
        with self._lock:
            if self._choice is None:
                assert self._import is not None
                self._choice = _choose(self._import())
            return self._choice

    def in_java(self) -> Sequence[InstalledPlugin]:
        """The connectors written in Java. Searches the jars, unless that has been done: the first
        time, that takes seconds."""
        with self._java_lock:
            if self._java is None:
                self._java = () if self._find_java is None else tuple(self._find_java())
            return self._java

    def _only_in_java(self) -> list[InstalledPlugin]:
        names = {entry.plugin.class_name for entry in self.load().chosen}
        return [entry for entry in self.in_java() if entry.plugin.class_name not in names]

    def with_java(self, java: Callable[[], Sequence[InstalledPlugin]]) -> Registry:
        """The same plugins, and connectors written in Java, which are found at their first use."""

        def everything() -> list[InstalledPlugin]:
            choice = self.load()
            return [*choice.chosen, *(unused for unused, _ in choice.shadowed)]

        return Registry(everything, self.roots, java)

    @classmethod
    def installed(cls) -> Registry:
        """Every plugin of the installed packages, loaded at the first use; skips those that cannot
        be loaded."""

        def load() -> Iterator[InstalledPlugin]:
            places = installed()
            report(places)
            return (entry for place in places for entry in place.found)

        return cls(load)

    def of_kind(self, *kinds: PluginKind) -> list[InstalledPlugin]:
        """The plugins of these kinds, by class name."""
        everything = self.found if _IN_JAVA.intersection(kinds) else self.load().chosen
        matching = (entry for entry in everything if entry.kind in kinds)
        return sorted(matching, key=lambda entry: entry.plugin.class_name)

    def connector_of(self, props: Mapping[str, str | None]) -> InstalledPlugin:
        """The connector that a configuration names; raises UnknownConnectorClass."""
        name = (props.get(CONNECTOR_CLASS.name) or "").strip()
        return self.connector(name, java=wants_java(props))

    def find_connector_of(self, props: Mapping[str, str | None]) -> InstalledPlugin | None:
        """The connector that a configuration names, or None."""
        try:
            return self.connector_of(props)
        except UnknownConnectorClass:
            return None

    def connector(self, name: str, *, java: bool = False) -> InstalledPlugin:
        """The connector a `connector.class` names, `java`: among those written in Java; raises
        UnknownConnectorClass."""
        connectors = self.in_java() if java else self.of_kind(*_IN_JAVA)
        matching = [f for f in connectors if name in f.names() or f"{name}Connector" in f.names()]
        exact = [f for f in matching if f.plugin.class_name == name]
        if len(exact or matching) == 1:
            return (exact or matching)[0]
        if matching:
            names = ", ".join(entry.plugin.class_name for entry in matching)
            raise UnknownConnectorClass(
                f"More than one connector matches alias {name}. Please use full package and class "
                f"name instead. Classes found: {names}"
            )
        available = ", ".join(
            f"PluginDesc{{klass=class {f.plugin.class_name}, name='{f.plugin.class_name}', "
            f"version='{f.plugin.version}', encodedVersion={f.plugin.version}, "
            f"type={f.kind.value}, typeName='{f.kind.value}', location='{f.location}'}}"
            for f in connectors
        )
        raise UnknownConnectorClass(
            "Failed to find any class that implements Connector and which name matches "
            f"{name}, available connectors are: {available}"
        )

    def find_connector(self, name: str | None) -> InstalledPlugin | None:
        """The connector that a `connector.class` names, or None."""
        try:
            return self.connector(name.strip()) if name is not None else None
        except UnknownConnectorClass:
            return None

    def converter(self, name: str) -> type[Converter] | None:
        """The converter that a configuration names, or None if unknown or ambiguous."""
        cls = self._single(name, PluginKind.CONVERTER)
        return cls if cls is not None and issubclass(cls, Converter) else None

    def header_converter(self, name: str) -> type[HeaderConverter] | None:
        """The header converter a configuration names; every converter is one too."""
        cls = self._single(name, PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER)
        return cls if cls is not None and issubclass(cls, HeaderConverter) else None

    def transform(self, name: str) -> type[Transform] | None:
        """The transform that a configuration names, or None if unknown or ambiguous."""
        cls = self._single(name, PluginKind.TRANSFORM)
        return cls if cls is not None and issubclass(cls, Transform) else None

    def predicate(self, name: str) -> type[Predicate] | None:
        """The predicate that a configuration names, or None if unknown or ambiguous."""
        cls = self._single(name, PluginKind.PREDICATE)
        return cls if cls is not None and issubclass(cls, Predicate) else None

    def any(self, name: str) -> InstalledPlugin | None:
        """The plugin of any kind that a name refers to; None if unknown or ambiguous."""
        return _unambiguous(name, self.found)

    def config_provider(self, name: str) -> type[ConfigProvider] | None:
        """The config provider that a configuration names, or None."""
        cls = self._single(name, PluginKind.CONFIG_PROVIDER)
        return cls if cls is not None and issubclass(cls, ConfigProvider) else None

    def producer_interceptor(self, name: str) -> type[ProducerInterceptor] | None:
        """The producer's interceptor that a configuration names, or None."""
        cls = self._single(name, PluginKind.PRODUCER_INTERCEPTOR)
        return cls if cls is not None and issubclass(cls, ProducerInterceptor) else None

    def consumer_interceptor(self, name: str) -> type[ConsumerInterceptor] | None:
        """The consumer's interceptor that a configuration names, or None."""
        cls = self._single(name, PluginKind.CONSUMER_INTERCEPTOR)
        return cls if cls is not None and issubclass(cls, ConsumerInterceptor) else None

    def _single(self, name: str, *kinds: PluginKind) -> PluginClass | None:
        entry = _unambiguous(name, self.of_kind(*kinds))
        return entry.cls if entry is not None else None


@dataclass(frozen=True, slots=True)
class _Choice:
    chosen: Sequence[InstalledPlugin]
    shadowed: Sequence[tuple[InstalledPlugin, InstalledPlugin]]


def _choose(plugins: Iterable[PluginClass | InstalledPlugin]) -> _Choice:
    shadowed: list[tuple[InstalledPlugin, InstalledPlugin]] = []
    chosen: dict[str, InstalledPlugin] = {}
    for plugin in plugins:
        entry = plugin if isinstance(plugin, InstalledPlugin) else InstalledPlugin.of(plugin)
        known = chosen.setdefault(entry.plugin.class_name, entry)
        if Version(known.plugin.version) < Version(entry.plugin.version):
            chosen[entry.plugin.class_name] = entry
            shadowed.append((known, entry))
        elif known.cls is not entry.cls:
            shadowed.append((entry, known))
    return _Choice(list(chosen.values()), shadowed)


def _unambiguous(name: str, among: Iterable[InstalledPlugin]) -> InstalledPlugin | None:
    """The one of these that a name refers to: by its full class name, or else by an alias."""
    matching = [entry for entry in among if name in entry.names()]
    exact = [entry for entry in matching if entry.plugin.class_name == name]
    chosen = exact or matching
    return chosen[0] if len(chosen) == 1 else None


_ONE_NAMESPACE: Final = (
    frozenset({PluginKind.SOURCE, PluginKind.SINK}),
    frozenset({PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER}),
    frozenset({PluginKind.TRANSFORM}),
    frozenset({PluginKind.PREDICATE}),
    frozenset({PluginKind.CONFIG_PROVIDER}),
    frozenset({PluginKind.PRODUCER_INTERCEPTOR}),
    frozenset({PluginKind.CONSUMER_INTERCEPTOR}),
)
"""Kinds that the same settings refer to, so that their short names must differ."""


def ambiguous(plugins: Iterable[InstalledPlugin]) -> list[tuple[str, Sequence[InstalledPlugin]]]:
    """Ambiguous short names, which fit several plugins and cannot be used.

    Names of nested classes (`Value` of `Cast$Value`) do not count.
    """
    plain = [entry for entry in plugins if "$" not in entry.plugin.class_name]
    shared: list[tuple[str, Sequence[InstalledPlugin]]] = []
    for kinds in _ONE_NAMESPACE:
        by_name: defaultdict[str, list[InstalledPlugin]] = defaultdict(list)
        for entry in plain:
            for name in entry.names() if entry.kind in kinds else ():
                by_name[name].append(entry)
        shared += [
            (name, several) for name, several in by_name.items() if not _unambiguous(name, several)
        ]
    return sorted(shared, key=lambda pair: pair[0])


def installed(without: Collection[str] = ()) -> list[SearchedLocation]:
    """The plugins of installed packages, one location for each distribution, except those in the
    folders and wheels of `without`."""
    by_distribution: defaultdict[str, list[EntryPoint]] = defaultdict(list)
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        if entry.dist is None:
            by_distribution["unknown"].append(entry)
        elif root_of(entry.dist) not in without:
            by_distribution[f"{entry.dist.name} {entry.dist.version}"].append(entry)
    return [
        SearchedLocation("installed", name, *loaded(entries, CLASSPATH))
        for name, entries in sorted(by_distribution.items())
    ]


def root_of(dist: Distribution) -> str:
    """The folder or wheel that a distribution is in."""
    return str(dist.locate_file("")).rstrip("/")


def loaded(
    entries: Iterable[EntryPoint], location: str
) -> tuple[tuple[InstalledPlugin, ...], tuple[SkippedPlugin, ...]]:
    """The plugins that entry points name; each names a class, or a tuple of classes."""
    plugins: list[InstalledPlugin] = []
    skipped: list[SkippedPlugin] = []
    for entry in entries:
        try:
            value = entry.load()
        except (Exception, SystemExit) as error:  # a plugin's code; the others must still work
            skipped.append(not_imported(entry.name, entry.value, error))
            continue
        for cls in value if isinstance(value, tuple) else (value,):
            try:
                plugins.append(InstalledPlugin.of(cls, location))
            except TypeError as error:
                skipped.append(SkippedPlugin(f"'{entry.name}' ({entry.value})", str(error)))
    return tuple(plugins), tuple(skipped)


def not_imported(name: str, value: str, error: BaseException) -> SkippedPlugin:
    """A plugin whose module cannot be imported, or does not contain it."""
    reason = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    steps = [
        step
        for step in traceback.extract_tb(error.__traceback__)
        if "importlib" not in step.filename and not step.filename.startswith(__file__)
    ]
    place = f" ({steps[-1].filename}, line {steps[-1].lineno})" if steps else ""
    advice = ""
    if isinstance(error, ModuleNotFoundError):
        advice = f"Install '{error.name}' into the worker's environment, or beside the plugin."
    return SkippedPlugin(f"'{name}' ({value})", f"{reason}{place}", advice=advice)


def report(places: Iterable[SearchedLocation]) -> None:
    """Logs skipped plugins, as warnings unless that is expected."""
    levels = {Level.BROKEN: logging.WARNING, Level.WARNING: logging.WARNING}
    for place in places:
        for skipped in place.skipped:
            log.log(levels.get(skipped.level, logging.DEBUG), "%s", skipped)


def _kind_of(cls: object) -> tuple[PluginKind, PluginClass]:
    if inspect.isclass(cls):
        lacks = sorted(getattr(cls, "__abstractmethods__", ()))
        for kind, base, _ in _BASES:
            if issubclass(cls, base):
                if not isinstance(getattr(cls, "plugin", None), Plugin):
                    raise TypeError(f"{cls!r} is not a plugin: it needs a class variable `plugin`")
                if lacks:
                    raise TypeError(f"{cls!r} is not a plugin: it lacks {', '.join(lacks)}")
                return kind, cast("PluginClass", cls)
    bases = ", ".join(base.__name__ for _, base, _ in _BASES)
    raise TypeError(f"{cls!r} is not a plugin: it needs a `plugin` and one of the bases {bases}")
