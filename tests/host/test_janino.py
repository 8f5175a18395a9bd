"""penstock's Java is compiled on the user's machine, without a JDK."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.host import class_archive, janino, jars

HELLO = """
package penstock;
class Hello {
    public static void main(String[] args) {
        System.out.println("hello " + args[0]);
    }
}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "place", lambda: tmp_path / "classes")
    return tmp_path / "classes"


def test_a_program_is_compiled_once_and_runs(place: Path) -> None:
    archive = janino.compiled_jar("hello", {"Hello": HELLO}, [])
    made = archive.stat().st_mtime_ns
    assert janino.compiled_jar("hello", {"Hello": HELLO}, []) == archive
    assert archive.stat().st_mtime_ns == made
    assert list(place.iterdir()) == [archive]

    command = [jars.java(), "-cp", str(archive), "penstock.Hello", "world"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "hello world\n"


def test_other_sources_are_another_program(place: Path) -> None:
    first = janino.compiled_jar("hello", {"Hello": HELLO}, [])
    second = janino.compiled_jar("hello", {"Hello": HELLO.replace("hello", "goodbye")}, [])
    assert {first, second} == set(place.iterdir())
