"""Folders as stores that are read."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.files.stores import local_reading
from penstock.connectors.files.stores import renames as renames_module
from penstock.connectors.files.stores.local_reading import LocalReadStore
from penstock.connectors.files.stores.reading import (
    FileChanged,
    ListedFile,
    move_without_replacing,
)
from penstock.connectors.files.stores.store import StoreRefused

NAMES = st.sampled_from(["a", "b", "a+", "a b", "ü", "%", "a\n", "a.b", "\U0001f600", "-"])
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), max_size=12)


def filled(folder: Path, paths: list[str]) -> list[str]:
    """Creates files, unless a file or folder is in the way; returns all files."""
    for path in paths:
        file = folder / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path)
        except OSError:
            continue
    return [str(file) for file in folder.rglob("*") if file.is_file()]


@given(paths=PATHS, after=st.lists(NAMES, max_size=3).map("/".join), page=st.integers(1, 4))
def test_files_are_listed_in_the_order_of_paths_behind_any_path(
    paths: list[str], after: str, page: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        present = filled(folder, paths)
        store = LocalReadStore(page)
        prefix = f"{name}/"
        begin = prefix + after if after else ""
        found = [each.path for each in store.list(prefix, begin)]
        assert found == sorted(path for path in present if path > begin)
        flat = [each.path for each in store.list(prefix, recursive=False)]
        assert flat == sorted(path for path in present if "/" not in path[len(prefix) :])
        part = [each.path for each in store.list(f"{prefix}a")]
        assert part == sorted(path for path in present if path.startswith(f"{prefix}a"))
        assert list(store.folders(prefix)) == sorted(
            f"{each}/" for each in folder.iterdir() if each.is_dir()
        )


def one(folder: Path, content: bytes = b"0123456789") -> tuple[LocalReadStore, ListedFile]:
    (folder / "a").write_bytes(content)
    store = LocalReadStore()
    found = store.find(str(folder / "a"))
    assert found is not None
    return store, found


def test_a_file_is_read_from_any_place(tmp_path: Path) -> None:
    store, found = one(tmp_path)
    file = store.open(found, 3)
    assert (file.read(2), file.tell()) == (b"34", 5)
    file.seek(8)
    assert (file.read(), file.read(1)) == (b"89", b"")
    file.close()


def test_a_file_that_changes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    store, found = one(tmp_path)
    file = store.open(found)
    file.read(2)
    with (tmp_path / "a").open("ab") as more:
        more.write(b"x")
    with pytest.raises(FileChanged, match="was modified"):
        file.read(2)
    file.close()
    with pytest.raises(FileChanged):
        store.open(found)
    (tmp_path / "a").unlink()
    with pytest.raises(FileChanged, match="was removed"):
        store.open(found)


def test_a_file_that_grows_may(tmp_path: Path) -> None:
    store, found = one(tmp_path)
    file = store.open(found, 8, growing=True)
    assert (file.read(10), file.read(10)) == (b"89", b"")
    with (tmp_path / "a").open("ab") as more:
        more.write(b"x")
    assert file.read(10) == b"x"
    os.truncate(tmp_path / "a", 3)
    with pytest.raises(FileChanged, match="shorter"):
        file.read(10)
    file.close()


def test_moves_and_deletions_can_be_repeated_and_spare_other_files(tmp_path: Path) -> None:
    store, found = one(tmp_path)
    to = str(tmp_path / "done" / "b" / "a")
    store.move(found, to)
    store.move(found, to)
    assert Path(to).read_bytes() == b"0123456789"
    (tmp_path / "a").write_bytes(b"another")
    store.move(found, to)
    store.delete(found)
    assert (tmp_path / "a").read_bytes() == b"another"
    another = store.find(str(tmp_path / "a"))
    assert another is not None
    store.delete(another)
    store.delete(another)
    assert not (tmp_path / "a").exists()


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="none"):
        LocalReadStore().check(str(tmp_path / "none") + "/")
    assert list(LocalReadStore().list(str(tmp_path / "none") + "/")) == []


def test_a_name_that_is_no_text_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a").touch()
    with open(os.fsencode(tmp_path) + b"/\xff", "wb"):
        pass
    store = LocalReadStore()
    for _ in range(2):
        assert [each.path for each in store.list(f"{tmp_path}/")] == [str(tmp_path / "a")]
    assert caplog.text.count("is skipped") == 1


def test_a_move_does_not_replace_a_file_that_was_moved_there_just_before(tmp_path: Path) -> None:
    store, found = one(tmp_path)
    to = tmp_path / "done" / "a"
    to.parent.mkdir()
    to.write_bytes(b"of another task")
    assert store.move(found, str(to)) is False
    assert (to.read_bytes(), (tmp_path / "a").read_bytes()) == (b"of another task", b"0123456789")


@pytest.fixture(params=["renameat2", "no such system call", "another file system"])
def renames(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are renamed."""
    rename = renames_module.rename_exclusively
    if request.param == "no such system call":
        monkeypatch.setattr(renames_module, "_renameat2", None)
    if request.param == "another file system":

        def crossing(source: str, target: str) -> None:
            if not os.path.basename(source).startswith(".penstock-"):
                raise OSError(errno.EXDEV, "Invalid cross-device link")
            rename(source, target)

        monkeypatch.setattr(local_reading, "rename_exclusively", crossing)
    return str(request.param)


def test_two_tasks_that_move_files_of_one_name_at_once_lose_none(
    tmp_path: Path, renames: str
) -> None:
    count, tasks = 60, 3
    together = Barrier(tasks, timeout=30)
    done = tmp_path / "done"

    def move(task: int) -> None:
        store = LocalReadStore()
        for number in range(count):
            path = tmp_path / str(task) / f"{number}.csv"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{task}")
            os.utime(path, (86_400, 86_400))  # as files from an archive have
            found = store.find(str(path))
            assert found is not None
            together.wait()
            move_without_replacing(store, found, str(done / path.name))

    with ThreadPoolExecutor(tasks) as pool:
        list(pool.map(move, range(tasks)))
    moved = [(file.name.partition(".")[0], file.read_text()) for file in done.iterdir()]
    everything = [(str(number), str(task)) for number in range(count) for task in range(tasks)]
    assert sorted(moved) == sorted(everything)
    assert [file for task in range(tasks) for file in (tmp_path / str(task)).iterdir()] == []


def test_a_copy_of_a_task_that_was_killed_is_not_moved_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crossing(source: str, target: str) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(local_reading, "rename_exclusively", crossing)
    store, found = one(tmp_path)
    done = tmp_path / "done"
    done.mkdir()
    shutil.copy2(tmp_path / "a", done / "a")
    move_without_replacing(store, found, str(done / "a"))
    assert [file.name for file in done.iterdir()] == ["a"]
    assert not (tmp_path / "a").exists()
