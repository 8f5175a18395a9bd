"""The offsets of a source task: those that its worker has stored, and those to be stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

from penstock.api import Offsets, Primitive, SourceOffset
from penstock.cluster.offset_records import OffsetRecord, encode_offset, partition_key
from penstock.flow.messages import Begin, OffsetsStored, PartsRead, StoreOffsets
from penstock.flow.traces import Carried
from penstock.ids import TaskId


class SourceOffsets:
    """Follows each offset from its acknowledgement by Kafka to the worker's answer. `turn` guards
    all of it: the host's thread requests the storing, and passes the answers."""

    def __init__(self, turn: threading.Condition, id: int, task: TaskId) -> None:
        self._turn = turn
        self._id = id
        self._task = task
        self._stored: dict[bytes, SourceOffset] = {}  # by partition key
        self._keys: Mapping[bytes, bytes] = {}
        self._acknowledged: dict[bytes, SourceOffset] = {}
        self._storing: dict[int, Offsets] = {}  # by ticket
        self._requested_at = 0.0
        self._tickets = 0
        self._answers: list[OffsetsStored | PartsRead] = []
        self.commit_requested = False
        """By the connector."""
        self.at_once = False
        """Whether acknowledged offsets must not wait for the host's next round."""

    def begin(self, begin: Begin) -> None:
        """The offsets that the task starts at."""
        with self._turn:
            self._keys = begin.keys
            self._stored = {partition_key(offset.partition): offset for offset in begin.offsets}

    def stored(self) -> Offsets:
        with self._turn:
            return list(self._stored.values())

    def stored_offset(self, partition: Mapping[str, Primitive]) -> SourceOffset | None:
        with self._turn:
            return self._stored.get(partition_key(partition))

    def request_commit(self) -> None:
        with self._turn:
            self.commit_requested = True

    def take_commit_request(self) -> bool:
        with self._turn:
            requested, self.commit_requested = self.commit_requested, False
            return requested

    def acknowledge(self, offsets: Mapping[bytes, SourceOffset], *, at_once: bool = False) -> None:
        """Kafka has all records before these offsets."""
        with self._turn:
            self._acknowledged |= offsets
            self.at_once = self.at_once or at_once

    def due(self) -> list[StoreOffsets]:
        """The request to store acknowledged offsets; empty while an earlier request is open."""
        with self._turn:
            if not self._acknowledged or self._storing:
                return []
            offsets = list(self._acknowledged.values())
            self._acknowledged = {}
            self.at_once = False
            self._requested_at = time.monotonic()
            ticket = self.new_ticket()
            self._storing[ticket] = offsets
            return [StoreOffsets(self._id, ticket, offsets)]

    @property
    def storing(self) -> bool:
        """Whether a request to store offsets is open."""
        return bool(self._storing)

    def storing_for_s(self) -> float:
        """For how long a request to store offsets has been open."""
        return time.monotonic() - self._requested_at if self._storing else 0.0

    def new_ticket(self) -> int:
        """The number of a request."""
        with self._turn:
            self._tickets += 1
            return self._tickets

    def answer(self, answer: OffsetsStored | PartsRead) -> None:
        with self._turn:
            self._answers.append(answer)
            self._turn.notify_all()

    @property
    def answered(self) -> bool:
        """Whether there are answers to take."""
        return bool(self._answers)

    def is_answered(self, ticket: int) -> bool:
        return any(answer.ticket == ticket for answer in self._answers)

    def take_answers(self) -> Iterator[Offsets]:
        """The offsets that are stored now. Raises what a request has failed with."""
        with self._turn:
            answers, self._answers = self._answers, []
        for answer in answers:
            with self._turn:
                offsets = self._storing.pop(answer.ticket, ())
            if answer.error is not None:
                raise Carried(answer.error)
            yield offsets

    def committed(self, offsets: Offsets) -> None:
        """Offsets are stored."""
        with self._turn:
            for offset in offsets:
                self._stored[partition_key(offset.partition)] = offset

    def encoded(self, offset: SourceOffset) -> tuple[bytes, bytes | None]:
        """Key and value of an offset's record."""
        record = OffsetRecord(self._task.connector, offset.partition, offset.offset)
        return encode_offset(record, self._keys.get(partition_key(offset.partition)))
