"""The archive of Java's classes: made once, and used by every JVM of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from penstock.flow.spark import archiving, classes
from penstock.flow.spark.session import archiving_options
from penstock.host import jars

STARTED: Final = """
import sys
from penstock.flow.spark.session import Session
session = Session({}, print)
session.start()
print(session.get().range(3).count())
session.stop()
"""


@pytest.fixture(scope="module")
def archive() -> Path:
    """The one that all tests use, which `make test` has made."""
    return archiving.make(print)


def loaded(folder: Path, home: Path) -> str:
    """What the JVM of a new session says of where its classes are from."""
    log = folder / "classes.log"
    env = {
        **os.environ,
        "JAVA_TOOL_OPTIONS": f"-Xlog:class+load:file={log}",
        "PENSTOCK_HOME": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-c", STARTED], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "3", done.stderr
    assert "cds" not in done.stderr + done.stdout
    return log.read_text()


def test_spark_is_loaded_from_the_archive(archive: Path, tmp_path: Path) -> None:
    assert " org.apache.spark.SparkContext source: shared objects file (top)" in loaded(
        tmp_path, jars.home()
    )


def test_one_that_lacks_bytes_is_left_alone(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "classes").mkdir(parents=True)
    (home / "jars").symlink_to(jars.home() / "jars")
    (home / "classes" / archive.name).write_bytes(archive.read_bytes()[:5_000_000])
    assert "SparkContext source: file:" in loaded(tmp_path, home)


def test_java_by_another_name_has_the_same(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "java"
    other.symlink_to(jars.java())
    assert classes.archive(str(other)) == archive


def test_whoever_has_options_of_his_own_has_these_alone(archive: Path) -> None:
    assert archive == classes.archive(jars.java())
    assert any(str(archive) in option for option in classes.options(jars.java()))
    [given] = archiving_options(Path("a b/c")).values()
    assert "-XX:ArchiveClassesAtExit='a b/c'" in given
