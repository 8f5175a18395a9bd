"""What a container gives a worker, and the messages where it does not."""

from __future__ import annotations

import itertools
import socket
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from penstock.cli.container import machine, memory, starting
from penstock.errors import StartupFailed, Unavailable
from penstock.kafka.broker import free_port

from .test_container_variables import CONFLUENT
from .workers import Penstock


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


LIMITS = [
    ({}, None),
    ({"sys__fs__cgroup__memory_dot_max": "max"}, None),
    ({"sys__fs__cgroup__memory_dot_max": "1073741824"}, 1024),
    (
        {
            "proc__self__cgroup": "0::/pod/container",
            "sys__fs__cgroup__pod__memory_dot_max": "536870912",
            "sys__fs__cgroup__pod__container__memory_dot_max": "max",
        },
        512,
    ),
    ({"sys__fs__cgroup__memory__memory.limit_in_bytes": "1073741824"}, 1024),
    ({"sys__fs__cgroup__memory__memory.limit_in_bytes": "9223372036854771712"}, None),
    (
        {
            "proc__self__cgroup": "5:memory:/c",
            "sys__fs__cgroup__memory__c__memory.limit_in_bytes": "1073741824",
        },
        1024,
    ),
]


@pytest.mark.parametrize(("files", "limit"), LIMITS)
def test_the_limit_is_the_smallest_of_the_groups(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    assert memory.limit_mb(written(tmp_path, **files)) == limit


@pytest.mark.parametrize(
    ("asked", "limit", "expected"),
    [
        (None, None, None),
        ("3g", None, "3g"),
        (None, 1248, "480m"),
        (None, 2048, "512m"),
        (None, 4096, "1024m"),
        (None, 65536, "4096m"),
        ("1g", 2048, "1g"),
        ("much", 2048, "much"),  # Spark refuses it
    ],
)
def test_a_heap_fits_the_limit(asked: str | None, limit: int | None, expected: str | None) -> None:
    assert memory.heap(asked, limit) == expected


@pytest.mark.parametrize(
    ("asked", "limit", "words"),
    [
        (None, 1247, "needs at least 1248 MB. Raise the limit."),
        ("256m", None, "but Spark needs at least 480 MB."),
        ("256m", 4096, "but Spark needs at least 480 MB."),
        ("2g", 2048, "Raise the limit to 2816 MB, or request a heap of at most 1280 MB."),
        ("1g", 900, "Raise the limit to 1792 MB."),
    ],
)
def test_a_limit_that_is_too_small_is_reported_with_one_that_is_not(
    asked: str | None, limit: int | None, words: str
) -> None:
    with pytest.raises(StartupFailed) as refused:
        memory.heap(asked, limit)
    assert str(refused.value).endswith(words)


def test_another_architecture_is_named() -> None:
    with pytest.raises(StartupFailed, match="x86_64 and aarch64, but the machine is s390x"):
        machine.demand("s390x")


def test_a_user_without_a_name_is_reported_before_spark_fails() -> None:
    with pytest.raises(StartupFailed, match=r"User 54321 has no entry in /etc/passwd.*runAsUser"):
        machine.demand("x86_64", 54321)


def test_a_folder_that_cannot_be_written_is_named_with_a_mount(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.demand("x86_64")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(StartupFailed, match=rf"--tmpfs {tmp_path}/none:exec"):
        machine.demand("x86_64")


def test_limits_of_the_machine_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_DATA", raising=False)
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {tmp_path} tmpfs rw,noexec 0 0\n")
    shm = Path(tempfile.gettempdir())
    assert ["noexec" in note for note in machine.notes(mounts, shm)] == [True]
    mounts.write_text(f"/dev/a / ext4 rw,noexec 0 0\ntmpfs {tmp_path} tmpfs rw 0 0\n")
    assert list(machine.notes(mounts, shm)) == []
    assert ["--shm-size" in note for note in machine.notes(mounts, tmp_path / "no")] == [True]
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    assert ["fsGroup" in note for note in machine.notes(mounts, shm)] == [True]


def test_kafka_is_awaited_until_one_server_accepts() -> None:
    closed = f"127.0.0.1:{free_port()}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        starting.await_kafka([closed, there], 0, now=lambda: 0, pause=lambda _: None)
    seconds = itertools.count()
    with pytest.raises(Unavailable) as refused:
        starting.await_kafka(
            [closed, "nonsense"], 3, now=lambda: next(seconds), pause=lambda _: None
        )
    assert "within 3 s" in str(refused.value)
    assert f"{closed}: Connection refused; nonsense: not a HOST:PORT" in str(refused.value)
    assert Unavailable.exit_code == 6


@pytest.mark.parametrize(
    ("listeners", "url"),
    [
        ("http://:8083", "http://127.0.0.1:8083"),
        ("https://:8443, http://0.0.0.0:80", "http://127.0.0.1:80"),
        ("https://10.0.0.1:8443", "https://10.0.0.1:8443"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_a_container_reaches_its_own_worker(listeners: str, url: str) -> None:
    assert starting.local_url({"listeners": listeners}) == url


@pytest.fixture
def worker() -> Iterator[HTTPServer]:
    """Answers /health with the class's status."""

    class Handler(BaseHTTPRequestHandler):
        status = 200

        def do_GET(self) -> None:
            self.send_response(type(self).status)
            self.end_headers()
            self.wfile.write(b'{"status": "starting"}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_health_is_an_exit_code(
    penstock: Penstock, worker: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in CONFLUENT.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("CONNECT_LISTENERS", f"http://127.0.0.1:{worker.server_port}")
    assert penstock("container", "health").code == 0
    worker.RequestHandlerClass.status = 503  # type: ignore[attr-defined]
    unhealthy = penstock("container", "health")
    assert (unhealthy.code, "starting" in unhealthy.err) == (1, True)
    monkeypatch.setenv("CONNECT_LISTENERS", f"http://127.0.0.1:{free_port()}")
    assert penstock("container", "health").code == 1


def test_settings_are_checked_without_a_worker(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = penstock("container", "check")
    assert (missing.code, "CONNECT_GROUP_ID is required." in missing.err) == (2, True)
    for name, text in CONFLUENT.items():
        monkeypatch.setenv(name, text)
    checked = penstock("container", "check")
    assert (checked.code, "group.id" in checked.lines) == (0, True)
    monkeypatch.setenv("CONNECT_OFFSET_FLUSH_INTERVAL_MS", "soon")
    wrong = penstock("container", "check")
    assert (wrong.code, "offset.flush.interval.ms" in wrong.err) == (2, True)
