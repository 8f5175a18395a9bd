"""Files in a folder: they exist when complete, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.connectors.files.stores.local import LocalStore
from penstock.connectors.files.stores.store import HELD, StoreRefused, StoreUnavailable


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_a_file_is_hidden_until_it_is_complete(tmp_path: Path) -> None:
    file = LocalStore(tmp_path).create("a/b.json")
    file.write(b"one ")
    file.settle()
    assert names(tmp_path) == []
    file.write(bytearray(HELD))
    file.settle()
    assert names(tmp_path) == ["a/.b.json.tmp"]
    file.write(memoryview(b" two"))
    file.commit()
    file.commit()
    file.drop()
    assert names(tmp_path) == ["a/b.json"]
    assert (tmp_path / "a" / "b.json").read_bytes() == b"one " + bytes(HELD) + b" two"
    assert file.size == HELD + 8


def test_a_dropped_file_is_removed(tmp_path: Path) -> None:
    file = LocalStore(tmp_path).create("b.json")
    file.write(bytes(HELD))
    file.settle()
    file.drop()
    assert names(tmp_path) == []


def test_a_file_takes_the_place_of_what_a_killed_worker_left(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("older")
    (tmp_path / ".b.json.tmp").write_text("half of an old")
    file = LocalStore(tmp_path).create("b.json")
    file.write(b"new")
    file.commit()
    assert names(tmp_path) == ["b.json"]
    assert (tmp_path / "b.json").read_text() == "new"


def test_whoever_was_first_does_not_complete_the_file_of_a_second(tmp_path: Path) -> None:
    first, second = (LocalStore(tmp_path).create("b.json") for _ in range(2))
    for file in (first, second):
        file.write(bytes(HELD))
        file.settle()
    with pytest.raises(StoreRefused, match="Another task"):
        first.commit()
    first.drop()
    second.commit()
    assert names(tmp_path) == ["b.json"]


def test_a_full_disk_keeps_nothing_from_being_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalStore(tmp_path).create("b.json")
    file.write(b"x" * HELD)
    file.write(b"the end")
    room = 1000
    write = os.write

    def full(handle: int, data: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = write(handle, data[:room])
        room -= count
        return count

    monkeypatch.setattr(os, "write", full)
    for call in (file.settle, file.commit, file.commit):
        with pytest.raises(StoreUnavailable, match="No space left on device"):
            call()
    room = 1 << 30
    file.commit()
    assert (tmp_path / "b.json").read_bytes() == b"x" * HELD + b"the end"


def test_a_name_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = LocalStore(tmp_path).create("x" * 300)
    with pytest.raises(StoreRefused, match="File name too long"):
        file.commit()
    file.drop()
