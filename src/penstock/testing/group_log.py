"""The log of a broker's group coordinator: every generation and every commit, in order.

Kafka keeps it in `__consumer_offsets`. The APIs show only the current state; this shows that an
offset never regressed, or that a group had no rebalance.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from penstock.testing.topics import Stored, Topics

TOPIC: Final = "__consumer_offsets"
_COMMIT_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_LAST_VERSION: Final = 3  # of group values in the layout below


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A completed rebalance; `leader` is a member id, which begins with the client id."""

    generation: int
    leader: str


@dataclass(frozen=True, slots=True)
class GroupLog:
    """By group: its rebalances, and by topic and partition its committed offsets. Oldest first,
    without compacted records."""

    rounds: dict[str, list[Rebalance]] = field(default_factory=dict)
    commits: dict[str, dict[tuple[str, int], list[int]]] = field(default_factory=dict)

    def generation(self, group: str) -> int:
        """The group's last generation; 0 if it had none."""
        rounds = self.rounds.get(group)
        return rounds[-1].generation if rounds else 0

    def leader(self, group: str) -> str:
        """The leader of the last generation, or an empty string."""
        rounds = self.rounds.get(group)
        return rounds[-1].leader if rounds else ""


def read_group_log(topics: Topics) -> GroupLog:
    """Everything the coordinator has written so far."""
    log = GroupLog()
    for row in topics.read(TOPIC):
        if row.key is not None and row.value is not None:
            _add(log, row, row.key, row.value)
    return log


def _add(log: GroupLog, row: Stored, key: bytes, value: bytes) -> None:
    (kind,) = struct.unpack_from(">h", key)
    group, at = _text(key, 2)
    if kind in _COMMIT_KEYS:
        topic, at = _text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        (offset,) = struct.unpack_from(">q", value, 2)
        partitions = log.commits.setdefault(group or "", {})
        partitions.setdefault((topic or "", partition), []).append(offset)
    elif kind == _GROUP_KEY:
        (version,) = struct.unpack_from(">h", value)
        assert version <= _LAST_VERSION, f"offset {row.offset}: group metadata of version {version}"
        _, at = _text(value, 2)  # the protocol type
        (generation,) = struct.unpack_from(">i", value, at)
        _, at = _text(value, at + 4)  # the protocol
        leader, _ = _text(value, at)
        log.rounds.setdefault(group or "", []).append(Rebalance(generation, leader or ""))


def _text(data: bytes, at: int) -> tuple[str | None, int]:
    """A nullable string, and the position after it."""
    (length,) = struct.unpack_from(">h", data, at)
    at += 2
    if length < 0:
        return None, at
    return data[at : at + length].decode(), at + length
