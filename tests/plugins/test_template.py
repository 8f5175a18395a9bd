"""The project of the template, as its author uses it: checked, tested, built, installed, found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from penstock.template import write_project
from tests.places import ROOT

# mypy reads all of penstock, which takes most of its time, once for the projects of all tests.
TYPES: Final = ROOT / ".mypy_cache" / "template"

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow(60)]


def run(*words: str, folder: Path) -> str:
    """Returns what a Python program prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=False,
        env={
            **os.environ,
            "PYTEST_ADDOPTS": "-p no:schemathesis",  # it takes a second to import
            "MYPY_CACHE_DIR": str(TYPES),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("example", [True, False], ids=["example", "skeleton"])
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
    tmp_path: Path, command: list[str], example: bool
) -> None:
    write_project(tmp_path, "taps", example=example)
    run(*command, folder=tmp_path / "taps")


FILLED: Final = {
    "taps/source.py": """
        file = Path(self.partition["address"]) / "lines"
        lines = file.read_text().splitlines() if file.exists() else []
        return list(lines[self.position : self.position + 10])
""",
    "tests/test_source.py": """
        with (self.folder / "lines").open("a") as file:
            file.writelines(f"line {number}\\n" for number in numbers)
""",
    "taps/sink.py": """
        if not isinstance(value, str):
            raise DataError(f"{value!r} is not a string")
        with (Path(self.address) / "lines").open("a") as file:
            file.write(f"{value}\\n")
""",
    "tests/test_sink.py": """
        file = self.folder / "lines"
        return file.read_text().splitlines() if file.exists() else []
""",
}


def test_a_skeleton_that_is_filled_in_passes_its_tests(tmp_path: Path) -> None:
    write_project(tmp_path, "taps")
    for name, code in FILLED.items():
        file = tmp_path / "taps" / name
        text, count = re.subn(
            r"\n +raise NotImplementedError\(.*\)\n", lambda _, code=code: code, file.read_text()
        )
        assert count == 1
        if "import Path" not in text:
            text = text.replace("\nfrom penstock", "\nfrom pathlib import Path\n\nfrom penstock", 1)
        file.write_text(text)
    (tmp_path / "taps" / "tests" / "conftest.py").unlink()
    said = run(
        "pytest", "-q", "-p", "no:cacheprovider", "-k", "not restart", folder=tmp_path / "taps"
    )
    assert re.search(r"\b\d\d passed, \d skipped", said), said


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
