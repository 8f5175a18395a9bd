"""Third-party programs that the packaging tests run; `make tools` fetches them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

TOOLS: Final = Path(os.environ["PENSTOCK_HOME"]) / "tools"


def program(name: str) -> str:
    """Where a program is: named by the variable NAME, else fetched, else on the path.

    Skips the test if there is none.
    """
    fetched = shutil.which(name, path=f"{TOOLS / 'bin'}:{TOOLS / 'python' / 'bin'}")
    path = os.environ.get(name.upper()) or fetched or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is missing: make tools; or {name.upper()} names it")
    return path


def schemas(kubernetes: str) -> Path:
    """The folder of JSON schemas of a version of Kubernetes, where unknown fields are errors.

    Skips the test if they are not fetched.
    """
    all_versions = TOOLS / "python" / "kubernetes_validate" / "kubernetes-json-schema"
    folder = all_versions / f"v{kubernetes}-local-strict"
    if not folder.is_dir():
        pytest.skip("the schemas of Kubernetes are missing: make tools")
    return folder
