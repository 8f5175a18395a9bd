"""An archive of the Java classes that Spark loads, which its JVM maps (JEP 350): Spark then starts
in half the time, with half of the work.

An archive is for one Java and one set of Spark's jars; any other is ignored. `archiving` creates
it, below the penstock home.
"""

from __future__ import annotations

import hashlib
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.host import jars

_QUIET: Final = "-Xlog:cds=error -Xlog:cds+dynamic=error"
"""The JVM ignores an archive that does not fit, without a message on every start."""


def place() -> Path:
    """The folder of archives."""
    return jars.home() / "classes"


def name(java: str, size: int | None = None) -> str:
    """The name of this Java's archive, of so many bytes; a pattern if that is not known."""
    program = Path(java).resolve()  # whichever name it is called by
    release = program.parent.parent / "release"
    about = [str(program), release.read_text() if release.is_file() else ""]
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    for jar in sorted(Path(spec.origin).with_name("jars").glob("*.jar")):
        status = jar.stat()
        about.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    fingerprint = hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
    return f"spark-{fingerprint}-{'*' if size is None else size}.jsa"


def archive(java: str) -> Path | None:
    """This Java's archive; None if there is none. A truncated archive does not count: it would
    crash the JVM."""
    for path in place().glob(name(java)):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def options(java: str) -> list[str]:
    """The JVM options for the archive; none if there is no archive."""
    path = archive(java)
    return [] if path is None else [f"-XX:SharedArchiveFile={shlex.quote(str(path))}", _QUIET]
