"""A worker's folder, and what killed workers leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StartupFailed
from penstock.flow.spark import scratch

HOLDS = """
import sys
from pathlib import Path
from penstock.flow.spark import scratch
scratch._place = lambda: Path(sys.argv[1])
folder = scratch.claim()
(folder / "slots").write_text("")
(folder / "spark").mkdir()
print(folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(scratch, "_place", lambda: tmp_path)
    monkeypatch.setattr(scratch, "_held", None)
    yield tmp_path
    scratch.release()


@pytest.fixture
def other(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another worker, and its folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_is_private_and_stays_the_same_until_it_is_released(place: Path) -> None:
    folder = scratch.claim()
    assert folder.parent == place
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "kept").touch()
    assert scratch.claim() == folder
    assert (folder / "kept").exists()
    scratch.release()
    assert not folder.exists()
    scratch.release()


def test_that_of_a_killed_worker_is_removed_by_the_next(
    other: tuple[subprocess.Popen[str], Path],
) -> None:
    process, left = other
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (left / "slots").exists()
    scratch.claim()
    assert not left.exists()


def test_that_of_a_live_worker_is_left_alone(other: tuple[subprocess.Popen[str], Path]) -> None:
    _, theirs = other
    assert scratch.claim() != theirs
    assert (theirs / "slots").exists()


def test_a_killed_worker_with_our_process_id_leaves_nothing_to_us(place: Path) -> None:
    left = place / f"penstock-{os.getpid()}"
    (left / "spark" / "deep").mkdir(parents=True)
    (left / "slots").touch()
    folder = scratch.claim()
    assert folder == left
    assert {entry.name for entry in folder.iterdir()} == {"owner"}


def test_a_live_worker_with_our_process_id_keeps_its_folder(
    other: tuple[subprocess.Popen[str], Path], place: Path
) -> None:
    _, theirs = other
    same = place / f"penstock-{os.getpid()}"
    theirs.rename(same)  # as in a container that shares the place
    assert scratch.claim() == place / f"penstock-{os.getpid()}-1"
    assert (same / "slots").exists()


def test_a_link_in_its_place_is_not_followed(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (place / f"penstock-{os.getpid()}").symlink_to(elsewhere)
    assert scratch.claim() == place / f"penstock-{os.getpid()}-1"
    assert (elsewhere / "precious").exists()


def test_no_room_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(scratch, "_held", None)
    monkeypatch.setattr(scratch, "_ROOM_MB", 1 << 50)
    with pytest.raises(StartupFailed, match="TMPDIR"):
        scratch.claim()
