"""Spark's settings when executors are on other machines."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StartupFailed
from penstock.flow.spark import remote


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Undoes settings for the driver's JVM; relative paths start in `tmp_path`."""
    for name in ("PATH", "PYTHONPATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def master() -> Iterator[str]:
    """The address of something that listens as a master would."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"spark://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", False),
        ("local[64]", False),
        ("local[*,2]", False),
        ("spark://a:7077", True),
        ("yarn", True),
        ("k8s://https://a:6443", True),
        ("local-cluster[2,1,1024]", True),
    ],
)
def test_executors_are_elsewhere_unless_the_master_is_local(master: str, expected: bool) -> None:
    assert remote.is_remote(master) is expected


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.speculation": "true"},
        {"spark.speculation": " TRUE "},
        {"spark.submit.deployMode": "cluster"},
    ],
)
def test_settings_that_write_twice_or_cannot_work_are_refused_by_name(
    settings: dict[str, str],
) -> None:
    (name,) = settings
    with pytest.raises(StartupFailed, match=name.replace(".", r"\.")):
        remote.refuse(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark.speculation": "false"},
        {"spark.submit.deployMode": "client"},
        {"spark.speculation.quantile": "0.9"},
    ],
)
def test_other_settings_are_not_refused(settings: dict[str, str]) -> None:
    remote.refuse(settings)


def test_the_users_settings_win_and_ours_are_added(master: str, tmp_path: Path) -> None:
    own = {
        "spark.task.maxFailures": "7",
        "spark.driver.host": "driver.example.org",
        "spark.executorEnv.PYTHONPATH": "/opt/more",
        "spark.files": "notes.txt,hdfs://names/x,/abs/y",
        "spark.archives": "env.tar.gz#environment",
        "spark.anything": "else",
    }
    effective, _ = remote.settings_for(master, own, tmp_path / "driver")
    (archive,) = (tmp_path / "driver").glob("penstock-*.zip")
    assert effective == {
        "spark.task.maxFailures": "7",
        "spark.executorEnv.PYTHONWARNINGS": "ignore",
        "spark.driver.host": "driver.example.org",
        "spark.executorEnv.PYTHONPATH": f"{archive.name}:/opt/more",
        "spark.files": f"{archive},{tmp_path}/notes.txt,hdfs://names/x,/abs/y",
        "spark.archives": f"{tmp_path}/env.tar.gz#environment",
        "spark.anything": "else",
    }


def test_the_driver_is_where_the_master_is_reached_from(master: str, tmp_path: Path) -> None:
    effective, python = remote.settings_for(master, {}, tmp_path / "driver")
    assert effective["spark.driver.host"] == "127.0.0.1"
    assert effective["spark.task.maxFailures"] == "2"
    assert python == sys.executable


def test_a_second_master_is_tried(master: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    both = f"spark://127.0.0.1:{closed},{master.removeprefix('spark://')}"
    assert remote.settings_for(both, {}, tmp_path)[0]["spark.driver.host"] == "127.0.0.1"


def test_other_cluster_managers_choose_the_drivers_address(tmp_path: Path) -> None:
    assert "spark.driver.host" not in remote.settings_for("yarn", {}, tmp_path)[0]


def test_a_master_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_MASTER_WAIT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(StartupFailed) as raised:
        remote.settings_for(master, {}, tmp_path)
    assert f"spark.master={master}" in str(raised.value)
    assert "Connection refused" in str(raised.value)


@pytest.mark.parametrize("master", ["spark://host", "spark://", "spark://a:1,b", "spark://:7077"])
def test_a_master_without_host_and_port_is_refused(master: str, tmp_path: Path) -> None:
    with pytest.raises(StartupFailed, match=r"spark://host:port"):
        remote.settings_for(master, {}, tmp_path)
