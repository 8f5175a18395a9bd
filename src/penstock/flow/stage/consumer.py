"""The commands of a sink task to its consumer, which is in the slot's JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.flow.plan import SinkPlan
from penstock.flow.stage.chunks import Chunk
from penstock.flow.stage.hosted import HostPort
from penstock.flow.stage.lineages import Lineages
from penstock.ids import TopicPartition

HELD_BYTES: Final = 4 << 20
"""The approximate limit, in bytes, of records that a task has read and not written; one poll of its
consumer may exceed it."""

_RELEASE_S: Final = 5.0  # how long a revocation waits for a write in progress
_COMMIT_MS: Final = 5_000


class Consumer:
    """Sends nothing but `close` once the task is cut off."""

    def __init__(self, host: HostPort, task: int, is_cut: Callable[[], bool]) -> None:
        self._host = host
        self._task = task
        self._is_cut = is_cut
        self._is_open = False
        self.undone = 0
        """Bytes that the task has processed but not reported to the consumer."""
        self.lineages = Lineages()

    def open(self, plan: SinkPlan) -> None:
        self._is_open = True
        self._send(
            "open",
            name=str(plan.task),
            settings=dict(plan.consumer),
            topics=list(plan.topics),
            pattern=plan.topics_regex,
            limit=HELD_BYTES,
            release_ms=int(_RELEASE_S * 1000),
        )

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        self._send("pause", partitions=[list(partition) for partition in partitions], paused=paused)

    def arrived(self, chunk: Chunk) -> None:
        """Notes records that the consumer has read."""
        if chunk.records.offsets:
            self.lineages.arrived(chunk.partition, chunk.records.offsets[0], chunk.end)

    def seek(self, ticket: int, partitions: Iterable[Sequence[Any]]) -> None:
        rows = list(partitions)
        self.lineages.moved(TopicPartition(row[0], row[1]) for row in rows)
        self._send("seek", id=ticket, partitions=rows)

    def released(self, ticket: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Reports that revoked partitions are finished, with their offsets to commit."""
        self._send_offsets("released", ticket, offsets, _COMMIT_MS if ticket else 0)

    def commit(
        self, ticket: int, offsets: Mapping[TopicPartition, int], ms: int = _COMMIT_MS
    ) -> None:
        self._send_offsets("commit", ticket, offsets, ms)

    def done(self, size: int) -> None:
        """Lets the consumer read `size` more bytes; sent once enough have accumulated."""
        self.undone += size
        if self.undone >= HELD_BYTES // 8:
            self._send("done", bytes=self.undone)
            self.undone = 0

    def close(self, ms: int) -> None:
        """Makes it leave its group within `ms`, if it is open."""
        if self._is_open:
            self._host.send_to_reader({"do": "close", "task": self._task, "ms": ms})

    def _send_offsets(
        self, command: str, ticket: int, offsets: Mapping[TopicPartition, int], ms: int
    ) -> None:
        metadata = [self.lineages.metadata(at) for at in offsets]
        self._send(command, id=ticket, offsets=_rows(offsets), metadata=metadata, ms=ms)

    def _send(self, command: str, **more: Any) -> None:
        if not self._is_cut():
            self._host.send_to_reader({"do": command, "task": self._task, **more})


def _rows(offsets: Mapping[TopicPartition, int]) -> list[list[Any]]:
    return [[*at, offset] for at, offset in offsets.items()]
