"""Finding Java, and fetching archives; a shell script stands in for Java."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import StartupFailed
from penstock.host import jars
from penstock.host.jars import Jar, java_version

PRINTED = [
    ('openjdk version "17.0.15" 2025-04-15', 17),
    ('java version "21" 2023-09-19 LTS', 21),
    ('openjdk version "1.8.0_402"', 8),
    ('openjdk version "24-ea" 2025-03-18', 24),
    ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
    ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ("", None),
]


@pytest.mark.parametrize(("printed", "version"), PRINTED)
def test_the_feature_release_is_read_from_what_java_prints(
    printed: str, version: int | None
) -> None:
    assert java_version(printed) == version


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes JAVA_HOME name a Java that prints a version, and runs a script for anything else."""

    def make(version: str, script: str = "exit 1") -> Path:
        program = tmp_path / "java-home" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\n[ "$1" = -version ] && {{ echo {version!r} >&2; exit; }}\n{script}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-home"))
        return program

    return make


def test_the_java_of_java_home_is_used(fake_java: Callable[..., Path]) -> None:
    program = fake_java('openjdk version "17.0.1"')
    assert jars.java() == str(program)


def test_without_java_home_the_path_is_searched(
    fake_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_java('openjdk version "21.0.1"')
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    assert jars.java() == str(program)


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        StartupFailed, match="No Java found: JAVA_HOME does not lead to a 'java' program"
    ):
        jars.java()


def test_a_path_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        StartupFailed, match=r"PATH does not lead to a 'java' program.*set JAVA_HOME"
    ):
        jars.java()


def test_a_java_that_is_too_old_is_named_with_what_is_needed(
    fake_java: Callable[..., Path],
) -> None:
    program = fake_java('openjdk version "1.8.0_402"')
    with pytest.raises(StartupFailed) as refused:
        jars.java()
    assert str(refused.value).startswith(f"Java 8 is too old ({program}): ")
    assert "Java 17 or newer" in str(refused.value)


@pytest.mark.parametrize(("stated", "accepted"), [("17.0.15", True), ("1.8.0_402", False)])
def test_an_installation_states_its_version_so_that_java_need_not_run(
    fake_java: Callable[..., Path], stated: str, accepted: bool
) -> None:
    program = fake_java("no answer")
    release = program.parent.parent / "release"
    release.write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{stated}"\n')
    if accepted:
        assert jars.java() == str(program)
    else:
        with pytest.raises(StartupFailed, match="Java 8 is too old"):
            jars.java()


def test_a_java_that_prints_no_version_is_refused(fake_java: Callable[..., Path]) -> None:
    fake_java("no runtime here")
    with pytest.raises(StartupFailed, match="printed no version, only: 'no runtime here'"):
        jars.java()


DATA = b"an archive\n"
ARCHIVE = Jar("org.example", "thing", "1.0", hashlib.sha256(DATA).hexdigest())
RETRIEVE = """
for last; do :; done
printf 'an archive\\n' > "$(dirname "$last")/thing-1.0.jar"
echo fetched >> "$PENSTOCK_HOME/calls"
"""  # its last argument is the pattern archives are put under


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty penstock home."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PENSTOCK_HOME", str(home))
    return home


def only(monkeypatch: pytest.MonkeyPatch, jar: Jar) -> None:
    monkeypatch.setattr(jars, "locked", lambda which: [jar])


def test_archives_are_fetched_once(
    home: Path, fake_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java('openjdk version "17"', RETRIEVE)
    only(monkeypatch, ARCHIVE)
    said: list[str] = []
    folder = jars.folder("spark", said.append)
    assert (folder / "thing-1.0.jar").read_bytes() == DATA
    assert jars.folder("spark", said.append) == folder
    assert said == ["fetching 1 jars for spark"]
    assert (home / "calls").read_text() == "fetched\n"


def test_two_who_need_the_same_archives_fetch_them_once(
    home: Path, fake_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java('openjdk version "17"', RETRIEVE)
    only(monkeypatch, ARCHIVE)
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(jars.folder, ["spark"] * 4))
    assert [(folder / "thing-1.0.jar").read_bytes() for folder in folders] == [DATA]
    assert (home / "calls").read_text() == "fetched\n"


def test_an_archive_with_another_checksum_is_refused_and_nothing_is_kept(
    home: Path, fake_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java('openjdk version "17"', RETRIEVE)
    only(monkeypatch, Jar("org.example", "thing", "1.0", "0" * 64))
    with pytest.raises(StartupFailed) as refused:
        jars.folder("spark")
    assert f"thing-1.0.jar has the SHA-256 {ARCHIVE.sha256}, but jars.lock expects 0000" in str(
        refused.value
    )
    assert list((home / "jars").iterdir()) == []


def test_an_archive_that_cannot_be_had_is_named_with_what_ivy_said(
    home: Path, fake_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java('openjdk version "17"', "echo ':: SERVER ERROR: no route to host'; exit 1")
    only(monkeypatch, ARCHIVE)
    with pytest.raises(StartupFailed) as refused:
        jars.folder("spark")
    assert "org.example:thing:1.0 could not be fetched" in str(refused.value)
    assert "no route to host" in str(refused.value)
    assert list((home / "jars").iterdir()) == []


def test_archives_are_taken_from_the_folder_that_another_machine_has_filled(
    home: Path, fake_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java('openjdk version "17"', RETRIEVE)
    only(monkeypatch, ARCHIVE)
    delivered = jars.export("spark", tmp_path / "delivered")
    assert jars.export("spark", tmp_path / "delivered") == delivered
    assert sorted(path.name for path in (tmp_path / "delivered").iterdir()) == [delivered.name]

    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PENSTOCK_JARS", str(tmp_path / "delivered"))
    assert jars.folder("spark") == delivered
    assert (delivered / "thing-1.0.jar").read_bytes() == DATA
    assert not (tmp_path / "none").exists()
    with pytest.raises(StartupFailed, match=r"lacks the folder broker-.*penstock jars broker --to"):
        jars.folder("broker")


def test_an_archive_that_has_changed_since_is_not_handed_on(
    home: Path, fake_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java('openjdk version "17"', RETRIEVE)
    only(monkeypatch, ARCHIVE)
    (jars.folder("spark") / "thing-1.0.jar").write_bytes(b"other")
    with pytest.raises(StartupFailed, match="has the SHA-256"):
        jars.export("spark", tmp_path / "delivered")
    assert list((tmp_path / "delivered").iterdir()) == []


@pytest.mark.parametrize("which", jars.SETS)
def test_every_locked_archive_has_a_checksum_and_stands_there_once(which: str) -> None:
    locked = jars.locked(which)
    assert locked
    assert all(len(jar.sha256) == 64 for jar in locked)
    assert len({jar.file for jar in locked}) == len(locked)
