"""The demo's folder: its files, and its worker's properties."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.demo.lines import Digest
from penstock.demo.sample import SAMPLE_LINES, sample_blocks
from penstock.demo.words import size_words
from penstock.errors import PenstockError, StartupFailed

TOPIC: Final = "demo-lines"
SOURCE: Final = "demo-source"
SINK: Final = "demo-sink"
OFFSET_TOPIC: Final = "demo-offsets"

CHUNK: Final = 1 << 20
"""Bytes read at once; with their copies, all the memory that a file of any size needs."""

_SPARE_MB: Final = 500  # for the broker's and Spark's own files


class BadFile(PenstockError):
    """The requested file cannot be moved."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of all files of the demo. Only one demo at a time uses a folder."""

    path: Path

    @property
    def sample(self) -> Path:
        return self.path / "sample.txt"

    @property
    def received(self) -> Path:
        """The sink's file."""
        return self.path / "received.txt"

    @property
    def kafka(self) -> Path:
        return self.path / "kafka"

    @property
    def worker_log(self) -> Path:
        return self.path / "worker.log"

    @property
    def properties(self) -> Path:
        return self.path / "worker.properties"

    @property
    def second_properties(self) -> Path:
        """The properties of a second worker on the same machine, to play with."""
        return self.path / "worker-2.properties"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder and keeps other demos out of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StartupFailed(
                    f"Another demo is running in {self.path}. Stop it first, or set PENSTOCK_HOME "
                    "to another folder."
                ) from error
            yield

    def clear(self) -> None:
        """Removes the files of an earlier demo except its sample, which is replaced when needed."""
        shutil.rmtree(self.kafka, ignore_errors=True)
        for file in (self.received, self.worker_log, self.properties, self.second_properties):
            file.unlink(missing_ok=True)

    def owns(self, file: Path) -> bool:
        """Whether `clear` would remove the file."""
        resolved, folder = file.resolve(), self.path.resolve()
        return resolved.is_relative_to(folder) and resolved != self.sample.resolve()

    def write_sample(self, seen: Callable[[int], None]) -> Path:
        """Generates the sample; calls `seen` after each block with the bytes so far."""
        size = 0
        with self.sample.open("wb") as out:
            for block in sample_blocks(SAMPLE_LINES):
                size += out.write(block)
                seen(size)
        return self.sample


def chunks(
    file: Path, size: int | None = None, seen: Callable[[int], None] = lambda size: None
) -> Iterator[bytes]:
    """The first `size` bytes of a file, or all; calls `seen` after each chunk with the bytes read
    so far."""
    read = 0
    with file.open("rb") as opened:
        while size is None or read < size:
            chunk = opened.read(CHUNK if size is None else min(CHUNK, size - read))
            if not chunk:
                return
            read += len(chunk)
            seen(read)
            yield chunk


def check_file(file: Path, folder: Folder) -> Path:
    """The absolute path of a file that can be read; raises BadFile with the reason otherwise."""
    file = file.expanduser().absolute()
    try:
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):
            raise BadFile(f"{file} is not a regular file. The demo reads its file more than once.")
        with file.open("rb"):
            pass
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}.") from error
    if folder.owns(file):
        raise BadFile(
            f"{file} is in the demo's own folder, which is cleared at the start. Move it first."
        )
    return file


def check_lines(name: str, found: Digest) -> None:
    """Raises BadFile when there is nothing to move."""
    if found.lines == 0:
        problem = f"{size_words(found.tail)} without a line end" if found.tail else "empty"
        raise BadFile(
            f"{name} has no whole line (it is {problem}), so there is nothing to move. "
            "The source sends a line once it has a line end."
        )


def check_room(folder: Folder, free_mb: int, size: int) -> None:
    """Raises StartupFailed when the topic and the copy will not fit on the disk."""
    need_mb = 2 * size // 1_000_000 + _SPARE_MB
    if free_mb < need_mb:
        raise StartupFailed(
            f"The demo needs about {need_mb:,} MB for its topic and its copy of the file, but only "
            f"{free_mb:,} MB are free where {folder.path} is. Make room, or set PENSTOCK_HOME to a "
            "folder on another disk."
        )


def worker_properties(bootstrap: str, port: int) -> str:
    """The properties file of a worker of the demo's cluster."""
    return f"""\
# A worker of the demo's cluster; a second one only needs another port.
bootstrap.servers={bootstrap}
group.id=demo-cluster
listeners=http://127.0.0.1:{port}

key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter

# One broker, so one replica of everything.
config.storage.topic=demo-configs
config.storage.replication.factor=1
offset.storage.topic={OFFSET_TOPIC}
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.topic=demo-status
status.storage.replication.factor=1
status.storage.partitions=1
offset.flush.interval.ms=1000

# How long a lost worker has to rejoin before its tasks move to another one. The usual five minutes
# are right for restarts in production, but too long to watch.
scheduled.rebalance.max.delay.ms=5000
"""


def source_config(file: Path) -> Mapping[str, str]:
    """The configuration of the connector that sends the file's lines to the topic."""
    return {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": os.fspath(file),
        "topic": TOPIC,
    }


def sink_config(file: Path) -> Mapping[str, str]:
    """The configuration of the connector that appends the topic's records to a file."""
    return {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": os.fspath(file),
        "topics": TOPIC,
    }
