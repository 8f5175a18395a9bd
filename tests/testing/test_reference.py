from pathlib import Path

import pytest

from penstock.config.properties import parse_properties
from penstock.host import jars
from penstock.testing.processes import worker_settings
from penstock.testing.waiting import wait_until
from tests.servers.reference import reference_worker, script_options


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the jars, and a program in place of Java that prints its arguments."""
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("connect-runtime-4.3.1.jar", "connect-file-4.3.1.jar", "kafka-clients-4.3.1.jar"):
        (folder / name).touch()
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    monkeypatch.setattr(jars, "folder", lambda which: folder)
    monkeypatch.setattr(jars, "java", lambda: str(java))
    return folder


def test_options_are_those_of_kafka_s_scripts() -> None:
    assert script_options({})[:2] == ["-Xms256M", "-Xmx2G"]
    assert "-XX:+UseG1GC" in script_options({})
    given = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseZGC -ea"}
    assert script_options(given) == ["-Xmx1g", "-XX:+UseZGC", "-ea"]
    assert script_options({"KAFKA_HEAP_OPTS": ""}) == script_options({})


def test_the_file_connectors_are_a_plugin_and_not_on_the_class_path(
    connect: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = worker_settings("localhost:9092", "cluster")
    worker = reference_worker(home, settings, options=["-Xmx256m"])
    with worker:
        wait_until(lambda: not worker.alive, 30, "the program to end")
    said = worker.log_text().splitlines()
    assert said[0] == "-Xmx256m"
    classes = said[said.index("-cp") + 1]
    assert "connect-runtime" in classes
    assert "connect-file" not in classes
    assert said[-2:] == ["org.apache.kafka.connect.cli.ConnectDistributed", str(worker.file)]

    written = parse_properties(worker.file.read_bytes())
    plugins = Path(written.pop("plugin.path"))
    assert written == settings
    assert (plugins / "file" / "connect-file-4.3.1.jar").resolve() == (
        connect / "connect-file-4.3.1.jar"
    )
    assert f"-Dlog4j2.configurationFile={home / 'reference.log4j2.properties'}" in said


def test_one_that_does_not_end_when_it_is_asked_to_is_killed(connect: Path, tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\ntrap '' TERM\necho up\nwhile :; do sleep 1; done\n")
    worker = reference_worker(tmp_path, worker_settings("localhost:9092", "cluster"))
    with worker:
        wait_until(lambda: "up" in worker.log_text(), 30, "the program to begin")
        assert worker.stop(0.5) == -9
        assert not worker.alive
