"""Reads a stream as a consumer of a group (connectors.md §8).

A reader begins with the unacknowledged entries of its consumer, which an earlier task may not have
produced to Kafka. `committed` acknowledges entries.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import (
    Offsets,
    PenstockError,
    Polled,
    Records,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.schema import STRING, map_of, struct
from penstock.connectors.redis.client.access import Access
from penstock.connectors.redis.client.errors import (
    Answered,
    Meaning,
    error_of,
    meaning_of,
    not_alone,
)
from penstock.connectors.redis.client.servers import Servers

log = logging.getLogger(__name__)

VALUE: Final = struct(
    {"id": STRING, "body": map_of(STRING, STRING), "stream": STRING},
    name="com.redis.kafka.connect.stream.Value",
)
OFFSET: Final = "offset"
PARTITION: Final[dict[str, str]] = {}
"""The source partition, as in the JVM connector: it does not name the stream."""

_SLICE_MS: Final = 200  # how often a wait checks for a stop of the task
_FIRST_SIZE: Final = 1_000
_ACKS: Final = 1_000
_NEW: Final = b">"


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The plan of a task. `start`: the entry after which a new group begins; `acknowledges`:
    acknowledge entries when committed, not when read."""

    stream: str
    topic: str
    group: str
    consumer: str
    start: str
    acknowledges: bool
    batch: int
    block_ms: int


class StreamReader(SourceReader):
    """Reads the entries that the group delivers to its consumer."""

    idle_ms = 0

    def __init__(self, plan: StreamPlan, access: Access, context: SourceContext) -> None:
        self._plan = plan
        self._context = context
        self._servers = Servers(access, context.wait)
        self._stream = plan.stream.encode()
        stored = context.stored_offset(PARTITION) or {}
        self._start = str(stored.get(OFFSET) or plan.start)
        self._has_group = False
        self._after = b"0-0"  # the position in entries delivered earlier; `_NEW`: after them
        self._last = b""
        self._held: deque[tuple[bytes, list[bytes] | None]] = deque()
        self._size = float(_FIRST_SIZE)
        self._polled: deque[bytes] = deque()  # ids that are not committed
        self._to_acknowledge: list[bytes] = []  # ids to acknowledge next

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        deadline = time.monotonic() + wait_ms / 1000
        if self._to_acknowledge:
            self._acknowledge()
        while True:
            if not self._held:
                remaining_ms = int((deadline - time.monotonic()) * 1000)
                self._fetch(max_bytes, min(remaining_ms, _SLICE_MS))
            entries = self._take(max_bytes)
            if entries:
                return self._records(entries)
            if time.monotonic() >= deadline or not self._context.is_running:
                return None

    def committed(self, offsets: Offsets) -> None:
        reached = {
            str(source_offset.offset[OFFSET]).encode()
            for source_offset in offsets
            if source_offset.offset and OFFSET in source_offset.offset
        }
        done = [number for number, id in enumerate(self._polled) if id in reached]
        for _ in range(done[-1] + 1 if done else 0):
            self._to_acknowledge.append(self._polled.popleft())
        self._acknowledge()

    def close(self) -> None:
        self._servers.close()

    def _fetch(self, max_bytes: int, wait_ms: int) -> None:
        """Fetches the next entries, if any; waits for new ones."""
        try:
            if not self._has_group:
                self._make_group()
            entries = self._entries(max_bytes, wait_ms)
            if not entries and self._after != _NEW:
                self._after = _NEW
                entries = self._entries(max_bytes, wait_ms)
        except Exception as error:
            self._servers.refresh()
            if self._after == _NEW:
                # The reply with delivered entries may be lost.
                self._after = self._last or b"0-0"
            if isinstance(error, Answered) and error.text.startswith("NOGROUP"):
                log.warning("The stream or its group was deleted, recreating the group: %s", error)
                self._has_group = False
                return
            raise self._error(error, "Cannot read") from error
        if entries and self._after != _NEW:
            self._after = entries[-1][0]
            deleted = [id for id, fields in entries if fields is None]
            if deleted:  # from the stream, since their delivery
                self._to_acknowledge += deleted
                entries = [entry for entry in entries if entry[1] is not None]
        self._held += entries

    def _entries(self, max_bytes: int, wait_ms: int) -> list[tuple[bytes, list[bytes] | None]]:
        plan = self._plan
        count = max(1, min(plan.batch, int(max_bytes / self._size)))
        words = [b"XREADGROUP", b"GROUP", plan.group.encode(), plan.consumer.encode()]
        words += [b"COUNT", b"%d" % count]
        wait_ms = min(wait_ms, plan.block_ms) if plan.block_ms else wait_ms
        if wait_ms > 0 and self._after == _NEW:
            words += [b"BLOCK", b"%d" % wait_ms]
        if not plan.acknowledges:
            words.append(b"NOACK")
        words += [b"STREAMS", self._stream, self._after]
        reply: Any = self._servers.node(self._stream).link.call(*words)
        return [(id, fields) for id, fields in reply[0][1]] if reply else []

    def _make_group(self) -> None:
        """Creates the group if it is missing. A lost group resumes after the last entry, if the
        stream is the same."""
        call = self._servers.node(self._stream).link.call
        start = self._start.encode()
        if self._last:
            try:
                info = call(b"XINFO", b"STREAM", self._stream)
                newest = dict(zip(info[::2], info[1::2], strict=False))[b"last-generated-id"]
                start = self._last if _order(newest) >= _order(self._last) else b"0-0"
            except Answered:
                start = b"0-0"  # the stream is gone: all future entries are new
        try:
            call(b"XGROUP", b"CREATE", self._stream, self._plan.group.encode(), start, b"MKSTREAM")
        except Answered as error:
            if not error.text.startswith("BUSYGROUP"):
                raise
        self._has_group = True

    def _take(self, max_bytes: int) -> list[tuple[bytes, list[bytes]]]:
        """Removes and returns the entries of a poll."""
        entries: list[tuple[bytes, list[bytes]]] = []
        size = 0
        while self._held and (not entries or size < max_bytes):
            id, fields = self._held.popleft()
            assert fields is not None, "deleted entries are not held"
            entries.append((id, fields))
            size += 50 + sum(map(len, fields))
        if entries:
            self._size = max(1.0, 0.5 * self._size + 0.5 * size / len(entries))
        return entries

    def _records(self, entries: Sequence[tuple[bytes, list[bytes]]]) -> Polled:
        stream = self._plan.stream
        keys = [id.decode() for id, _ in entries]
        values = []
        for key, (_, fields) in zip(keys, entries, strict=True):
            texts = _texts(fields)
            body = dict(zip(texts[::2], texts[1::2], strict=True))
            values.append({"id": key, "body": body, "stream": stream})
        self._last = entries[-1][0]
        if self._plan.acknowledges:
            self._polled += [id for id, _ in entries]
        records = Records.of(
            self._plan.topic,
            values,
            keys=keys,
            schema=VALUE,
            key_schema=STRING,
        )
        return Polled(
            records,
            [SourceOffset(PARTITION, {OFFSET: keys[-1]})],
            offsets_before=lambda count: [SourceOffset(PARTITION, {OFFSET: keys[count - 1]})],
        )

    def _acknowledge(self) -> None:
        """Acknowledges stored entries. After a failure the next poll retries; until then the
        entries stay pending."""
        group = self._plan.group.encode()
        try:
            while self._to_acknowledge:
                ids = self._to_acknowledge[:_ACKS]
                self._servers.node(self._stream).link.call(b"XACK", self._stream, group, *ids)
                del self._to_acknowledge[:_ACKS]
        except Exception as error:
            self._servers.refresh()
            failure = self._error(error, "Cannot acknowledge entries of")
            if not failure.retriable:
                raise failure from error
            log.warning("%s; retrying with the next poll", failure)

    def _error(self, error: Exception, action: str) -> PenstockError:
        text = f"{action} the stream '{self._plan.stream}' (redis.stream.name)"
        if (
            isinstance(error, Answered)
            and meaning_of(error.text) is Meaning.MOVED
            and not self._servers.is_cluster
        ):
            return not_alone(self._servers.access.text)
        return error_of(error, text)


def _order(id: bytes) -> tuple[int, int]:
    """The sort key of an entry id."""
    ms, _, number = id.partition(b"-")
    return int(ms), int(number or 0)


def _texts(words: Sequence[bytes]) -> list[str]:
    try:
        return [word.decode() for word in words]
    except UnicodeDecodeError:
        return [word.decode("utf-8", "replace") for word in words]


def move_group(access: Access, plan: StreamPlan, offset: str | None) -> None:
    """Moves the group of a stopped connector to an entry; None: to the configured start."""
    servers = Servers(access)
    stream, group = plan.stream.encode(), plan.group.encode()
    try:
        link = servers.node(stream).link
        link.call(b"XGROUP", b"SETID", stream, group, (offset or plan.start).encode())
    except Answered as error:
        # A missing group will begin after the stored offset.
        if "requires the key" not in error.text and not error.text.startswith("NOGROUP"):
            action = "Cannot move the group (redis.stream.consumer.group)"
            raise error_of(error, action) from error
    except Exception as error:
        raise error_of(error, f"Cannot reach {access.text}") from error
    finally:
        servers.close()
