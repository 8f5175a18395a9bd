"""Archives of the Java classes that a program loads. The program's JVM maps its archive (JEP 350),
and starts in half the time, with half of the CPU time.

An archive is for one program, one Java and one list of jars; a JVM gets no other. `penstock jars`
creates them, below the penstock home.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed
from penstock.host import jars

_UNUSED_S: Final = 30 * 24 * 3600.0

_QUIET: Final = ("-Xlog:cds=error", "-Xlog:cds+dynamic=error")
"""The JVM ignores an archive that does not fit, without a message on every start."""


def place() -> Path:
    """The folder of archives."""
    return jars.home() / "classes"


def name(program: str, java: str, classes: Iterable[Path], size: int | None = None) -> str:
    """The name of an archive of `size` bytes, or a pattern for one of any size. `program` is a word
    such as `spark`; `classes` are the jars on its class path."""
    resolved = Path(java).resolve()  # the same for every link to this Java
    release = resolved.parent.parent / "release"
    parts = [str(resolved), release.read_text() if release.is_file() else ""]
    for jar in sorted(classes):
        status = jar.stat()
        parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{program}-{fingerprint}-{'*' if size is None else size}.jsa"


def existing(program: str, java: str, classes: Iterable[Path]) -> Path | None:
    """The archive; None if there is none. A truncated archive does not count: it would crash the
    JVM."""
    for path in place().glob(name(program, java, classes)):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def options(program: str, java: str, classes: Iterable[Path]) -> list[str]:
    """The JVM options for the archive; none if there is no archive."""
    path = existing(program, java, classes)
    if path is None:
        return []
    with suppress(OSError):  # somebody else's archive
        os.utime(path)  # it is in use: see `make`
    return [f"-XX:SharedArchiveFile={path}", *_QUIET]


def writing_options(path: Path) -> list[str]:
    """The JVM options to write the archive when the program ends."""
    return [f"-XX:ArchiveClassesAtExit={path}", "-Xlog:disable"]


def make(
    program: str,
    java: str,
    classes: Iterable[Path],
    run: Callable[[Path], None],
    say: Callable[[str], None],
) -> Path:
    """The archive. If it is missing, `run` starts and stops the program with `writing_options` of a
    path, and archives of the program that no JVM has mapped for a month are removed: other
    environments with the same home need theirs.

    Raises StartupFailed when the folder of archives is not writable, or the JVM wrote nothing.
    """
    jars_of_program = list(classes)
    if path := existing(program, java, jars_of_program):
        return path
    say(f"archiving Java's classes for {program}, so that it starts in half the time")
    folder = place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            jars.locked_home("archiving"),
            tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as work,
        ):
            if path := existing(program, java, jars_of_program):
                return path
            archive = Path(work) / f"{program}.jsa"
            run(archive)
            if not archive.is_file():
                raise StartupFailed(f"Java wrote no archive of its classes for {program}.")
            _remove_unused(folder.glob(f"{program}-*.jsa"))
            size = archive.stat().st_size
            return archive.rename(folder / name(program, java, jars_of_program, size))
    except OSError as error:
        raise StartupFailed(
            f"Java's classes for {program} cannot be archived in {folder}: {error.strerror}. Set "
            "PENSTOCK_HOME to a folder that can be written to."
        ) from error


def _remove_unused(archives: Iterable[Path]) -> None:
    for path in archives:
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - _UNUSED_S:
                path.unlink()
