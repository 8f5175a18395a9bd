"""The project of the template, as its author uses it: checked, tested, built, installed, found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.template import write_project

pytestmark = pytest.mark.timeout(600)


def run(*words: str, folder: Path) -> str:
    """What a Python program says; it has to succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": "-p no:schemathesis"},  # it takes a second to import
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        ["mypy", "taps", "tests"],
        ["pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-k", "not restart"],
    ],
    ids=" ".join,
)
def test_its_code_is_formatted_clean_and_typed_and_passes_its_tests(
    tmp_path: Path, command: list[str]
) -> None:
    write_project(tmp_path, "taps")
    run(*command, folder=tmp_path / "taps")


def test_it_is_found_as_a_wheel_and_where_pip_puts_it(tmp_path: Path) -> None:
    write_project(tmp_path, "built")
    wheels, target = tmp_path / "wheels", tmp_path / "targets" / "built"
    build = ["hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    run(*build, folder=tmp_path / "built")
    (wheel,) = wheels.glob("*.whl")
    install = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
    run(*install, "--disable-pip-version-check", str(wheel), folder=tmp_path)
    for listed, kind, where in (
        (wheels, "wheel", wheel),
        (target.parent, "installed into a folder", target),
        (target, "installed into a folder", target),
        (tmp_path / "built", "package", tmp_path / "built" / "built"),
    ):
        (tmp_path / "worker.properties").write_text(f"plugin.path={listed}\n")
        doctor = ["penstock", "plugins", "doctor", "--json", "worker.properties"]
        report = json.loads(run(*doctor, folder=tmp_path))
        (place,) = [each for each in report["places"] if each["where"] == str(where)]
        assert place["kind"] == kind
        assert [each["class"] for each in place["plugins"]] == [
            "built.BuiltSinkConnector",
            "built.BuiltSourceConnector",
        ]
        assert report["broken"] == 0
