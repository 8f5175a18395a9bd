"""The events of a slot's JVM: what happens to the consumers of sink tasks (`SlotConsumer.java`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class ReaderStarted:
    """The slot's JVM accepts commands at this address, from a client with this token."""

    host: str
    port: int
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a consumer reads a partition next. Every assignment and every seek begins an epoch."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partitions were assigned. `committed`: their committed offsets and metadata, if any."""

    partitions: Mapping[TopicPartition, Position]
    committed: Mapping[TopicPartition, tuple[int, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Revoked:
    """Partitions are revoked as soon as the task has answered with their offsets."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Lost:
    """Another member owns the partitions already."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Sought:
    """The consumer has obeyed a seek in these partitions; in others the assignment had ended."""

    ticket: int
    partitions: Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True)
class CommitDone:
    """The consumer has tried to commit; `error`: why it could not."""

    ticket: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Closed:
    """The consumer has ended. `member`: the id of a member whose group may not know that it has
    left. `trace`: a Java stack trace if it has failed."""

    member: str | None
    trace: str | None


ConsumerEvent = Assigned | Revoked | Lost | Sought | CommitDone | Closed
"""The events of one task's consumer."""


def decode(event: Mapping[str, Any]) -> ReaderStarted | ConsumerEvent:
    """An event from its JSON. Raises ValueError for an unknown one."""
    match event["event"]:
        case "hello":
            return ReaderStarted(event["host"], event["port"], event["token"])
        case "assigned":
            committed = {
                TopicPartition(topic, partition): (offset, metadata)
                for topic, partition, offset, metadata in event.get("committed", ())
            }
            return Assigned(_positions(event["partitions"]), committed)
        case "revoked":
            return Revoked(_partitions(event["partitions"]))
        case "lost":
            return Lost(_partitions(event["partitions"]))
        case "sought":
            return Sought(event["id"], _positions(event["partitions"]))
        case "committed":
            return CommitDone(event["id"], event.get("error"))
        case "closed":
            return Closed(event.get("member"), event.get("trace"))
        case unknown:
            raise ValueError(f"The JVM has sent an unknown event: {unknown}")


def _partitions(rows: Sequence[Sequence[Any]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, partition) for topic, partition in rows)


def _positions(rows: Sequence[Sequence[Any]]) -> dict[TopicPartition, Position]:
    return {
        TopicPartition(topic, partition): Position(epoch, offset)
        for topic, partition, epoch, offset in rows
    }
