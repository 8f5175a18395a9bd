"""File changes, as the kernel reports them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from penstock.connectors import file as connector
from penstock.connectors.changes import FileChanges
from penstock.connectors.file import FileReader
from penstock.testing.contexts import SourceContextStub

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

SOON_S = 10


@pytest.fixture
def changes() -> FileChanges:
    return FileChanges()


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "watched", os.O_CREAT | os.O_RDWR)
    yield opened
    os.close(opened)


def append_to(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def test_whoever_waits_is_woken_once(changes: FileChanges, handle: int) -> None:
    one, other = threading.Semaphore(0), threading.Semaphore(0)
    for wake in (one.release, other.release, one.release):
        assert changes.wake_at_next(handle, wake) is not None
    os.write(handle, b"a")
    assert one.acquire(timeout=SOON_S)
    assert other.acquire(timeout=SOON_S)
    os.write(handle, b"b")
    third = threading.Semaphore(0)
    changes.wake_at_next(handle, third.release)
    os.write(handle, b"c")
    assert third.acquire(timeout=SOON_S)  # by now the second change would have been reported
    assert not one.acquire(blocking=False)
    assert not other.acquire(blocking=False)


def test_a_name_that_goes_to_another_file_wakes(
    changes: FileChanges, handle: int, tmp_path: Path
) -> None:
    woken = threading.Semaphore(0)
    changes.wake_at_next(handle, woken.release)
    (tmp_path / "new").write_text("other\n")
    (tmp_path / "new").replace(tmp_path / "watched")
    assert woken.acquire(timeout=SOON_S)


def test_a_forgotten_waiter_is_not_woken(changes: FileChanges, handle: int) -> None:
    gone, still = threading.Semaphore(0), threading.Semaphore(0)
    watch = changes.wake_at_next(handle, gone.release)
    changes.wake_at_next(handle, still.release)
    assert watch is not None
    changes.forget(watch, gone.release)
    changes.forget(watch, gone.release)
    os.write(handle, b"a")
    assert still.acquire(timeout=SOON_S)
    assert not gone.acquire(blocking=False)
    alone = changes.wake_at_next(handle, gone.release)
    assert alone is not None
    changes.forget(alone, gone.release)
    assert changes._waiting == {}


def test_a_poll_returns_with_a_line_without_looking_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "_LOOK_MISSED_S", 3600.0)
    monkeypatch.setattr(connector, "_LOOK_S", 0.0)
    monkeypatch.setattr(connector, "_LOOK_QUIET_S", 3600.0)
    file = tmp_path / "in.txt"
    file.write_text("before\n")
    reader = FileReader(str(file), "t", SourceContextStub())
    assert reader.poll(1 << 20, 0) is not None
    for line in ("one", "two"):
        append = threading.Timer(0.05, partial(append_to, file, f"{line}\n"))
        append.start()
        polled = reader.poll(1 << 20, 60_000)
        assert polled is not None
        assert polled.records.values.values == [line]
        append.join()
    reader.close()


def test_where_the_kernel_does_not_tell_files_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = FileChanges()
    silent._is_offered = False
    monkeypatch.setattr(connector, "FILE_CHANGES", silent)
    file = tmp_path / "in.txt"
    file.write_text("before\n")
    reader = FileReader(str(file), "t", SourceContextStub())
    assert reader.poll(1 << 20, 0) is not None
    append = threading.Timer(0.05, partial(append_to, file, "after\n"))
    append.start()
    assert reader.poll(1 << 20, 60_000) is not None
    append.join()
