"""The documentation is a site without broken links, with all pages in its navigation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.app import cli
from tests.places import ROOT


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="pip install mkdocs-material")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "index.html").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert f'href="{page.stem}/"' in front, page
    commands = (tmp_path / "commands" / "index.html").read_text()
    assert all(f"penstock {name}" in commands for name in cli.commands)
