"""The environment that executors unpack: what is in it, and that it runs."""

from __future__ import annotations

import subprocess
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.errors import StartupFailed
from penstock.flow.spark import executor_env


def test_dependencies_of_penstock_are_found_at_any_distance() -> None:
    found = {dist.name.lower() for dist in executor_env.needed({"penstock"})}
    assert {"pyarrow", "confluent-kafka", "orjson", "pandas"} <= found
    assert "numpy" in found, "pandas needs it"
    assert not found & {"penstock", "pyspark", "py4j", "pytest"}


def test_packages_that_are_not_installed_are_not_needed() -> None:
    assert executor_env.needed({"no-such-distribution"}) == []


def test_the_environment_runs_and_has_its_packages_only(tmp_path: Path) -> None:
    archive = tmp_path / "environment.tar.gz"
    executor_env.write(archive, [distribution("orjson")])
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "environment", filter="fully_trusted")  # as Spark does
    code = (
        "import orjson, sys\n"
        "print(orjson.__file__, sys.prefix)\n"
        "try: import click\n"
        "except ImportError: print('no click')"
    )
    printed = subprocess.run(
        ["./environment/bin/python", "-c", code],
        cwd=tmp_path, env={}, capture_output=True, text=True, check=True,
    ).stdout.split(maxsplit=2)  # fmt: skip
    assert Path(printed[0]).is_relative_to(tmp_path / "environment")
    assert Path(printed[1]) == tmp_path / "environment"
    assert printed[2].strip() == "no click"


def test_an_archive_that_spark_would_not_unpack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupFailed, match=r"\.tar\.gz"):
        executor_env.write(tmp_path / "environment.tar", [])


def test_the_command_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "environment.tgz"
    monkeypatch.setattr(executor_env, "needed", lambda own: [distribution("click")])
    done = CliRunner().invoke(executor_env.main, [str(archive)])
    assert done.exit_code == 0, done.output
    assert f"spark.archives={archive}#environment" in done.output
    assert "spark.pyspark.python=./environment/bin/python" in done.output
    assert archive.exists()
