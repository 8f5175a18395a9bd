"""How far the records are and how fast they move: values that grow with every look at the cluster.

Times are milliseconds of any monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

NOW_MS: Final = 5_000
"""What "now" means for a rate: the average over this long."""

STALLED_MS: Final = 60_000
"""If nothing moves for this long and a task does not run, the demo stops waiting."""

SILENT_MS: Final = 120_000
"""If nothing moves for this long, the demo stops waiting even if all tasks run."""

SETTLED_MS: Final = 1_500
"""Longer than the worker's commit interval, so a surplus record would be visible by then."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A count that grows, measured now and then.

    >>> pace = Pace().seen(0, 0).seen(1_000, 500).seen(2_000, 2_500)
    >>> pace.average(), pace.rate(2_000), pace.rate(9_000)
    (1250.0, 1250.0, 0.0)
    """

    count: int = 0
    began_ms: int | None = None  # when it was last idle
    grown_ms: int | None = None  # when it reached `count`
    recent: tuple[tuple[int, int], ...] = ()  # (when, count), no older than a rate needs

    def seen(self, now_ms: int, count: int, *, idle: bool | None = None) -> Pace:
        """The pace after another measurement. A count that decreased is a failed measurement.

        While it is `idle`, by default at zero, its time has not begun.
        """
        count = max(count, self.count)
        idle = count == 0 if idle is None else idle
        recent = (*self.recent, (now_ms, count))
        while len(recent) > 1 and recent[1][0] <= now_ms - NOW_MS:
            recent = recent[1:]
        grown = count > self.count
        return Pace(
            count=count,
            began_ms=now_ms if idle or self.began_ms is None else self.began_ms,
            grown_ms=now_ms if grown else self.grown_ms,
            recent=recent,
        )

    @property
    def taken_ms(self) -> int:
        """From the last idle look to the last growth; a little more than it really took."""
        if self.began_ms is None or self.grown_ms is None:
            return 0
        return self.grown_ms - self.began_ms

    def average(self) -> float:
        """Per second, from the first to the last growth."""
        return per_second(self.count, self.taken_ms)

    def rate(self, now_ms: int) -> float:
        """Per second, over the last few seconds."""
        since = [look for look in self.recent if look[0] > now_ms - NOW_MS - 1]
        if len(since) < 2:
            return 0.0
        (first_ms, first), (last_ms, last) = since[0], since[-1]
        return per_second(last - first, last_ms - first_ms)


def per_second(count: int, taken_ms: int) -> float:
    """A rate; 0 when no time has passed."""
    return count * 1000 / taken_ms if taken_ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ShownInstance:
    """A connector or one of its tasks as `GET /connectors/{name}/status` shows it."""

    name: str
    state: str
    trace: str = ""


def instances_of(name: str, status: Mapping[str, Any]) -> tuple[ShownInstance, ...]:
    """A connector and its tasks from the body of a status response."""
    connector: Mapping[str, Any] = status.get("connector") or {}
    tasks: list[Mapping[str, Any]] = status.get("tasks") or []
    return (
        ShownInstance(
            name, str(connector.get("state", "UNKNOWN")), str(connector.get("trace") or "")
        ),
        *(
            ShownInstance(
                f"{name}-{task.get('id')}",
                str(task.get("state", "UNKNOWN")),
                str(task.get("trace") or ""),
            )
            for task in tasks
        ),
    )


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the cluster; None for unavailable values."""

    records_in: int | None = None  # end offset of the topic
    records_out: int | None = None  # offset committed by the sink's group
    position: int | None = None  # bytes of the file that the source has committed
    written: int = 0  # bytes in the sink's file
    parts: tuple[ShownInstance, ...] | None = None


@dataclass(frozen=True, slots=True)
class DemoProgress:
    """Everything seen since the connectors were created."""

    lines: int  # to be moved
    size: int  # of them, in bytes of the source file
    started_ms: int
    now_ms: int
    into_topic: Pace = field(default_factory=Pace)
    out_of_topic: Pace = field(default_factory=Pace)
    into_file: Pace = field(default_factory=Pace)  # bytes
    position: int = 0
    parts: tuple[ShownInstance, ...] = ()
    moved_ms: int = 0  # when something last moved or a state last changed

    @classmethod
    def start(cls, lines: int, size: int, now_ms: int) -> DemoProgress:
        """Nothing seen yet."""
        return cls(lines, size, now_ms, now_ms, moved_ms=now_ms)

    def seen(self, now_ms: int, look: Look) -> DemoProgress:
        """The progress after one more look."""
        into_topic = self.into_topic.seen(now_ms, look.records_in or 0)
        # The sink commits whole batches, so its time begins with the first record in the topic.
        out_of_topic = self.out_of_topic.seen(
            now_ms, look.records_out or 0, idle=into_topic.count == 0
        )
        into_file = self.into_file.seen(now_ms, look.written)
        position = max(self.position, look.position or 0)
        parts = self.parts if look.parts is None else look.parts
        moved = (
            parts != self.parts
            or position > self.position
            or any(pace.grown_ms == now_ms for pace in (into_topic, out_of_topic, into_file))
        )
        return replace(
            self,
            now_ms=now_ms,
            into_topic=into_topic,
            out_of_topic=out_of_topic,
            into_file=into_file,
            position=position,
            parts=parts,
            moved_ms=now_ms if moved else self.moved_ms,
        )

    @property
    def lag(self) -> int:
        """Records in the topic that the sink has not committed yet."""
        return max(0, self.into_topic.count - self.out_of_topic.count)

    @property
    def failed(self) -> tuple[ShownInstance, ...]:
        """The failed instances, with their traces."""
        return tuple(part for part in self.parts if part.state == "FAILED")

    @property
    def running(self) -> bool:
        """Whether both connectors and all their tasks run, at least one task each."""
        return len(self.parts) >= 4 and all(part.state == "RUNNING" for part in self.parts)

    @property
    def quiet_ms(self) -> int:
        """How long nothing has moved."""
        return self.now_ms - self.moved_ms

    @property
    def arrived(self) -> bool:
        """Whether the sink has committed as many records as there are lines, and the lag is 0."""
        return self.out_of_topic.count >= self.lines and self.lag == 0

    @property
    def settled(self) -> bool:
        """Whether the records arrived and nothing has moved for a while."""
        return self.arrived and self.quiet_ms >= SETTLED_MS

    @property
    def stalled(self) -> bool:
        """Whether further waiting makes no sense."""
        return self.quiet_ms >= (SILENT_MS if self.running else STALLED_MS)

    @property
    def taken_ms(self) -> int:
        """From the creation of the connectors to the last record's commit."""
        return (self.out_of_topic.grown_ms or self.started_ms) - self.started_ms

    @property
    def waiting_for(self) -> str:
        """Why no record moves yet, from a task's status if it gives a reason."""
        reasons = (part.trace.partition("\n")[0] for part in self.parts if part.state != "FAILED")
        return next(filter(None, reasons), "waiting for the first record")

    def states(self) -> str:
        """The states as part of a sentence: `demo-source RUNNING, demo-source-0 FAILED`."""
        if self.running:
            return "all RUNNING"
        named = ", ".join(f"{part.name} {part.state}" for part in self.parts)
        return named or "no status yet"
