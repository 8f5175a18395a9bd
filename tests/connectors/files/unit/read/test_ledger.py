"""How far files were read, and what may be forgotten."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import DataError, SourceOffset
from penstock.connectors.files.formats.decoder import Position
from penstock.connectors.files.read.ledger import (
    FileLedger,
    FolderLedger,
    Key,
    OffsetShape,
    Progress,
    key_of,
)
from penstock.connectors.files.read.names import Restored, Target, share_of
from penstock.connectors.files.read.scan import Finding, Scan, Work
from penstock.connectors.files.stores.reading import ListedFile, OpenFile, ReadStore

SHAPE = OffsetShape("path", "record", {})


class Listed(ReadStore):
    """Files in memory, of which only the names matter."""

    def __init__(self) -> None:
        self.files: dict[str, ListedFile] = {}
        self.listed = 0

    def list(self, prefix: str, after: str = "", *, recursive: bool = True) -> Iterator[ListedFile]:
        for path in sorted(self.files):
            if path.startswith(prefix) and path > after:
                self.listed += 1
                yield self.files[path]

    def folders(self, prefix: str) -> Iterator[str]:
        return iter(())

    def find(self, path: str) -> ListedFile | None:
        return self.files.get(path)

    def open(self, found: ListedFile, start: int = 0, *, growing: bool = False) -> OpenFile:
        raise NotImplementedError

    def delete(self, found: ListedFile) -> None:
        del self.files[found.path]

    def move(self, found: ListedFile, to: str) -> None:
        raise NotImplementedError

    def check(self, prefix: str) -> None:
        return None


def ledger(stored: list[SourceOffset], task: int, tasks: int, limit: int) -> FileLedger:
    return FileLedger(stored, SHAPE, "in", task, tasks, limit=limit, late_ms=10)


def kept(stored: dict[object, SourceOffset], offset: SourceOffset) -> None:
    """Stores an offset as a topic does."""
    if offset.offset is None:
        stored.pop(key_of(offset.partition), None)
    else:
        stored[key_of(offset.partition)] = offset


@given(seed=st.integers(0, 10_000), limit=st.integers(0, 30))
def test_every_file_is_read_once_whatever_is_forgotten(seed: int, limit: int) -> None:
    """Files arrive at any time under any name; tasks stop anywhere, and their number changes."""
    chance = random.Random(seed)
    store = Listed()
    stored: dict[object, SourceOffset] = {}
    read: list[str] = []
    now = 1_000
    finding = Finding(("",), lambda path: Target("t", None, path), poll_ms=5)
    for _ in range(6):
        tasks = chance.randint(1, 3)
        scans = []
        for task in range(tasks):
            its = ledger(list(stored.values()), task, tasks, limit)
            scans.append((its, Scan(finding, store, its, task, tasks)))
        for _ in range(chance.randint(1, 120)):
            now += chance.randint(0, 8)
            if chance.random() < 0.6:
                path = f"{chance.randint(0, 10**6):06}"
                store.files.setdefault(
                    path, ListedFile(path, 1, now - chance.randint(0, 10), f"v{path}")
                )
            its, scan = chance.choice(scans)
            work = scan.next(now)
            for offset in scan.forgotten:
                kept(stored, offset)
            scan.forgotten = []
            if isinstance(work, Work):
                read.append(work.found.path)
                done = Progress(Position(1, None), is_read=True, version=work.found.version)
                kept(stored, its.advance(work.found, work.target, done))
    its = ledger(list(stored.values()), 0, 1, limit)
    scan = Scan(finding, store, its, 0, 1)
    while (work := scan.next(now)) is not None:
        assert isinstance(work, Work)
        read.append(work.found.path)
        its.advance(work.found, work.target, Progress(Position(1, None), is_read=True))
    assert sorted(read) == sorted(store.files)


def test_the_number_of_remembered_files_is_bounded() -> None:
    store = Listed()
    for number in range(8_000):
        path = f"{number:06}"
        store.files[path] = ListedFile(path, 1, 5, "v")
    stored: dict[object, SourceOffset] = {}
    its = ledger([], 0, 1, 100)
    scan = Scan(Finding(("",), lambda path: Target("t", None, path)), store, its, 0, 1)
    most = 0
    while (work := scan.next(1_000_000)) is not None:
        assert isinstance(work, Work)
        kept(stored, its.advance(work.found, work.target, Progress(Position(), is_read=True)))
        for offset in scan.forgotten:
            kept(stored, offset)
        scan.forgotten = []
        most = max(most, len(stored))
    assert most < 2_200
    again = Scan(
        Finding(("",), lambda path: Target("t", None, path)),
        store,
        ledger(list(stored.values()), 0, 1, 100),
        0,
        1,
    )
    assert again.next(2_000_000) is None


def test_long_runs_that_were_read_are_not_listed_again() -> None:
    store = Listed()
    for number in range(50_000):
        path = f"topics/a/partition=0/a+0+{number:010}.json"
        store.files[path] = ListedFile(path, 1, 5, "v")
    names = Restored("topics/", "/", "+")
    last = max(store.files)
    offset = {"lastFileRead": last, "fileOffset": "1", "eof": "true"}
    its = FolderLedger([SourceOffset({"folder": "topics/a/partition=0/"}, offset)], one_lane=True)
    scan = Scan(Finding(("topics/",), names), store, its, 0, 1)
    assert scan.next(0) is None
    assert store.listed < 2_100


def test_a_file_that_was_renamed_is_still_known_until_it_is_gone() -> None:
    its = FileLedger(
        [], OffsetShape("inode", "record", {}, Key.IDENTITY), "in", 0, 1, limit=100, late_ms=10
    )
    target = Target("t", None, "a.log")
    grown = ListedFile("a.log", 10, 5, identity="i1")
    its.advance(grown, target, Progress(Position(3, 9)))
    moved = ListedFile("a.log.1", 12, 5, identity="i1")
    assert its.progress(ListedFile("a.log", 2, 6, identity="i2"), target) is None
    assert its.progress(moved, target) == Progress(Position(3, 9))
    assert its.listed("", 0, complete=True) == []
    assert its.listed("", 0, complete=True) == [SourceOffset({"inode": "i1"}, None)]


@pytest.mark.parametrize("value", ["x", "-1", True, 1.5])
def test_impossible_offsets_are_reported(value: str | float | bool) -> None:
    with pytest.raises(DataError, match="fileOffset"):
        FolderLedger(
            [SourceOffset({"folder": "a/"}, {"lastFileRead": "a/b", "fileOffset": value})],
            one_lane=True,
        )


def test_shares_are_the_same_everywhere() -> None:
    assert [share_of(name, 3) for name in ("a", "b", "ü", "orders+3")] == [0, 2, 1, 1]
