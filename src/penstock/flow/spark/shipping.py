"""Ships our code to executors, which do not have it.

Penstock and the plugins installed beside it are packed into one archive of Python files. Every
executor fetches it from the worker before its first task (`spark.files`) into the folder it runs
in, and finds it there through a relative entry of its `PYTHONPATH`; so the Python daemon can import
it from the start, and it takes precedence over installed packages. Packages with compiled parts
cannot be imported from an archive: they belong in the executors' own Python environment
(`executor_env`).
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

import penstock
from penstock.plugins import path as plugin_path
from penstock.plugins.registry import ENTRY_POINTS, root_of

_ABOUT: Final = frozenset({"METADATA", "entry_points.txt"})
"""The files of a distribution's metadata that are packed: its version is read at run time."""

_WHEN: Final = (1980, 1, 1, 0, 0, 0)  # equal contents make equal archives

Files = Mapping[PurePosixPath, plugin_path.Tree]
"""Files by their path in the archive."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """The archive, and the plugins that are not in it because they have compiled parts."""

    archive: Path
    left_out: tuple[str, ...]


def pack(
    folder: Path, plugins: Iterable[EntryPoint] | None = None, roots: Sequence[str] = ()
) -> Shipment:
    """Packs penstock, the packages of `plugins` (default: all installed ones) and the `roots` of
    `plugin.path` into an archive in `folder`, named after its contents."""
    if plugins is None:
        plugins = entry_points(group=ENTRY_POINTS)
    files: dict[PurePosixPath, plugin_path.Tree] = {}
    files |= _package(Path(penstock.__file__).parent)
    left_out: set[str] = set()
    for root in roots:
        more, compiled = _of_root(root)
        files = {**more, **files}  # the first root with a module wins, as on `sys.path`
        left_out |= compiled
    for entry in plugins:
        if entry.module.partition(".")[0] == penstock.__name__:
            continue
        if entry.dist is not None and root_of(entry.dist) in roots:
            continue
        plugin_files = _of_plugin(entry)
        if any(path.suffix in plugin_path.COMPILED for path in plugin_files):
            left_out.add(entry.module.partition(".")[0])
        else:
            files |= plugin_files
    data = _archive(files)
    name = f"penstock-{hashlib.sha256(data).hexdigest()[:16]}.zip"
    archive = folder / name
    archive.write_bytes(data)
    return Shipment(archive, tuple(sorted(left_out)))


def _of_root(root: str) -> tuple[Files, set[str]]:
    """The files of a root, and the names of the packages that have compiled parts."""
    files = dict(plugin_path.files(root))
    compiled = {place.parts[0] for place in files if place.suffix in plugin_path.COMPILED}
    pure = {place: file for place, file in files.items() if place.parts[0] not in compiled}
    return pure, {name.partition(".")[0] for name in compiled}


def _of_plugin(entry: EntryPoint) -> Files:
    """The files of a plugin's distribution; if that lists none (it is installed from its sources,
    or not at all), those of the package or module of its class."""
    files: dict[PurePosixPath, plugin_path.Tree] = {}
    if entry.dist is not None:
        files |= _of_distribution(entry.dist)
    if not any(path.suffix == ".py" for path in files):
        files |= _of_module(entry.module.partition(".")[0])
    return files


def _of_distribution(dist: Distribution) -> Iterator[tuple[PurePosixPath, Path]]:
    for path in dist.files or ():
        place = PurePosixPath(path.as_posix())
        described = place.parts[0].endswith(".dist-info")
        if ".." in place.parts or place.is_absolute() or place.suffix in {".pyc", ".pth"}:
            continue  # scripts, and files useful only where they were installed
        if not described or place.name in _ABOUT:
            yield place, Path(str(dist.locate_file(path)))


def _of_module(name: str) -> Files:
    spec = find_spec(name)
    if spec is None:
        return {}
    if spec.submodule_search_locations is not None:
        places = [Path(place) for place in spec.submodule_search_locations]
        return dict(entry for place in places for entry in _package(place))
    return {PurePosixPath(f"{name}.py"): Path(spec.origin)} if spec.origin else {}


def _package(folder: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.suffix != ".pyc":
            yield PurePosixPath(folder.name, *file.relative_to(folder).parts), file


def _archive(files: Files) -> bytes:
    buffer = io.BytesIO()
    folders = {parent for place in files for parent in place.parents if parent.name}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in sorted(folders):  # a package without `__init__` is found by this entry
            archive.writestr(zipfile.ZipInfo(f"{folder}/", _WHEN), b"")
        for place, file in sorted(files.items()):
            about = zipfile.ZipInfo(str(place), _WHEN)
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, file.read_bytes())
    return buffer.getvalue()
