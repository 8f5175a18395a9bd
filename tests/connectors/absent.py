"""A process that cannot import some packages, and the extras that the project declares."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Sequence

from tests.places import ROOT

_ABSENT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

sys.meta_path.insert(0, Absent())
"""


def without(packages: Sequence[str], script: str, *arguments: str) -> str:
    """What a script prints in a process that cannot import these packages."""
    code = _ABSENT.format(packages=tuple(packages)) + script
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def extras() -> dict[str, list[str]]:
    """The requirements of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared: dict[str, list[str]] = project["optional-dependencies"]
    return declared
