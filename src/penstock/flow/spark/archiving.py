"""Makes the archive of Java's classes that `classes` looks for: `python -m
penstock.flow.spark.archiving FILE` starts Spark, and its JVM writes the file when it ends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import StartupFailed
from penstock.flow.spark import classes
from penstock.flow.spark.session import Session, archiving_options
from penstock.host import jars

if TYPE_CHECKING:
    import pyarrow as pa

_MAKING_S: Final = 300.0
_WRITING_S: Final = 120.0


def make(say: Callable[[str], None]) -> Path:
    """The archive; creates it if it is missing (some twelve seconds, 150 MB) and removes others.
    Raises StartupFailed."""
    java = jars.java()
    if existing := classes.archive(java):
        return existing
    say("archiving the classes of Spark, so that it starts in half the time")
    place = classes.place()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix=".making-") as folder:
            archive = Path(folder) / "spark.jsa"
            _run(archive)
            for old in place.glob("spark-*.jsa"):
                old.unlink()
            return archive.rename(place / classes.name(java, archive.stat().st_size))
    except OSError as error:
        raise StartupFailed(
            f"The classes of Spark cannot be archived in {place}: {error.strerror}. Set "
            "PENSTOCK_HOME to a folder that can be written to."
        ) from error


def _run(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(path)],
        capture_output=True,
        text=True,
        timeout=_MAKING_S,
        check=False,
    )
    if done.returncode != 0:
        raise StartupFailed(f"Java wrote no archive of its classes:\n{done.stderr[-2000:]}")


def _write(path: Path) -> None:
    """Starts Spark with the classes that slots load."""
    session = Session(archiving_options(path), lambda text: None)
    session.start()
    session.get().range(0, 1, 1, 1).mapInArrow(_same, "id long").collect()
    session.stop(_WRITING_S)
    if not path.is_file() or session.exit_code != 0:
        raise StartupFailed(f"Spark's JVM ends with {session.exit_code}")


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
