"""The names of class archives, and which of them a new one replaces."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.host import class_archive


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Writes a jar into a folder of one environment."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))

    def write(folder: str, content: str) -> Path:
        path = tmp_path / folder / "program.jar"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        return path

    return write


def make(jar: Path, java: str = "/usr/bin/java") -> Path:
    def run(path: Path) -> None:
        path.write_text(f"classes of {jar}")

    return class_archive.make("spark", java, [jar], run, lambda text: None)


def test_environments_that_share_a_home_keep_their_archives(
    jar: Callable[[str, str], Path],
) -> None:
    one, other = jar("one", "a"), jar("other", "a")
    first = make(one)
    make(other)
    make(one, "/opt/java/bin/java")
    assert class_archive.existing("spark", "/usr/bin/java", [one]) == first
    assert len(list(class_archive.place().glob("*.jsa"))) == 3


def test_archives_that_no_program_has_used_for_a_month_are_removed(
    jar: Callable[[str, str], Path],
) -> None:
    unused, used = jar("unused", "a"), jar("used", "b")
    for path in (make(unused), make(used)):
        os.utime(path, (0, 0))
    assert class_archive.options("spark", "/usr/bin/java", [used])
    make(jar("new", "c"))
    assert class_archive.existing("spark", "/usr/bin/java", [unused]) is None
    assert class_archive.existing("spark", "/usr/bin/java", [used])
