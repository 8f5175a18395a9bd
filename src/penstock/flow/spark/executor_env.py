"""A Python environment for executors: `python -m penstock.flow.spark.executor_env
environment.tar.gz`.

Holds the dependencies of penstock and the installed plugins, as installed here, including compiled
parts; neither penstock and plugins themselves, which are sent at every start (`shipping`), nor
PySpark, which executors have. Executors unpack it through `spark.archives`. It is built offline; it
runs on the same kind of system, where the base interpreter is at the same path as here.
"""

from __future__ import annotations

import io
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path, PurePosixPath
from typing import Final

import click

from penstock.errors import PenstockError, StartupFailed
from penstock.plugins.registry import ENTRY_POINTS

_OF_SPARK: Final = frozenset({"pyspark", "py4j"})
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA: Final = re.compile(r"\bextra\s*==")


def needed(own: Iterable[str]) -> list[Distribution]:
    """The transitive dependencies of the distributions named in `own`, sorted by name, excluding
    these, Spark, and dependencies that are not installed here."""
    start = {_plain(name) for name in own}
    distributions: dict[str, Distribution] = {}
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name in distributions or name in _OF_SPARK:
            continue
        try:
            distributions[name] = distribution(name)
        except PackageNotFoundError:
            continue
        for line in distributions[name].requires or ():
            required = _NAME.match(line)
            if required is not None and not _EXTRA.search(line):
                waiting.append(_plain(required[0]))
    return [dist for name, dist in sorted(distributions.items()) if name not in start]


def own_distributions() -> set[str]:
    """The names of penstock's distribution and of those with plugins."""
    plugins = entry_points(group=ENTRY_POINTS)
    return {"penstock", *(entry.dist.name for entry in plugins if entry.dist is not None)}


def write(archive: Path, distributions: Iterable[Distribution]) -> None:
    """Writes the environment to a `.tar.gz` (or `.tgz`): Spark refuses to unpack the interpreter's
    link from other formats. Raises StartupFailed when it cannot be written."""
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise StartupFailed(f"'{archive}' is not named .tar.gz or .tgz, as Spark unpacks them.")
    base = Path(os.path.realpath(sys.executable))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    settings = f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    packages = PurePosixPath("lib", f"python{version}", "site-packages")
    try:
        with tarfile.open(archive, "w:gz", compresslevel=1, dereference=True) as tar:
            _add_link(tar, PurePosixPath("bin", "python"), str(base))
            _add_link(tar, PurePosixPath("bin", "python3"), "python")
            _add_text(tar, PurePosixPath("pyvenv.cfg"), settings)
            for dist in distributions:
                for file in dist.files or ():
                    if ".." not in file.parts:  # else a script, which executors do not run
                        path = Path(str(dist.locate_file(file)))
                        if path.is_file():
                            tar.add(path, str(packages / file.as_posix()), recursive=False)
    except OSError as error:
        raise StartupFailed(f"Cannot write '{archive}': {error.strerror}.") from error


def _plain(name: str) -> str:
    """A distribution's normalized name: it ignores case and separators (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _add_link(tar: tarfile.TarFile, place: PurePosixPath, target: str) -> None:
    about = tarfile.TarInfo(str(place))
    about.type = tarfile.SYMTYPE
    about.linkname = target
    tar.addfile(about)


def _add_text(tar: tarfile.TarFile, place: PurePosixPath, text: str) -> None:
    about = tarfile.TarInfo(str(place))
    about.size = len(text.encode())
    tar.addfile(about, io.BytesIO(text.encode()))


@click.command()
@click.argument("archive", type=click.Path(path_type=Path, dir_okay=False))
def main(archive: Path) -> None:
    """Pack what penstock and the installed plugins depend on into ARCHIVE (.tar.gz)."""
    distributions = needed(own_distributions())
    write(archive, distributions)
    click.echo(
        f"{archive}: {len(distributions)} packages for Python {sysconfig.get_python_version()}, "
        f"{archive.stat().st_size >> 20} MB. In the worker's properties:\n"
        f"  spark.archives={archive.absolute()}#environment\n"
        f"  spark.pyspark.python=./environment/bin/python"
    )


if __name__ == "__main__":
    try:
        main(standalone_mode=True)
    except PenstockError as error:
        click.echo(f"penstock: {error}", err=True)
        sys.exit(error.exit_code)
