"""Files of a file system that can rename: HDFS, and any other that Hadoop supports.

File names, which have the first and the last offset, show what was written; the consumer group
does not (connectors.md §14). That is correct only if a file appears together with all others
of its commit, in the order of offsets, and if a topic partition has a single writer:

- A task has a folder for each assignment, its *session*,
  `<topics.dir>/+tmp/<topic>/<partition>/<uuid>`. It creates files there, in a folder that must
  exist, and renames them when they are complete. A task that claims the partition moves the
  sessions of others into its own: from then on they can neither create nor rename anything.
- A commit of several files is first recorded as a *plan* in the session: a task that takes the
  session over carries out its plan. So is a commit of files whose names do not show the offsets of
  the partition, because transforms route its records to another topic; then the plan shows them.
- `<logs.dir>/<topic>/<partition>/next+<offset>` records where to resume if files were moved away.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from penstock.api import TopicPartition
from penstock.connectors.files.stores import wal
from penstock.connectors.files.stores.hadoop import Hadoop
from penstock.connectors.files.stores.store import (
    HELD,
    Claim,
    FileLost,
    NewFile,
    Store,
    StoreRefused,
    StoreUnavailable,
)

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)\+(\d+)\+(\d+)\+(\d+)(\..*)?")
_NEXT: Final = "next+"
_PLAN: Final = ".plan"


@dataclass(frozen=True, slots=True)
class HdfsFolders:
    """Folders, as paths from the root of the file system."""

    topics: str  # without a trailing slash
    logs: str

    def sessions(self, topic_partition: TopicPartition) -> str:
        return f"{self.topics}/+tmp/{topic_partition.topic}/{topic_partition.partition}"

    def log(self, topic_partition: TopicPartition) -> str:
        return f"{self.logs}/{topic_partition.topic}/{topic_partition.partition}"


class HdfsStore(Store):
    """The files below `topics.dir`. Their paths are relative to it."""

    claims = True

    def __init__(self, connect: Callable[[], Hadoop], root: str, folders: HdfsFolders) -> None:
        """`root`: the folder that paths of files are relative to."""
        self._connect = connect
        self._hadoop: Hadoop | None = None
        self._connecting = threading.Lock()
        self.root = root
        self.folders = folders
        self._existing: set[str] = set()  # existing folders

    @property
    def hadoop(self) -> Hadoop:
        """The connection, opened on first use."""
        with self._connecting:
            if self._hadoop is None:
                self._hadoop = self._connect()
            return self._hadoop

    def create(self, path: str) -> NewFile:
        raise NotImplementedError("files are created by who has claimed their partition")

    def claim(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Claim]:
        claimed = {
            topic_partition: _Session(self, topic_partition) for topic_partition in partitions
        }
        # From here on no other task creates their files, so it is safe to read the names.
        for session in claimed.values():
            session.begin()
        for topic in {topic_partition.topic for topic_partition in claimed}:
            ends = self._ends(topic)
            for topic_partition, session in claimed.items():
                if topic_partition.topic == topic:
                    session.take_over(ends.get(topic_partition.partition))
        return claimed

    def check(self) -> None:
        """Raises what writing would: creates, renames and removes a file."""
        hadoop = self.hadoop
        folder = f"{self.folders.topics}/+tmp/.check-{uuid4()}"
        try:
            hadoop.make_folder(folder)
            hadoop.close_file(hadoop.create(f"{folder}/a"), f"{folder}/a")
            if not hadoop.rename(f"{folder}/a", f"{folder}/b"):
                raise StoreRefused(f"{folder}/a cannot be renamed.")
            hadoop.make_folder(self.folders.logs)
        finally:
            with suppress(StoreUnavailable, StoreRefused):
                hadoop.delete(folder)

    def publish(self, source: str, target: str) -> None:
        """Renames a complete file to its final name; does nothing if that was done. Raises
        StoreRefused if the session was taken over, or another file has the name."""
        hadoop = self.hadoop
        folder = target.rpartition("/")[0]
        if folder not in self._existing:
            hadoop.make_folder(folder)
            self._existing.add(folder)
        try:
            if hadoop.rename(source, target):
                return
        except StoreRefused:
            if hadoop.exists(source) or not hadoop.exists(target):
                raise
            return
        is_pending = hadoop.exists(source)
        if hadoop.exists(target):
            if is_pending:
                raise StoreRefused(f"There is a file {target} already, so it is not replaced.")
            return  # renamed before, and the response was lost
        self._existing.discard(folder)
        if is_pending:
            raise StoreUnavailable(f"{source} cannot be renamed to {target} now.")
        raise _taken_over(source)

    def close(self) -> None:
        if self._hadoop is not None:
            self._hadoop.close()

    def _ends(self, topic: str) -> dict[int, int]:
        """The largest last offset in file names, by partition."""
        ends: dict[int, int] = {}
        for name in self.hadoop.names(f"{self.folders.topics}/{topic}"):
            parsed = offsets_of(name)
            if parsed is not None and parsed[0] == topic:
                _, partition, end = parsed
                ends[partition] = max(end, ends.get(partition, -1))
        return ends


class _Session(Claim):
    """One assignment of a topic partition."""

    def __init__(self, store: HdfsStore, topic_partition: TopicPartition) -> None:
        self._store = store
        self._topic_partition = topic_partition
        self._root = store.folders.sessions(topic_partition)
        self.folder = f"{self._root}/{uuid4()}"
        self._marker: str | None = None
        self._is_planned = False
        self._taken: list[str] = []  # the sessions of others
        self._planned: list[int] = []  # the offsets after their plans
        self.next: int | None = None

    def begin(self) -> None:
        """Takes over other sessions, which stops their tasks, and finishes their plans."""
        hadoop = self._store.hadoop
        hadoop.make_folder(self.folder)
        for other in hadoop.entries(self._root):
            if other.path != self.folder and other.is_folder:
                moved = f"{self.folder}/taken-{other.path.rpartition('/')[2]}"
                if not hadoop.rename(other.path, moved) and not hadoop.exists(moved):
                    if not hadoop.exists(self.folder):
                        raise _taken_over(self.folder)
                    continue  # its owner removed it
                self._finish(moved)
                self._taken.append(moved)

    def take_over(self, end: int | None) -> None:
        """Finds where to resume; `end` is the largest offset in file names."""
        hadoop = self._store.hadoop
        folder = self._store.folders.log(self._topic_partition)
        positions = [*self._planned] if end is None else [*self._planned, end + 1]
        logs: list[str] = []
        markers: list[tuple[int, str]] = []
        for entry in hadoop.entries(folder):
            name = entry.path.rpartition("/")[2]
            if name.startswith(_NEXT) and name.removeprefix(_NEXT).isdecimal():
                markers.append((int(name.removeprefix(_NEXT)), entry.path))
            elif name in ("log", "log.1"):
                logs.append(entry.path)
        for path in sorted(logs):
            positions += self._apply(path)
        for offset, path in sorted(markers):
            positions.append(offset)
            if self._marker is not None:
                hadoop.delete(self._marker)
            self._marker = path
        if positions:
            self.note(max(positions))
        for path in (*logs, *self._taken):
            hadoop.delete(path)
        self._taken = []

    def create(self, path: str) -> NewFile:
        _, dot, ending = path.rpartition("+")[2].partition(".")
        return _HdfsFile(path, self._store, self.folder, dot + ending)

    def publish(self, files: Sequence[NewFile], next: int) -> None:
        complete = [file for file in files if isinstance(file, _HdfsFile)]
        pairs = [(file.temporary, f"{self._store.root}/{file.path}") for file in complete]
        plan = None
        if len(pairs) > 1 or not all(self._shows_offsets(file) for file in complete):
            plan = f"{self.folder}/{next}{_PLAN}"
            self._write_plan(plan, pairs)
            self._is_planned = True
        for source, target in pairs:
            self._store.publish(source, target)
        self.note(next)
        if plan is not None:
            self._store.hadoop.delete(plan)
            self._is_planned = False

    def _shows_offsets(self, file: NewFile) -> bool:
        """Whether the name of a file shows the offsets of the session's partition."""
        topic, partition = self._topic_partition
        parsed = offsets_of(file.path.rpartition("/")[2])
        return parsed is not None and parsed[:2] == (topic, partition)

    def note(self, next: int) -> None:
        if self.next is not None and self.next >= next and self._marker is not None:
            return
        hadoop = self._store.hadoop
        folder = self._store.folders.log(self._topic_partition)
        target = f"{folder}/{_NEXT}{next}"
        marker = self._marker
        if marker != target and (marker is None or not hadoop.rename(marker, target)):
            hadoop.make_folder(folder)
            if not hadoop.exists(target):
                hadoop.close_file(hadoop.create(target), target)
        self._marker = target
        self.next = next

    def release(self) -> None:
        if self._is_planned:
            return  # the next task that claims the partition carries out the plan
        with suppress(StoreUnavailable, StoreRefused):
            self._store.hadoop.delete(self.folder)

    def _write_plan(self, plan: str, pairs: Sequence[tuple[str, str]]) -> None:
        hadoop = self._store.hadoop
        if hadoop.exists(plan):
            return
        draft = f"{plan}-{uuid4()}"
        names = [[source.rpartition("/")[2], target] for source, target in pairs]
        stream = hadoop.create(draft)
        hadoop.write(stream, json.dumps(names).encode(), draft)
        hadoop.close_file(stream, draft)
        if not hadoop.rename(draft, plan) and not hadoop.exists(plan):
            raise _taken_over(plan)

    def _finish(self, session: str) -> None:
        """Carries out the plans of a session, and of the sessions that it took over."""
        hadoop = self._store.hadoop
        for entry in hadoop.entries(session):
            if entry.is_folder:
                self._finish(entry.path)
            elif entry.path.endswith(_PLAN):
                for name, target in json.loads(hadoop.read(entry.path)):
                    self._publish_if_pending(f"{session}/{name}", target)
                name = entry.path.rpartition("/")[2].removesuffix(_PLAN)
                if name.isdecimal():
                    self._planned.append(int(name))

    def _apply(self, path: str) -> list[int]:
        """Carries out a log of Confluent's connector; returns the offset after its last commit."""
        hadoop = self._store.hadoop
        # This stops a connector that is still running.
        if not hadoop.recover_lease(path):
            raise StoreUnavailable(f"The lease of {path} is not yet released by its writer.")
        try:
            commits = wal.commits(hadoop.read(path))
        except wal.NotALog as error:
            raise StoreRefused(
                f"{path} should be the write-ahead log of Confluent's HDFS connector, but {error}. "
                "Let that connector finish its files, or remove the log if they are complete."
            ) from error
        ends: list[int] = []
        for commit in commits:
            ends = []
            for temporary, final in commit:
                target = _below_root(final)
                if not path.endswith(".1"):
                    self._publish_if_pending(_below_root(temporary), target)
                parsed = offsets_of(target.rpartition("/")[2])
                if parsed is not None:
                    ends.append(parsed[2] + 1)
        log.info("Took over %s of Confluent's HDFS connector: %d commits", path, len(commits))
        return [max(ends)] if ends else []

    def _publish_if_pending(self, source: str, target: str) -> None:
        hadoop = self._store.hadoop
        if hadoop.exists(target):
            return
        if hadoop.exists(source):
            self._store.publish(source, target)
        else:
            log.warning("Neither %s nor %s exists; the file was moved away", source, target)


class _HdfsFile(NewFile):
    """Small files are written when they are complete; larger ones continuously, and are lost if
    their stream breaks."""

    def __init__(self, path: str, store: HdfsStore, folder: str, ending: str) -> None:
        super().__init__(path)
        self._store = store
        self._folder = folder
        self._ending = ending
        self.temporary = self._name()
        self._stream: Any = None
        self._is_complete = False

    def _name(self) -> str:
        return f"{self._folder}/{uuid4()}_tmp{self._ending}"

    def settle(self) -> None:
        if self.held_bytes >= HELD:
            hadoop = self._store.hadoop
            if self._stream is None:
                self._stream = self._create()
            try:
                for data in self.held:
                    hadoop.write(self._stream, data, self.temporary)
            except (StoreUnavailable, StoreRefused) as error:
                raise self._lost(error) from error
            self.held = []
            self.held_bytes = 0

    def commit(self) -> None:
        if self._is_complete:
            return
        hadoop = self._store.hadoop
        stream, spilled = self._stream, self._stream is not None
        if stream is None:
            stream = self._create()
        try:
            if self.held:
                hadoop.write(stream, b"".join(self.held), self.temporary)
            hadoop.close_file(stream, self.temporary)
        except (StoreUnavailable, StoreRefused) as error:
            hadoop.give_up(stream)
            if spilled:
                raise self._lost(error) from error
            self.temporary = self._name()  # nothing is lost, so the file is written again
            raise
        self._is_complete = True
        self._stream = None
        self.held = []

    def _create(self) -> Any:
        hadoop = self._store.hadoop
        try:
            return hadoop.create(self.temporary)
        except StoreUnavailable:
            # The file may exist, and be open for this client: it is created under another name.
            self.temporary = self._name()
            if not hadoop.exists(self._folder):
                raise _taken_over(self._folder) from None
            raise

    def drop(self) -> None:
        """Keeps the file until its session ends, because a plan may contain it."""
        self.held = []
        if self._stream is not None:
            self._store.hadoop.give_up(self._stream)
            self._stream = None

    def _lost(self, error: Exception) -> FileLost | StoreRefused:
        return error if isinstance(error, StoreRefused) else FileLost(str(error))


def offsets_of(name: str) -> tuple[str, int, int] | None:
    """The topic, the partition and the last offset in the name of a file.

    >>> offsets_of("orders+3+0000000000+0000000099.avro")
    ('orders', 3, 99)
    """
    match = _NAME.fullmatch(name)
    return (match[1], int(match[2]), int(match[4])) if match else None


def _below_root(url: str) -> str:
    """The path of a URL, with single slashes."""
    path = re.sub(r"^[a-zA-Z0-9.+-]+://[^/]*", "", url)
    return re.sub("/+", "/", path.removeprefix("file:"))


def _taken_over(path: str) -> StoreRefused:
    return StoreRefused(
        f"{path} no longer exists: another task has taken over its topic partition."
    )
