"""Finds missing requirements of a worker in a container: a message each, with the option to add."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed

MACHINES: Final = ("x86_64", "aarch64")
"""Architectures that librdkafka, Arrow and Spark's codecs are built for."""

SHM: Final = Path("/dev/shm")
SHM_MB: Final = 64
DATA_VARIABLE: Final = "PENSTOCK_DATA"


def demand(machine: str | None = None, user: int | None = None) -> None:
    """Raises StartupFailed if something is missing that a worker needs."""
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise StartupFailed(
            f"This image runs on {' and '.join(MACHINES)}, but the machine is {machine}. "
            "Choose the platform when you pull or run it: --platform linux/amd64 or linux/arm64."
        )
    if not _named(os.getuid() if user is None else user):
        raise StartupFailed(
            f"User {os.getuid() if user is None else user} has no entry in /etc/passwd, and Spark "
            "cannot log in without a name. Run the container as its own user (--user 1001:1001, or "
            "runAsUser: 1001 in Kubernetes), or mount an /etc/passwd that has an entry."
        )
    if _temporary() is None:
        folder = os.environ.get("TMPDIR", "/tmp")
        raise StartupFailed(
            f"{folder} is not writable, and Spark needs it for its files. With a read-only root "
            f"file system mount memory there: --tmpfs {folder}:exec, or an emptyDir in Kubernetes."
        )


def notes(mounts: Path = Path("/proc/mounts"), shm: Path = SHM) -> Iterator[str]:
    """Notes about missing things that limit a worker, but do not prevent its start."""
    temporary = _temporary()
    if temporary is not None and "noexec" in _options(temporary, mounts):
        yield (
            f"{temporary} is mounted noexec: Java's Kafka client cannot unpack its codecs there, "
            "so sinks fail at topics that are compressed with snappy or zstd. Mount it with exec: "
            f"--tmpfs {temporary}:exec"
        )
    if not _roomy(shm):
        yield (
            f"{shm} has less than {SHM_MB} MB free or is not writable: the sockets of Spark's "
            f"Python processes are in {temporary}. With --shm-size=128m they are in memory."
        )
    data = os.environ.get(DATA_VARIABLE)
    if data and not os.access(data, os.W_OK):
        yield (
            f"{data} is not writable for user {os.getuid()}: connectors cannot write files there. "
            f"Mount a writable volume: -v NAME:{data}, or set fsGroup in Kubernetes."
        )


def _named(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _temporary() -> Path | None:
    """The folder for temporary files; None if it cannot be written to."""
    place = Path(os.environ.get("TMPDIR", "/tmp"))
    try:
        with tempfile.TemporaryFile(dir=place):
            return place
    except OSError:
        return None


def _roomy(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= SHM_MB << 20
    except OSError:
        return False


def _options(folder: Path, mounts: Path) -> set[str]:
    """The options of the mount that a folder is in."""
    best: tuple[int, set[str]] = (-1, set())
    try:
        rows = mounts.read_text().splitlines()
    except OSError:
        return set()
    for row in rows:
        _, point, _, options, *_ = row.split(" ")
        point = point.replace("\\040", " ")
        if folder.is_relative_to(point) and len(point) >= best[0]:
            best = (len(point), set(options.split(",")))
    return best[1]
