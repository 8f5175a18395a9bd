"""How far a sink task is in one partition, as a value with pure moves.

The law: an offset may be committed once the writer has stored every record before it, or has
reported it. So `reach` alone permits nothing; `grant` does, after a flush and `pre_commit` that
succeeded, and nothing takes it back but a seek.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

SEEKING: Final = -1
"""The epoch of a partition whose consumer has not reached the requested offset: no chunk has it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One assignment of a partition, which began with the epoch `assignment`.

    `epoch`: of the chunks that count. `position`: the offset of the record to write next.
    `reached`: the offset after the last written record, or None if nothing was written since the
    last commit. `granted`: the offset that may be committed. `barrier`: a record that was reported
    and is not tolerated; nothing from it on is committed. `seek`: the ticket of the last seek,
    until the consumer has obeyed it.
    """

    assignment: int
    epoch: int
    position: int
    reached: int | None = None
    granted: int = -1
    committed: int = -1
    barrier: int | None = None
    seek: int | None = None

    def reach(self, epoch: int, position: int) -> Progress:
        """Records were written. No change if they are of an earlier epoch."""
        if epoch != self.epoch:
            return self
        return Progress(
            self.assignment,
            epoch,
            position,
            position,
            self.granted,
            self.committed,
            self.barrier,
        )  # `replace` takes longer, and this is called for each chunk

    def bar(self, offset: int) -> Progress:
        """A record was reported that is not tolerated."""
        barrier = offset if self.barrier is None else min(offset, self.barrier)
        return replace(self, barrier=barrier)

    def grant(self, offered: int) -> Progress:
        """The writer has stored what is before `offered`, if that much was written."""
        if self.reached is None:
            return self
        return replace(self, granted=min(offered, self.reached))

    @property
    def due(self) -> int | None:
        """The offset to commit, if any. Never below the committed one: a record that is reported
        after its commit does not undo the commit."""
        up_to = self.granted if self.barrier is None else min(self.granted, self.barrier)
        return up_to if up_to > self.committed else None

    def commit(self, offset: int) -> Progress:
        """Kafka has committed an offset."""
        reached = None if self.reached == offset else self.reached
        return replace(self, committed=offset, reached=reached)

    def leave(self, seek: int) -> Progress:
        """The consumer is about to go elsewhere: forgets what was reached, and every chunk is of an
        earlier epoch from now on."""
        return Progress(self.assignment, SEEKING, self.position, barrier=self.barrier, seek=seek)

    def arrive(self, seek: int, epoch: int, position: int) -> Progress:
        """The consumer has gone to `position`, which is to be committed. No change if there has
        been another seek since."""
        if seek != self.seek:
            return self
        return Progress(self.assignment, epoch, position, position, barrier=self.barrier)
