"""The group protocol's bytes: member metadata, assignments; versions 0 to 2 (kafka-connect.md §5).

- Version 0 (`default`) is the eager protocol; 1 (`compatible`) adds what a member runs, what is
  revoked and a delay (KIP-415); 2 (`sessioned`) is 1 plus signed requests (KIP-507).
- Readers take the fields they know from later versions, and defaults for missing trailing fields;
  null arrays are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from penstock.errors import PenstockError
from penstock.ids import TaskId

VERSIONS: Final[Mapping[str, int]] = MappingProxyType(
    {"default": 0, "compatible": 1, "sessioned": 2}
)
"""The version of the bytes in each protocol a worker may offer to the group."""

_OFFERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sessioned": ("sessioned", "compatible", "default"),
        "compatible": ("compatible", "default"),
        "eager": ("default",),
    }
)


def offered(connect_protocol: str) -> tuple[str, ...]:
    """The protocols a worker with this `connect.protocol` offers, the preferred one first.

    Raises `ValueError` for any other setting.
    """
    if connect_protocol not in _OFFERS:
        raise ValueError(
            f"connect.protocol must be one of {', '.join(_OFFERS)}, not {connect_protocol}"
        )
    return _OFFERS[connect_protocol]


class GroupBytesMalformed(PenstockError):
    """Another member of the group sent bytes that are not of Kafka Connect's group protocol."""


class AssignmentError(IntEnum):
    """Why an assignment is empty."""

    NONE = 0
    CONFIG_MISMATCH = 1  # the leader has not read the config topic as far as some member has


@dataclass(frozen=True, slots=True)
class Work:
    """Connector instances and tasks, each in an order that matters to its owner."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __len__(self) -> int:
        return len(self.connectors) + len(self.tasks)

    def plus(self, other: Work) -> Work:
        """This work followed by the rest of `other`."""
        return Work(
            tuple(dict.fromkeys(self.connectors + other.connectors)),
            tuple(dict.fromkeys(self.tasks + other.tasks)),
        )

    def minus(self, other: Work) -> Work:
        """This work, in its order, without `other`."""
        connectors, tasks = frozenset(other.connectors), frozenset(other.tasks)
        return Work(
            tuple(c for c in self.connectors if c not in connectors),
            tuple(t for t in self.tasks if t not in tasks),
        )


NO_WORK: Final = Work()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader assigns to a member: all its work (eager), or additions (cooperative)."""

    leader: str  # its member id
    leader_url: str
    config_offset: int
    work: Work = NO_WORK
    revoked: Work = NO_WORK
    delay_ms: int = 0  # rejoin after this long; 0: no need to
    error: int = AssignmentError.NONE


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member reports to the leader when it joins.

    `allocation` is the assignment it currently runs, None when it runs nothing. If it is omitted
    while something still runs, the leader assigns that twice.
    """

    url: str
    config_offset: int
    allocation: Assignment | None = None

    @property
    def running(self) -> Work:
        """What the member says it runs."""
        return NO_WORK if self.allocation is None else self.allocation.work


_CONNECTOR_ITSELF: Final = -1


def encode_metadata(metadata: MemberMetadata, version: int) -> bytes:
    """The bytes of a member's metadata; version 0 leaves out what the member runs."""
    writer = _Writer()
    writer.integer(version, 2)
    writer.text(metadata.url)
    writer.integer(metadata.config_offset, 8)
    if version >= 1:
        allocation = metadata.allocation
        writer.block(None if allocation is None else encode_assignment(allocation, version))
    return writer.written()


def decode_metadata(data: bytes) -> MemberMetadata:
    """The metadata in these bytes. Raises `GroupBytesMalformed`."""
    reader = _Reader(data)
    version = reader.version()
    url = reader.text()
    config_offset = reader.integer(8)
    allocation = None
    if version >= 1 and reader.more():
        block = reader.block()
        allocation = None if block is None else decode_assignment(block)
    return MemberMetadata(url, config_offset, allocation)


def encode_assignment(assignment: Assignment, version: int) -> bytes:
    """The bytes of an assignment; version 0 leaves out revocations and the delay."""
    writer = _Writer()
    writer.integer(version, 2)
    writer.integer(assignment.error, 2)
    writer.text(assignment.leader)
    writer.text(assignment.leader_url)
    writer.integer(assignment.config_offset, 8)
    writer.work(assignment.work)
    if version >= 1:
        writer.work(assignment.revoked)
        writer.integer(assignment.delay_ms, 4)
    return writer.written()


def decode_assignment(data: bytes) -> Assignment:
    """The assignment in these bytes. Raises `GroupBytesMalformed`."""
    reader = _Reader(data)
    version = reader.version()
    error = reader.integer(2)
    leader = reader.text()
    leader_url = reader.text()
    config_offset = reader.integer(8)
    work = reader.work() if reader.more() else NO_WORK
    revoked, delay_ms = NO_WORK, 0
    if version >= 1:
        revoked = reader.work() if reader.more() else NO_WORK
        delay_ms = reader.integer(4) if reader.more() else 0
    return Assignment(leader, leader_url, config_offset, work, revoked, delay_ms, error)


def protocol_version(data: bytes) -> int:
    """The version these bytes were written in. Raises `GroupBytesMalformed`."""
    return _Reader(data).version()


class _Writer:
    """Kafka's primitive types, big-endian."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def written(self) -> bytes:
        return b"".join(self._parts)

    def integer(self, value: int, size: int) -> None:
        self._parts.append(value.to_bytes(size, "big", signed=True))

    def text(self, value: str) -> None:
        encoded = value.encode("utf-8")
        self.integer(len(encoded), 2)
        self._parts.append(encoded)

    def block(self, value: bytes | None) -> None:
        self.integer(-1 if value is None else len(value), 4)
        if value is not None:
            self._parts.append(value)

    def work(self, work: Work) -> None:
        numbers: dict[str, list[int]] = {c: [_CONNECTOR_ITSELF] for c in work.connectors}
        for task in work.tasks:
            numbers.setdefault(task.connector, []).append(task.number)
        self.integer(len(numbers), 4)
        for connector, tasks in numbers.items():
            self.text(connector)
            self.integer(len(tasks), 4)
            for number in tasks:
                self.integer(number, 4)


class _Reader:
    """Kafka's primitive types, big-endian; raises `GroupBytesMalformed` where they end early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._data)

    def version(self) -> int:
        version = self.integer(2)
        if version < 0:
            raise GroupBytesMalformed(f"Group protocol version {version} does not exist.")
        return version

    def integer(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def text(self) -> str:
        data = self._take(self.integer(2))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise GroupBytesMalformed(f"Text at byte {self._at} is not UTF-8.") from error

    def block(self) -> bytes | None:
        size = self.integer(4)
        return None if size == -1 else self._take(size)

    def work(self) -> Work:
        connectors: list[str] = []
        tasks: list[TaskId] = []
        for _ in self._elements():
            connector = self.text()
            for _ in self._elements():
                number = self.integer(4)
                if number == _CONNECTOR_ITSELF:
                    connectors.append(connector)
                else:
                    tasks.append(TaskId(connector, number))
        return Work(tuple(connectors), tuple(tasks))

    def _elements(self) -> Iterable[int]:
        count = self.integer(4)
        if count < -1 or count > len(self._data) - self._at:
            raise GroupBytesMalformed(f"An array at byte {self._at} claims {count} elements.")
        return range(count)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise GroupBytesMalformed(
                f"{size} bytes expected at byte {self._at}, but there are {len(self._data)} in all."
            )
        data = self._data[self._at : end]
        self._at = end
        return data
