"""What the coordinator's records say, by their layout (Kafka's `OffsetCommit…` and
`GroupMetadata…` messages)."""

from __future__ import annotations

import struct

from penstock.testing.group_log import Rebalance, read_group_log
from penstock.testing.topics import Stored


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value.encode())) + value.encode()


def commit(group: str, topic: str, partition: int, position: int) -> tuple[bytes, bytes]:
    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)
    value = struct.pack(">hqi", 3, position, -1) + text("") + struct.pack(">q", 0)
    return key, value


def metadata(group: str, generation: int, leader: str | None) -> tuple[bytes, bytes]:
    value = struct.pack(">h", 3) + text("connect") + struct.pack(">i", generation)
    value += text("sessioned" if leader else None) + text(leader) + struct.pack(">qi", 0, 0)
    return struct.pack(">h", 2) + text(group), value


class Written:
    """A topic with these records."""

    def __init__(self, *rows: tuple[bytes, bytes | None]) -> None:
        self._rows = rows

    def read(self, topic: str) -> list[Stored]:
        assert topic == "__consumer_offsets"
        return [Stored(0, at, key, value) for at, (key, value) in enumerate(self._rows)]


def test_rounds_and_commits_are_reported_in_order() -> None:
    gone = commit("g", "gone", 0, 1)[0]
    log = read_group_log(
        Written(  # type: ignore[arg-type]
            metadata("workers", 1, "connect-a"),
            commit("g", "t", 0, 5),
            commit("g", "t", 1, 9),
            metadata("workers", 2, "connect-b"),
            commit("g", "t", 0, 7),
            metadata("empty", 4, None),
            (gone, None),
        )
    )
    assert log.rounds["workers"] == [Rebalance(1, "connect-a"), Rebalance(2, "connect-b")]
    assert (log.generation("workers"), log.leader("workers")) == (2, "connect-b")
    assert (log.generation("empty"), log.leader("empty")) == (4, "")
    assert (log.generation("nobody"), log.leader("nobody")) == (0, "")
    assert log.commits == {"g": {("t", 0): [5, 7], ("t", 1): [9]}}
