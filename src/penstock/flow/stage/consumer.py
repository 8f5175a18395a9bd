"""What a sink task tells its consumer, which is in the JVM beside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.flow.plan import SinkPlan
from penstock.flow.stage.hosted import HostPort
from penstock.ids import TopicPartition

HELD_BYTES: Final = 4 << 20
"""About how many bytes of records a task has read and not written, at most; what one poll of its
consumer brings on top."""

_RELEASE_S: Final = 5.0  # how long a revocation waits for a write that is under way
_COMMIT_MS: Final = 5_000


class Consumer:
    """Nothing but `close` is told once the task is cut off."""

    def __init__(self, host: HostPort, task: int, is_cut: Callable[[], bool]) -> None:
        self._host = host
        self._task = task
        self._is_cut = is_cut
        self.undone = 0
        """Bytes that the task is done with, and the consumer was not told."""

    def open(self, plan: SinkPlan) -> None:
        self._tell(
            "open",
            name=str(plan.task),
            settings=dict(plan.consumer),
            topics=list(plan.topics),
            pattern=plan.topics_regex,
            limit=HELD_BYTES,
            release_ms=int(_RELEASE_S * 1000),
        )

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        self._tell("pause", partitions=[list(each) for each in partitions], paused=paused)

    def seek(self, ticket: int, partitions: Iterable[Sequence[Any]]) -> None:
        self._tell("seek", id=ticket, partitions=list(partitions))

    def released(self, ticket: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Revoked partitions are finished; these offsets of them are to be committed."""
        self._tell("released", id=ticket, offsets=_rows(offsets), ms=_COMMIT_MS if ticket else 0)

    def commit(
        self, ticket: int, offsets: Mapping[TopicPartition, int], ms: int = _COMMIT_MS
    ) -> None:
        self._tell("commit", id=ticket, offsets=_rows(offsets), ms=ms)

    def done(self, size: int) -> None:
        """The consumer may read so many bytes more; said when it is worth saying."""
        self.undone += size
        if self.undone >= HELD_BYTES // 8:
            self._tell("done", bytes=self.undone)
            self.undone = 0

    def close(self, ms: int) -> None:
        self._tell("close", ms=ms)

    def _tell(self, what: str, **more: Any) -> None:
        if what == "close" or not self._is_cut():
            self._host.tell_reader({"do": what, "task": self._task, **more})


def _rows(offsets: Mapping[TopicPartition, int]) -> list[list[Any]]:
    return [[*at, offset] for at, offset in offsets.items()]
