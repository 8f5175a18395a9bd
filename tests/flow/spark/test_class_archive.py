"""The class archives: created once, and mapped by every JVM of Spark and of brokers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from penstock.errors import StartupFailed
from penstock.flow.spark import archiving
from penstock.flow.spark.session import archiving_settings, class_path
from penstock.host import class_archive, jars
from penstock.kafka.broker import BRIEF, Broker, archive_classes

STARTED: Final = """
import sys
from penstock.flow.spark import archiving, job
from penstock.flow.spark.session import Session
session = Session({}, print)
session.start()
job.run(session.get(), archiving.leave)
print("ended")
session.stop()
"""


@pytest.fixture(scope="module")
def archive() -> Path:
    """The archive that all tests use, made by `make test`."""
    return archiving.make(print)


def loaded(folder: Path, home: Path) -> str:
    """The class loading log of a new session's JVM."""
    log = folder / "classes.log"
    env = {
        **os.environ,
        "JAVA_TOOL_OPTIONS": f"-Xlog:class+load:file={log}",
        "PENSTOCK_HOME": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-c", STARTED], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "ended", done.stderr
    assert "cds" not in done.stderr + done.stdout
    return log.read_text()


def classes() -> list[Path]:
    """The class path of Spark's JVM."""
    return [*jars.pyspark_jars(), *class_path(print)]


def test_spark_our_classes_and_kafkas_are_loaded_from_the_archive(
    archive: Path, tmp_path: Path
) -> None:
    log = loaded(tmp_path, jars.home())
    assert " org.apache.spark.SparkContext source: shared objects file (top)" in log
    assert " penstock.Slot source: shared objects file (top)" in log
    assert " org.apache.kafka.common.utils.Utils source: file:" not in log


def test_a_slot_runs_without_sql(archive: Path, tmp_path: Path) -> None:
    log = loaded(tmp_path, jars.home())
    assert " penstock.Slot " in log
    assert "sql.classic.SparkSession " not in log
    assert "org.apache.spark.sql.catalyst" not in log
    assert "org.codehaus.janino" not in log


def test_one_that_lacks_bytes_is_left_alone(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "classes").mkdir(parents=True)
    (home / "jars").symlink_to(jars.home() / "jars")
    (home / "classes" / archive.name).write_bytes(archive.read_bytes()[:5_000_000])
    assert "SparkContext source: file:" in loaded(tmp_path, home)


def test_our_classes_are_compiled_once(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "jars").symlink_to(jars.home() / "jars")
    assert "org.codehaus.janino.Compiler " in loaded(tmp_path, home)
    [jar] = (home / "classes").iterdir()
    second = loaded(tmp_path, home)
    assert f" penstock.Slot source: file:{jar}" in second
    assert "org.codehaus.janino" not in second


def test_our_classes_need_no_home_that_can_be_written_to(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "jars").symlink_to(jars.home() / "jars")
    (home / "classes").write_text("a file")
    assert " penstock.Slot source: file:/" in loaded(tmp_path, home)


def test_java_by_another_name_has_the_same(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "java"
    other.symlink_to(jars.java())
    assert class_archive.existing("spark", str(other), classes()) == archive


def test_other_jars_have_no_archive(archive: Path) -> None:
    assert class_archive.options("spark", jars.java(), classes())
    assert class_archive.options("spark", jars.java(), classes()[1:]) == []


def test_a_path_with_a_space_reaches_the_jvm_as_one_option() -> None:
    [settings] = archiving_settings(Path("a b/c")).values()
    assert "'-XX:ArchiveClassesAtExit=a b/c'" in settings


def test_a_program_that_writes_no_archive_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    with pytest.raises(StartupFailed, match="Java wrote no archive of its classes for nothing"):
        class_archive.make("nothing", jars.java(), [], lambda path: None, print)
    assert not list(class_archive.place().iterdir())


def test_a_folder_that_cannot_be_written_to_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    (tmp_path / "classes").write_text("a file")
    with pytest.raises(StartupFailed, match="Set PENSTOCK_HOME to a folder that can be written"):
        class_archive.make("nothing", jars.java(), [], lambda path: None, print)


def test_a_broker_is_loaded_from_its_archive(tmp_path: Path) -> None:
    archive = archive_classes(print)
    assert archive == archive_classes(print)
    log = tmp_path / "classes.log"
    options = [BRIEF, f"-Xlog:class+load:file={log}"]
    with Broker(tmp_path / "data", java_options=options) as broker:
        assert "cds" not in (broker.folder / "broker.out").read_text()
    assert "kafka.server.KafkaRaftServer source: shared objects file (top)" in log.read_text()
