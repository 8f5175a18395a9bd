"""What all object stores do, through the stores of their sinks and sources: the same tests for S3,
Google Cloud Storage and Azure Blob Storage, against a small server of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest

from penstock.connectors.files.stores.reading import FileChanged
from penstock.connectors.files.stores.store import (
    FileExists,
    FileLost,
    NewFile,
    Origin,
    StoreRefused,
    StoreUnavailable,
)
from tests.servers.object_store import FaultyProxy

from .cloud_stores import AZURE, GCS, S3, Kind, Running, running

PART = 5_242_880
PIECE = 700_000
KINDS = {kind.name: kind for kind in (S3, GCS, AZURE)}
T = TypeVar("T")


@pytest.fixture(scope="module", params=list(KINDS))
def store(request: pytest.FixtureRequest) -> Iterator[Running]:
    with running(KINDS[request.param]) as store:
        yield store


@pytest.fixture
def proxy(store: Running) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(store.port)
    yield proxy
    proxy.close()


def settings(kind: Kind, url: str, **changes: str) -> dict[str, str]:
    return kind.settings(url, flush_size="1", **{kind.part.replace(".", "_"): str(PART), **changes})


def opened(kind: Kind, props: dict[str, str]) -> Any:
    """The store that a sink with this configuration writes to."""
    sink: Any = kind.sink()
    return closing(sink.store(kind.sink.plugin.config.parse(props), "the-sink"))


def reading(kind: Kind, props: dict[str, str]) -> Any:
    """The store that a source with this configuration reads."""
    mode = {"mode": "GENERIC", "topic.regex.list": "t:.*"}
    source: Any = kind.source()
    return closing(source.store(kind.source.plugin.config.parse({**props, **mode}), "the-source"))


def retried(step: Callable[[], T]) -> T:
    """The result of a step that is repeated while the store is unavailable, as a task does it."""
    for _ in range(20):
        try:
            return step()
        except FileLost:
            raise
        except StoreUnavailable:
            continue
    raise AssertionError("the store stays unavailable")


def content(size: int) -> bytes:
    return bytes(range(251)) * (size // 251) + b"." * (size % 251)


def filled(file: NewFile, data: bytes) -> NewFile:
    for start in range(0, len(data), PIECE):
        file.write(data[start : start + PIECE])
        retried(file.settle)
    file.about = {"startOffset": "0", "endOffset": "9", "recordCount": "10"}
    return file


@pytest.mark.parametrize(
    "size", [1, PART - 1, PART, 2 * PART, 2 * PART + 1, 4 * PART + 12_345], ids=str
)
def test_an_object_exists_complete_once_it_is_committed(store: Running, size: int) -> None:
    props = settings(store.kind, store.url)
    root, data = props["topics.dir"], content(size)
    with opened(store.kind, props) as written:
        file = filled(written.create(f"{root}/a"), data)
        assert store.objects.under(root) == {}
        file.commit()
        assert store.objects.under(root) == {"a": data}
        file.commit()  # again: it is committed
        assert store.objects.under(root) == {"a": data}


def test_parts_are_uploaded_while_the_object_is_written(store: Running, proxy: FaultyProxy) -> None:
    props = settings(store.kind, proxy.url)
    with opened(store.kind, props) as written:
        file = filled(written.create(f"{props['topics.dir']}/a"), content(4 * PART))
        assert len([method for method, _ in proxy.requests if method == "PUT"]) >= 2
        assert file.held_bytes < PART
        file.drop()


@pytest.mark.parametrize("fault", ["answer ServerBusy 503", "cut", "lose"])
@pytest.mark.parametrize("size", [1_000, 3 * PART + 1_000], ids=["small", "large"])
def test_an_object_is_complete_although_every_third_request_fails(
    store: Running, proxy: FaultyProxy, fault: str, size: int
) -> None:
    props, data = settings(store.kind, proxy.url), content(size)
    root, seen = props["topics.dir"], iter(range(1_000_000))
    proxy.fault = lambda method, path: fault if next(seen) % 3 == 0 else None
    with opened(store.kind, props) as written:
        file = written.create(f"{root}/a")
        while True:
            try:
                retried(filled(file, data).commit)
                break
            except FileLost:
                file.drop()
                file = written.create(f"{root}/a")
    assert store.objects.under(root) == {"a": data}


@pytest.mark.parametrize("size", [10, 3 * PART + 10], ids=["small", "large"])
def test_an_object_that_is_dropped_never_exists(store: Running, size: int) -> None:
    props = settings(store.kind, store.url)
    with opened(store.kind, props) as written:
        filled(written.create(f"{props['topics.dir']}/a"), content(size)).drop()
    assert store.objects.under(props["topics.dir"]) == {}


def only(file: NewFile, source: str = "the-sink orders-7") -> NewFile:
    """A file that does not replace another task's of the same origin."""
    file.create_only = True
    file.origin = Origin(source=source, lineage="1", first_ms=5)
    return file


def test_an_object_of_the_same_origin_is_kept_and_any_other_replaced(store: Running) -> None:
    props = settings(store.kind, store.url)
    root = props["topics.dir"]
    with opened(store.kind, props) as written:
        filled(only(written.create(f"{root}/a")), b"first").commit()
        with pytest.raises(FileExists) as kept:
            filled(only(written.create(f"{root}/a")), b"second").commit()
        assert kept.value.end == 9
        assert store.objects.under(root) == {"a": b"first"}
        filled(only(written.create(f"{root}/a"), "the-sink others-1"), b"third").commit()
        assert store.objects.under(root) == {"a": b"third"}


def test_an_object_whose_answer_was_lost_is_its_writers_own(
    store: Running, proxy: FaultyProxy
) -> None:
    props = settings(store.kind, proxy.url)
    root = props["topics.dir"]
    lost = iter(["lose"])
    proxy.fault = lambda method, path: next(lost, None) if method == "PUT" else None
    with opened(store.kind, props) as written:
        file = filled(only(written.create(f"{root}/a")), b"mine")
        retried(file.commit)
    assert store.objects.under(root) == {"a": b"mine"}


def test_bytes_of_many_open_objects_wait_in_files(store: Running) -> None:
    props = settings(store.kind, store.url)
    root, data = props["topics.dir"], content(600_000)
    with opened(store.kind, props) as written:
        written.budget.count(1_000)  # as if a thousand others were open
        files = [filled(written.create(f"{root}/{name}"), data) for name in "ab"]
        assert [file.held_bytes for file in files] == [0, 0]
        for file in files:
            file.commit()
    assert store.objects.under(root) == {"a": data, "b": data}


def test_a_check_finds_a_missing_bucket_and_leaves_no_object(store: Running) -> None:
    props = settings(store.kind, store.url)
    root = props["topics.dir"]
    with opened(store.kind, props) as written, reading(store.kind, props) as read:
        written.check(f"{root}/.penstock")
        read.check(f"{root}/")
    assert store.objects.under(root) == {}
    missing = {**props, store.kind.bucket: "missing-bucket"}
    with opened(store.kind, missing) as written, pytest.raises(StoreRefused):
        written.check(f"{root}/.penstock")
    with reading(store.kind, missing) as read, pytest.raises(StoreRefused):
        read.check(f"{root}/")


def test_objects_are_listed_in_order_with_their_folders(store: Running) -> None:
    props = settings(store.kind, store.url)
    root = props["topics.dir"]
    for name in ("a", "b/1", "b/2", "c d/ü+%", "e/", "z"):
        store.objects.put(f"{root}/{name}", name.encode() * 3)
    with reading(store.kind, props) as read:

        def listed(prefix: str, after: str = "", **about: bool) -> list[str]:
            found = read.list(f"{root}/{prefix}", after and f"{root}/{after}", **about)
            return [each.path.removeprefix(f"{root}/") for each in found]

        assert listed("") == ["a", "b/1", "b/2", "c d/ü+%", "z"]
        assert listed("", "b/1") == ["b/2", "c d/ü+%", "z"]
        assert listed("", recursive=False) == ["a", "z"]
        assert listed("b/") == ["b/1", "b/2"]
        assert listed("none/") == []
        assert [*read.folders(f"{root}/")] == [f"{root}/{each}/" for each in ("b", "c d", "e")]
        found = read.find(f"{root}/c d/ü+%")
        assert found in [*read.list(f"{root}/c")]
        assert read.find(f"{root}/none") is None


def test_any_range_of_an_object_is_read(store: Running) -> None:
    props, data = settings(store.kind, store.url), content(1_000)
    path = f"{props['topics.dir']}/a"
    store.objects.put(path, data)
    with reading(store.kind, props) as read:
        read.block = 64
        with closing(read.open(read.find(path), 10)) as file:
            assert file.read(100) == data[10:110]
            assert file.seek(900) == 900
            assert file.read() == data[900:]
            assert file.seek(0) == 0
            assert file.read() == data


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_an_object_that_changes_while_it_is_read_is_noticed(store: Running, how: str) -> None:
    props = settings(store.kind, store.url)
    path = f"{props['topics.dir']}/a"
    store.objects.put(path, content(1_000))
    with reading(store.kind, props) as read:
        read.block = 64
        found = read.find(path)
        with closing(read.open(found)) as file:
            file.read(64)
            if how == "replaced":
                store.objects.put(path, content(1_000)[::-1])
            else:
                store.objects.delete(path)
            with pytest.raises(FileChanged, match=how):
                file.read()
