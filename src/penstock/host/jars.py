"""penstock's Java archives, fetched once by the Ivy inside PySpark.

`jars.lock` lists every archive with its checksum; nothing is resolved transitively. A set is a
folder of jars under the penstock home (`PENSTOCK_HOME`, by default `~/.penstock`); a folder is
complete or absent. On a machine without a network, `PENSTOCK_JARS` names a folder with the sets,
which `export` has written; then nothing is fetched.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from penstock.errors import StartupFailed

JAVA_MIN: Final = 17
SETS: Final = ("spark", "broker", "connect", "java-host")
JARS_VARIABLE: Final = "PENSTOCK_JARS"


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One archive: Maven coordinates and the SHA-256 of its bytes."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


_SETTINGS: Final = """\
<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false"/>
</resolvers></ivysettings>
"""
"""Without descriptors: the list is complete, so no dependencies are resolved."""


def home() -> Path:
    """The folder of downloaded jars and the embedded broker's data."""
    return Path(os.environ.get("PENSTOCK_HOME", Path.home() / ".penstock")).absolute()


def locked(which: str) -> list[Jar]:
    """The jars of one set, such as `spark`, as `jars.lock` lists them."""
    text = resources.files("penstock.host").joinpath("jars.lock").read_text()
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return [Jar(*_coordinates(text), sha256=sha256) for kind, text, sha256 in rows if kind == which]


def version(which: str, name: str) -> str:
    """The version of a jar of a set, such as `kafka-clients` of `broker`."""
    return next(jar.version for jar in locked(which) if jar.name == name)


def _coordinates(text: str) -> tuple[str, str, str]:
    group, name, version = text.split(":")
    return group, name, version


def folder(which: str, say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder with the jars of one set; fetches them if it does not exist.

    `say` is called with the progress. Raises StartupFailed when Java is missing or too old, an
    archive cannot be fetched, or its checksum differs; and when `PENSTOCK_JARS` names a folder
    without the set.
    """
    jars = locked(which)
    name = _folder_name(which, jars)
    if configured := os.environ.get(JARS_VARIABLE):
        delivered = Path(configured).absolute() / name
        if delivered.is_dir():
            return delivered
        raise StartupFailed(
            f"{JARS_VARIABLE} names '{configured}', which lacks the folder {name}: the jars "
            f"for {which} of this version. Where there is a network, write them with `penstock "
            f"jars {which} --to FOLDER`; or unset {JARS_VARIABLE} to fetch them."
        )
    target = home() / "jars" / name
    if not target.is_dir():
        with locked_home("fetching"):  # Ivy's cache allows one process at a time
            if not target.is_dir():
                say(f"fetching {len(jars)} jars for {which}")
                _fetch(jars, target)
    return target


def export(which: str, to: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """Copies the jars of one set into `to`, for `PENSTOCK_JARS`; returns the set's folder there.

    An existing set is not changed. Raises StartupFailed as `folder` does, and when a jar is not
    the one that `jars.lock` lists.
    """
    jars = locked(which)
    target = to.absolute() / _folder_name(which, jars)
    if target.is_dir():
        return target
    source = folder(which, say)
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to, prefix=".copy-") as work:
        copied = Path(work) / "jars"
        copied.mkdir()
        for jar in jars:
            shutil.copyfile(source / jar.file, copied / jar.file)
            _check(jar, copied / jar.file, "")
        copied.rename(target)
    return target


def set_name(which: str) -> str:
    """The name of a set's folder, which changes with its jars."""
    return _folder_name(which, locked(which))


def _folder_name(which: str, jars: Iterable[Jar]) -> str:
    """Names the set and its content, so that versions of penstock can share a folder."""
    fingerprint = hashlib.sha256("".join(jar.sha256 for jar in jars).encode()).hexdigest()[:12]
    return f"{which}-{fingerprint}"


@contextmanager
def locked_home(work: str) -> Iterator[None]:
    """Locks the penstock home for one kind of `work`; other processes wait for the lock."""
    home().mkdir(parents=True, exist_ok=True)
    with (home() / f"{work}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def java() -> str:
    """The `java` program to use; raises StartupFailed when it is missing or too old."""
    java_home = os.environ.get("JAVA_HOME")
    program = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java")
    variable = "JAVA_HOME" if java_home else "PATH"
    if not program or not os.access(program, os.X_OK):
        raise StartupFailed(
            f"No Java found: {variable} does not lead to a 'java' program. "
            f"Install Java {JAVA_MIN} or newer, or set JAVA_HOME to where it is installed."
        )
    version, printed = _version(program)
    if version is None:
        raise StartupFailed(f"'{program} -version' printed no version, only: {printed.strip()!r}")
    if version < JAVA_MIN:
        raise StartupFailed(
            f"Java {version} is too old ({program}): Spark and Kafka need Java {JAVA_MIN} or "
            "newer. Install it, or set JAVA_HOME to a newer one."
        )
    return program


def _version(program: str) -> tuple[int | None, str]:
    """The feature release of a `java` program, and the text that states it: the file `release` of
    its installation, or else what the program prints."""
    release = Path(program).resolve().parent.parent / "release"
    with suppress(OSError):
        stated = release.read_text()
        if line := re.search(r'^JAVA_VERSION="(.+)"$', stated, re.MULTILINE):
            return java_version(f'version "{line[1]}"'), stated
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    printed = answer.stderr + answer.stdout
    return java_version(printed), printed


def java_version(printed: str) -> int | None:
    """The feature release in what `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_402"."""
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else None


def _fetch(jars: Iterable[Jar], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as work:
        descriptor = Path(work) / "ivy.xml"
        descriptor.write_text(_ivy_xml(jars))
        settings = Path(work) / "settings.xml"
        settings.write_text(_SETTINGS)
        fetched = Path(work) / "jars"
        fetched.mkdir()
        command = [java(), "-jar", str(_ivy_jar()), "-settings", str(settings)]
        command += ["-ivy", str(descriptor), "-confs", "default"]
        command += ["-cache", str(home() / "ivy")]
        command += ["-retrieve", f"{fetched}/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for jar in jars:
            _check(jar, fetched / jar.file, done.stdout + done.stderr)
        fetched.rename(target)


def _check(jar: Jar, file: Path, log: str) -> None:
    if not file.is_file():
        lines = (
            "\n".join(line for line in log.splitlines() if "ERROR" in line or jar.name in line)
            or log[-800:]
        )
        raise StartupFailed(
            f"{jar.group}:{jar.name}:{jar.version} could not be fetched. Check that Maven Central "
            f"is reachable and that the disk has space. Ivy reported:\n{lines}"
        )
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    if sha256 != jar.sha256:
        raise StartupFailed(
            f"{jar.file} has the SHA-256 {sha256}, but jars.lock expects {jar.sha256}. "
            f"Delete {home() / 'ivy'} and retry; if the error persists, the archive "
            "was tampered with."
        )


def _ivy_xml(jars: Iterable[Jar]) -> str:
    rows = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.name)} "
        f'rev={quoteattr(jar.version)} transitive="false" conf="default->default">'
        f'<artifact name={quoteattr(jar.name)} type="jar" ext="jar"/></dependency>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="penstock" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{rows}</dependencies></ivy-module>"
    )


def pyspark_jars() -> list[Path]:
    """The jars that PySpark ships; raises StartupFailed if it ships none."""
    spec = find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    paths = [jar for place in places or () for jar in sorted(Path(place).glob("jars/*.jar"))]
    if not paths:
        raise StartupFailed("PySpark is not installed with its jars; run `make setup`.")
    return paths


def _ivy_jar() -> Path:
    return next(jar for jar in pyspark_jars() if jar.name.startswith("ivy-"))
