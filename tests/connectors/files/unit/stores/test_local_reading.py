"""Folders as stores that are read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.files.stores.local_reading import LocalReadStore
from penstock.connectors.files.stores.reading import FileChanged, ListedFile
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


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
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
