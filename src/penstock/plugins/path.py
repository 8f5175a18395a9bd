"""Plugins in the folders that `plugin.path` lists (kafka-connect.md §15.1, §15.2).

As in Kafka Connect, each entry of a listed folder is one location. There it is a folder of jars or
a jar, here

    NAME.whl                    a wheel of Python code, imported as it is
    FOLDER/*.whl                a wheel and those it needs
    FOLDER/*.dist-info/         the result of `pip install --target FOLDER`; may be listed itself
    NAME.py, NAME/__init__.py   a module or package
    FOLDER/NAME.py …            a folder of modules and packages

Nothing is searched in jars here: `penstock.java.finding` does that.

How modules are imported from there:

- A location that holds plugins adds a folder, or its wheels, to the end of `sys.path` (its roots).
  So nothing there replaces a module of Python, penstock or an installed package; a plugin whose
  module name is taken is reported and skipped. There is one interpreter, hence one version of a
  module: locations are not isolated from each other.
- A wheel is imported from the archive, so nothing has to be unpacked or cleaned up. That does not
  work for compiled parts, nor for a package that opens its own files by path: use `pip install
  --target`.
- Where entry points declare the plugins, nothing else is imported. Elsewhere a module is imported
  only if its text imports penstock, in the order of names. Plugins that the `pyproject.toml` beside
  them declares count as declared.
- Spark's Python workers get the same roots in the same order (`flow.spark.daemon`); executors on
  other machines get the roots' contents with penstock's own code (`flow.spark.shipping`).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email import message_from_bytes
from enum import Enum
from importlib.metadata import EntryPoint, distributions
from importlib.util import find_spec
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Final

from penstock.api import Plugin
from penstock.config.worker_keys import PLUGIN_DISCOVERY, PLUGIN_PATH
from penstock.errors import StartupFailed
from penstock.plugins.project import declared_entries
from penstock.plugins.registry import (
    BASES,
    ENTRY_POINTS,
    InstalledPlugin,
    Level,
    Registry,
    SearchedLocation,
    SkippedPlugin,
    installed,
    loaded,
    log,
    not_imported,
    report,
)

Tree = Path | zipfile.Path
"""A folder or file, on disk or in a wheel."""

COMPILED: Final = frozenset({".so", ".pyd", ".dylib", ".dll"})

ROOTS: Final = "PENSTOCK_PLUGIN_ROOTS"
"""The variable with the roots for Python workers on this machine, as a JSON list."""

_NOT_PLUGINS: Final = frozenset({"conftest", "setup", "__main__", "tests", "test", "__pycache__"})
_ABOUT: Final = (".dist-info", ".egg-info", ".data")


class Discovery(Enum):
    """`plugin.discovery`: whether entry points are used, and whether modules are searched. An
    installed package must always declare its plugins."""

    ONLY_SCAN = "only_scan"
    HYBRID_WARN = "hybrid_warn"
    HYBRID_FAIL = "hybrid_fail"
    SERVICE_LOAD = "service_load"


class LocationForm(Enum):
    """The form of a location; the value is its name in messages."""

    WHEEL = "wheel"
    DISTRIBUTION = "installed into a folder"
    MODULE = "module"
    PACKAGE = "package"
    FOLDER = "folder of modules"
    JARS = "jar"
    PATH = "plugin.path"  # the listed path itself, with a problem


@dataclass(frozen=True, slots=True)
class Location:
    """One location before its search. `roots` are its entries for `sys.path`; `problem` is why it
    cannot be used, if that is known already."""

    form: LocationForm
    path: Path
    roots: tuple[Path, ...] = ()
    problem: SkippedPlugin | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """All searched locations, and the resulting registry."""

    registry: Registry
    places: tuple[SearchedLocation, ...]
    undeclared: tuple[InstalledPlugin, ...]  # found only by searching modules


def registry(props: Mapping[str, str]) -> Registry:
    """The plugins of a worker with these settings: installed ones and those in `plugin.path`. Logs
    skipped ones. Without a `plugin.path`, they are loaded at the first use.

    Raises StartupFailed when `plugin.discovery=hybrid_fail` and a plugin is not declared.
    """
    if not listed(props):
        return Registry.installed()
    result = survey(props)
    report(result.places)
    for lost, chosen in result.registry.shadowed:
        log.warning(
            "plugin %s %s in %s is not used: version %s in %s is higher, or was found first",
            lost.plugin.class_name,
            lost.plugin.version,
            lost.location,
            chosen.plugin.version,
            chosen.location,
        )
    refused = refusal(props, result)
    if refused is not None:
        raise StartupFailed(refused)
    if result.undeclared and _discovery(props) is Discovery.HYBRID_WARN:
        log.warning(_undeclared(result).format("warning"))
    return result.registry


def refusal(props: Mapping[str, str], result: Survey) -> str | None:
    """Why a worker with these settings does not start with these plugins."""
    if result.undeclared and _discovery(props) is Discovery.HYBRID_FAIL:
        return _undeclared(result).format("error")
    return None


def _undeclared(result: Survey) -> str:
    names = ", ".join(entry.plugin.class_name for entry in result.undeclared)
    return (
        "One or more plugins are not declared by entry points and may not be usable with "
        f"{PLUGIN_DISCOVERY.name}={Discovery.SERVICE_LOAD.value}: [{names}]. Declare them under "
        f'[project.entry-points."{ENTRY_POINTS}"] of their package. To silence this {{}}, set '
        f"{PLUGIN_DISCOVERY.name}={Discovery.ONLY_SCAN.value} in the worker config."
    )


def survey(props: Mapping[str, str]) -> Survey:
    """Searches all locations, imports modules with plugins, and adds their roots to `sys.path`."""
    discovery = _discovery(props)
    locations = [location for path in listed(props) for location in locations_in(path)]
    places = installed({str(root) for location in locations for root in location.roots})
    roots: dict[str, None] = {}
    undeclared: list[InstalledPlugin] = []
    for location in locations:
        place, missing = _look(location, discovery)
        places.append(place)
        if place.found:
            roots |= dict.fromkeys(map(str, location.roots))
        undeclared += missing
    entries = chain.from_iterable(place.found for place in places)
    return Survey(Registry(entries, list(roots)), tuple(places), tuple(undeclared))


def listed(props: Mapping[str, str]) -> list[Path]:
    """The absolute paths in `plugin.path`, whose placeholders are not resolved
    (kafka-connect.md §13.2)."""
    text = props.get(PLUGIN_PATH.name, "").strip()
    paths = [Path(os.path.abspath(path)) for path in PLUGIN_PATH.kind.read(text) or () if path]
    return list(dict.fromkeys(paths))


def _discovery(props: Mapping[str, str]) -> Discovery:
    try:
        return Discovery(props.get(PLUGIN_DISCOVERY.name, "").strip().lower())
    except ValueError:  # a non-empty one is an error in the worker's settings
        return Discovery(PLUGIN_DISCOVERY.default)


def locations_in(path: Path) -> list[Location]:
    """The locations of one listed path, by name. Imports nothing."""
    if path.suffix in _FILES and path.is_file():
        return [_FILES[path.suffix](path)]
    try:
        entries = sorted(entry for entry in path.iterdir() if _is_visible(entry))
    except OSError as error:
        reason = f"Could not get listing for plugin path: {path} ({error.strerror}). Ignoring"
        return [Location(LocationForm.PATH, path, problem=SkippedPlugin("", reason, Level.WARNING))]
    if any(entry.name == "__init__.py" for entry in entries):
        reason = "it is a package itself"
        problem = SkippedPlugin(
            str(path), reason, advice=f"List the folder it is in, '{path.parent}'."
        )
        return [Location(LocationForm.PATH, path, problem=problem)]
    locations: list[Location] = []
    own: set[str] = set()
    if any(entry.suffix == ".dist-info" for entry in entries):
        locations.append(Location(LocationForm.DISTRIBUTION, path, (path,)))
        own = _top_level(path)
    for entry in entries:
        if entry.name in own or entry.name.endswith(_ABOUT):
            continue
        try:
            locations += _entry(entry)
        except OSError as error:
            problem = SkippedPlugin(str(entry), f"it cannot be read: {error.strerror}")
            locations.append(Location(LocationForm.PATH, entry, problem=problem))
    return locations


def _entry(entry: Path) -> list[Location]:
    """The locations of an entry of a listed folder, possibly none. Raises OSError."""
    if entry.is_symlink() and not entry.exists():
        reason = f"Resolving symbolic link '{entry}' failed. Ignoring this path"
        return [
            Location(LocationForm.PATH, entry, problem=SkippedPlugin("", reason, Level.WARNING))
        ]
    if entry.is_dir():
        return _folder(entry)
    return [_FILES[entry.suffix](entry)] if entry.suffix in _FILES else []


def _folder(folder: Path) -> list[Location]:
    entries = sorted(entry for entry in folder.iterdir() if _is_visible(entry))
    if (folder / "__init__.py").is_file():
        return [Location(LocationForm.PACKAGE, folder, (folder.parent,))]
    if any(entry.suffix == ".dist-info" for entry in entries):
        return [Location(LocationForm.DISTRIBUTION, folder, (folder,))]
    wheels = [_wheel(entry) for entry in entries if entry.suffix == ".whl"]
    if wheels:
        usable = tuple(wheel.path for wheel in wheels if wheel.problem is None)
        together = [Location(LocationForm.WHEEL, folder, usable)] if usable else []
        return [*together, *(wheel for wheel in wheels if wheel.problem is not None)]
    if any(entry.suffix == ".py" or (entry / "__init__.py").is_file() for entry in entries):
        return [Location(LocationForm.FOLDER, folder, (folder,))]
    if any(chain(folder.glob("*.jar"), folder.glob("*/*.jar"))):
        return [Location(LocationForm.JARS, folder)]
    if (folder / "pyproject.toml").is_file():
        reason = "it contains the sources of a project"
        advice = f"Run 'pip install --target FOLDER {folder.name}', or build a wheel."
        problem = SkippedPlugin(str(folder), reason, Level.WARNING, advice)
        return [Location(LocationForm.FOLDER, folder, problem=problem)]
    return []


def _wheel(path: Path) -> Location:
    """A wheel, with its problem if it cannot be imported from the archive."""
    try:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            about = [wheel.read(name) for name in names if name.endswith(".dist-info/WHEEL")]
    except (OSError, zipfile.BadZipFile) as error:
        problem = SkippedPlugin(str(path), f"it cannot be read: {error}")
        return Location(LocationForm.WHEEL, path, problem=problem)
    compiled = [name for name in names if PurePosixPath(name).suffix in COMPILED]
    if compiled or any(message_from_bytes(text)["Root-Is-Purelib"] == "false" for text in about):
        example = f" ({compiled[0]})" if compiled else ""
        reason = f"the wheel has compiled parts{example}, which cannot be imported from an archive"
        advice = f"Run 'pip install --target FOLDER {path.name}' in a folder of plugin.path."
        return Location(
            LocationForm.WHEEL, path, problem=SkippedPlugin(str(path), reason, advice=advice)
        )
    if not about:
        problem = SkippedPlugin(str(path), "it is not a wheel: it contains no WHEEL file")
        return Location(LocationForm.WHEEL, path, problem=problem)
    return Location(LocationForm.WHEEL, path, (path,))


def _zip(path: Path) -> Location:
    reason = "an archive, which is not unpacked"
    problem = SkippedPlugin(str(path), reason, Level.WARNING, "Unpack it if it contains plugins.")
    return Location(LocationForm.PATH, path, problem=problem)


_FILES: Final[Mapping[str, Callable[[Path], Location]]] = {
    ".whl": _wheel,
    ".py": lambda path: Location(LocationForm.MODULE, path, (path.parent,)),
    ".jar": lambda path: Location(LocationForm.JARS, path),
    ".zip": _zip,
}
"""The location of a file by its suffix."""


def _is_visible(entry: Path) -> bool:
    return not entry.name.startswith(".") and entry.name != "__pycache__"


def _top_level(folder: Path) -> set[str]:
    """The names in a folder that belong to distributions installed into it."""
    return {
        PurePosixPath(file).parts[0]
        for dist in distributions(path=[str(folder)])
        for file in dist.files or ()
    }


def _look(
    location: Location, discovery: Discovery
) -> tuple[SearchedLocation, tuple[InstalledPlugin, ...]]:
    """Searches a location; also returns its plugins that no entry point declares."""
    place = SearchedLocation(location.form.value, str(location.path))
    if location.problem is not None:
        return replace(place, skipped=(location.problem,)), ()
    if location.form is LocationForm.JARS:
        reason = "a jar; plugins written in Java run in the Java host"
        return replace(place, skipped=(SkippedPlugin(str(location.path), reason, Level.NOTE),)), ()
    entries: tuple[InstalledPlugin, ...] = ()
    undeclared: tuple[InstalledPlugin, ...] = ()
    skipped: tuple[SkippedPlugin, ...] = ()
    try:
        with _on_path(location.roots) as keep:
            if discovery is not Discovery.ONLY_SCAN and location.form in _INSTALLED:
                entries, skipped = _declared(location)
            if not entries and not skipped:
                declared = _of_project(location)
                if discovery is Discovery.SERVICE_LOAD:
                    entries, skipped = declared
                    if not entries and not skipped:
                        skipped = tuple(_not_declared(location))
                else:
                    entries, skipped = _scanned(location)
                    skipped = skipped or declared[1]
                    known = {entry.cls for entry in declared[0]}
                    undeclared = tuple(entry for entry in entries if entry.cls not in known)
            if entries:
                keep()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        skipped = (SkippedPlugin(str(location.path), f"it cannot be read: {error}"),)
    return replace(place, found=entries, skipped=skipped), undeclared


_INSTALLED: Final = frozenset({LocationForm.WHEEL, LocationForm.DISTRIBUTION})


@contextmanager
def _on_path(roots: Sequence[Path]) -> Iterator[Callable[[], None]]:
    """Appends roots to `sys.path`; they stay only if the yielded function is called."""
    added = [str(root) for root in roots if str(root) not in sys.path]
    sys.path.extend(added)
    importlib.invalidate_caches()
    keep: list[bool] = []
    try:
        yield lambda: keep.append(True)
    finally:
        if not keep:
            for root in added:
                sys.path.remove(root)


def _declared(location: Location) -> tuple[tuple[InstalledPlugin, ...], tuple[SkippedPlugin, ...]]:
    """The plugins that the distributions of a location declare."""
    skipped: list[SkippedPlugin] = []
    usable: list[EntryPoint] = []
    for dist in sorted(distributions(path=[*map(str, location.roots)]), key=lambda it: it.name):
        for entry in dist.entry_points.select(group=ENTRY_POINTS):
            conflict = _name_conflict(entry.module, location.roots)
            if conflict:
                skipped.append(SkippedPlugin(f"'{entry.name}' ({entry.value})", conflict))
            else:
                usable.append(entry)
    entries, broken = loaded(usable, str(location.path))
    return entries, (*skipped, *broken)


def _of_project(
    location: Location,
) -> tuple[tuple[InstalledPlugin, ...], tuple[SkippedPlugin, ...]]:
    """The plugins in modules of a location which the `pyproject.toml` of their project declares:
    a project under development is in `plugin.path` as is, without metadata."""
    entries: list[EntryPoint] = []
    for root in location.roots if location.form in _SOURCES else ():
        project = root.parent if root.name == "src" else root
        own = (
            location.path.stem
            if location.form in (LocationForm.MODULE, LocationForm.PACKAGE)
            else None
        )
        for name, value in declared_entries(project / "pyproject.toml").items():
            entry = EntryPoint(name, value, ENTRY_POINTS)
            if entry.module.partition(".")[0] == own or (
                own is None and not _name_conflict(entry.module, location.roots)
            ):
                entries.append(entry)
    return loaded(entries, str(location.path))


_SOURCES: Final = frozenset({LocationForm.MODULE, LocationForm.PACKAGE, LocationForm.FOLDER})


def _not_declared(location: Location) -> Iterator[SkippedPlugin]:
    names = [name for name, text in _modules(location) if _imports_penstock(text)]
    if names:
        yield SkippedPlugin(
            str(location.path),
            f"{PLUGIN_DISCOVERY.name}={Discovery.SERVICE_LOAD.value} uses only plugins that a "
            f"distribution declares, and {', '.join(names)} is not declared",
            Level.WARNING,
        )


def _scanned(location: Location) -> tuple[tuple[InstalledPlugin, ...], tuple[SkippedPlugin, ...]]:
    """The plugin classes that are defined in the modules which import penstock."""
    entries: list[InstalledPlugin] = []
    skipped: list[SkippedPlugin] = []
    candidates = 0
    passed_over: set[str] = set()
    for name, text in _modules(location):
        if not _imports_penstock(text):
            continue
        candidates += 1
        package = name.partition(".")[0]
        conflict = _name_conflict(name, location.roots)
        if conflict and package not in passed_over:
            skipped.append(SkippedPlugin(package, conflict))
            passed_over.add(package)
        if conflict:
            continue
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # a plugin's code; the others must still work
            skipped.append(not_imported(name.rpartition(".")[2], name, error))
            continue
        classes = dict.fromkeys(filter(inspect.isclass, vars(module).values()))
        for cls in classes:
            if cls.__module__ == name and _is_meant(cls):
                try:
                    entries.append(_of_its_own(cls, str(location.path)))
                except TypeError as error:
                    level = Level.NOTE if _is_a_base(cls) else Level.BROKEN
                    skipped.append(SkippedPlugin(f"{name}.{cls.__qualname__}", str(error), level))
    if not entries and not skipped:
        reason = (
            "no module in it imports penstock" if not candidates else "it defines no plugin class"
        )
        skipped.append(SkippedPlugin(str(location.path), reason, Level.NOTE))
    return tuple(entries), tuple(skipped)


def _is_meant(cls: type) -> bool:
    """Whether a class is a plugin, or a broken one."""
    return issubclass(cls, BASES) or isinstance(vars(cls).get("plugin"), Plugin)


def _is_a_base(cls: type) -> bool:
    """Whether it is a common base of plugins, or a variant of one, and not itself a plugin."""
    return "plugin" not in vars(cls) and (
        inspect.isabstract(cls) or bool(cls.__subclasses__()) or hasattr(cls, "plugin")
    )


def _of_its_own(cls: type, location: str) -> InstalledPlugin:
    entry = InstalledPlugin.of(cls, location)
    if "plugin" not in vars(cls):
        raise TypeError(f"{cls!r} is not a plugin: its `plugin` is inherited from its base")
    return entry


def _modules(location: Location) -> Iterator[tuple[str, bytes]]:
    """The Python modules of a location, by their full names, and their texts."""
    match location.form:
        case LocationForm.MODULE | LocationForm.PACKAGE:
            yield from _in_tree([location.path], "")
        case LocationForm.WHEEL:
            for root in location.roots:
                yield from _in_tree(zipfile.Path(str(root)).iterdir(), "")
        case _:
            yield from _in_tree(location.path.iterdir(), "")


def _in_tree(entries: Iterable[Tree], package: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(entries, key=lambda entry: entry.name):
        stem = entry.name.removesuffix(".py")
        test = stem.startswith("test_") or stem.endswith("_test") or stem in _NOT_PLUGINS
        if test or not stem.isidentifier():
            continue
        if entry.is_dir():
            if (entry / "__init__.py").is_file():
                yield from _in_tree(entry.iterdir(), f"{package}{stem}.")
        elif entry.name.endswith(".py"):
            name = package.rstrip(".") if stem == "__init__" else f"{package}{stem}"
            if name:
                yield name, entry.read_bytes()


def _imports_penstock(text: bytes) -> bool:
    """Whether a module's text imports penstock. A text with a syntax error counts if it mentions
    penstock, so that its import reports the error."""
    if b"penstock" not in text:
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return True
    names = chain.from_iterable(
        [alias.name for alias in node.names]
        if isinstance(node, ast.Import)
        else [node.module or ""]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    return any(name.partition(".")[0] == "penstock" for name in names)


def _name_conflict(module: str, roots: Sequence[Path]) -> str | None:
    """Why a module cannot be imported from these roots: another one has its name."""
    name = module.partition(".")[0]
    if name == "penstock" or name in sys.stdlib_module_names:
        owner = "penstock" if name == "penstock" else "Python"
        return f"'{name}' is the name of a module of {owner}; rename it"
    places = _origins(name)
    if places and not any(_is_in(place, root) for place in places for root in roots):
        return f"'{name}' is also the name of another module, which takes precedence: {places[0]}"
    return None


def _origins(name: str) -> Sequence[str]:
    """Where the module or package of this name is imported from; all folders of a namespace
    package."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):  # ValueError: a module without a spec
        return ()
    if spec is None:
        return ()
    return (
        [spec.origin]
        if spec.has_location and spec.origin
        else [*(spec.submodule_search_locations or ())]
    )


def _is_in(place: str, root: Path) -> bool:
    return any(
        known(place).startswith(f"{known(root)}{os.sep}") for known in (os.fspath, os.path.realpath)
    )


def files(root: str) -> Iterator[tuple[PurePosixPath, Tree]]:
    """Everything that may be imported from a root, by relative path: whole packages with their
    other files, modules, and the metadata of distributions. Omits a package or module whose name
    another one has here."""
    entries: list[Tree] = []
    entries += (zipfile.Path(root) if os.path.isfile(root) else Path(root)).iterdir()
    installed_into = any(entry.name.endswith(".dist-info") for entry in entries)
    for entry in sorted(entries, key=lambda entry: entry.name):
        name = entry.name.partition(".")[0]
        if entry.name.endswith(".dist-info"):
            for about in ("METADATA", "entry_points.txt"):
                if (entry / about).is_file():
                    yield PurePosixPath(entry.name, about), entry / about
        elif not name.isidentifier() or _name_conflict(name, [Path(root)]):
            continue
        elif entry.is_dir():
            if installed_into or (entry / "__init__.py").is_file():
                yield from _everything(entry, PurePosixPath(entry.name))
        elif entry.name.endswith((".py", *COMPILED)):
            yield PurePosixPath(entry.name), entry


def _everything(folder: Tree, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, Tree]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _everything(entry, place / entry.name)
        elif not entry.name.endswith(".pyc"):
            yield place / entry.name, entry
