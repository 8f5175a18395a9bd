"""Creates Spark's class archive: `python -m penstock.flow.spark.archiving FILE` starts Spark, and
its JVM writes the file when it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import StartupFailed
from penstock.flow.spark.session import Session, archiving_settings
from penstock.host import class_archive, jars

if TYPE_CHECKING:
    import pyarrow as pa

_MAKING_S: Final = 300.0
_WRITING_S: Final = 120.0


def make(say: Callable[[str], None]) -> Path:
    """The archive; creates it if it is missing (about twelve seconds, 150 MB). Raises
    StartupFailed."""
    return class_archive.make("spark", jars.java(), jars.pyspark_jars(), _run, say)


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
    session = Session(archiving_settings(path), lambda text: None)
    session.start()
    session.get().range(0, 1, 1, 1).mapInArrow(_same, "id long").collect()
    session.stop(_WRITING_S)
    if not path.is_file() or session.exit_code != 0:
        raise StartupFailed(
            f"Spark's JVM exited with {session.exit_code} and wrote no class archive"
        )


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
