"""Reads a stream as a consumer of a group (connectors.md §8).

A reader begins with the entries that were delivered to its consumer and not acknowledged, which a
task before it may not have got to Kafka. Entries are acknowledged when `committed` is called.
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
"""The source partition, which is that of the JVM connector: nothing names the stream."""

_SLICE_MS: Final = 200  # a wait can be ended by a stop of the task so often
_FIRST_SIZE: Final = 1_000
_ACKS: Final = 1_000
_NEW: Final = b">"


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What is read. `start`: the entry after which a new group begins; `acknowledges`: entries are
    acknowledged when they are committed, not when they are read."""

    stream: str
    topic: str
    group: str
    consumer: str
    start: str
    acknowledges: bool
    batch: int
    block_ms: int


class StreamReader(SourceReader):
    """Reads the entries that the group gives to its consumer."""

    idle_ms = 0

    def __init__(self, plan: StreamPlan, access: Access, context: SourceContext) -> None:
        self._plan = plan
        self._context = context
        self._servers = Servers(access, context.wait)
        self._stream = plan.stream.encode()
        stored = context.stored_offset(PARTITION) or {}
        self._start = str(stored.get(OFFSET) or plan.start)
        self._has_group = False
        self._after = b"0-0"  # of what was delivered before; `_NEW`: that is done
        self._last = b""
        self._held: deque[tuple[bytes, list[bytes] | None]] = deque()
        self._size = float(_FIRST_SIZE)
        self._polled: deque[tuple[str, list[bytes]]] = deque()
        self._read: list[bytes] = []  # acknowledged next

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        until = time.monotonic() + wait_ms / 1000
        if self._read:
            self._acknowledge()
        while True:
            if not self._held:
                left_ms = int((until - time.monotonic()) * 1000)
                self._fetch(max_bytes, min(left_ms, _SLICE_MS))
            entries = self._take(max_bytes)
            if entries:
                return self._records(entries)
            if time.monotonic() >= until or not self._context.is_running:
                return None

    def committed(self, offsets: Offsets) -> None:
        reached = {
            str(each.offset[OFFSET]) for each in offsets if each.offset and OFFSET in each.offset
        }
        done = [number for number, (last, _) in enumerate(self._polled) if last in reached]
        for _ in range(done[-1] + 1 if done else 0):
            self._read += self._polled.popleft()[1]
        self._acknowledge()

    def close(self) -> None:
        self._servers.close()

    def _fetch(self, max_bytes: int, wait_ms: int) -> None:
        """Holds the next entries, if there are any, waiting for new ones."""
        try:
            if not self._has_group:
                self._make_group()
            found = self._entries(max_bytes, wait_ms)
            if not found and self._after != _NEW:
                self._after = _NEW
                found = self._entries(max_bytes, wait_ms)
        except Exception as error:
            self._servers.refresh()
            if self._after == _NEW:
                # Entries may have been delivered whose reply was lost.
                self._after = self._last or b"0-0"
            if isinstance(error, Answered) and error.text.startswith("NOGROUP"):
                log.warning("The stream or its group is gone, and made anew: %s", error)
                self._has_group = False
                return
            raise self._error(error, "Cannot read") from error
        if found and self._after != _NEW:
            self._after = found[-1][0]
            gone = [id for id, fields in found if fields is None]
            if gone:  # deleted from the stream meanwhile
                self._read += gone
                found = [each for each in found if each[1] is not None]
        self._held += found

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
        """Has the group exist. After the loss of it, it goes on after the last entry, if the
        stream is the same."""
        call = self._servers.node(self._stream).link.call
        start = self._start.encode()
        if self._last:
            try:
                about = call(b"XINFO", b"STREAM", self._stream)
                newest = dict(zip(about[::2], about[1::2], strict=False))[b"last-generated-id"]
                start = self._last if _order(newest) >= _order(self._last) else b"0-0"
            except Answered:
                start = b"0-0"  # the stream is gone: what it will hold is new
        try:
            call(b"XGROUP", b"CREATE", self._stream, self._plan.group.encode(), start, b"MKSTREAM")
        except Answered as error:
            if not error.text.startswith("BUSYGROUP"):
                raise
        self._has_group = True

    def _take(self, max_bytes: int) -> list[tuple[bytes, list[bytes]]]:
        """The entries of a poll."""
        taken: list[tuple[bytes, list[bytes]]] = []
        size = 0
        while self._held and (not taken or size < max_bytes):
            id, fields = self._held.popleft()
            assert fields is not None, "entries that are gone are not held"
            taken.append((id, fields))
            size += 50 + sum(map(len, fields))
        if taken:
            self._size = max(1.0, 0.5 * self._size + 0.5 * size / len(taken))
        return taken

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
            self._polled.append((keys[-1], [id for id, _ in entries]))
        records = Records.of(
            self._plan.topic,
            values,
            keys=keys,
            schema=VALUE,
            key_schema=STRING,
        )
        return Polled(records, [SourceOffset(PARTITION, {OFFSET: keys[-1]})])

    def _acknowledge(self) -> None:
        """Acknowledges what is stored. What fails is done with the next poll; until then the
        entries stay pending, no more."""
        group = self._plan.group.encode()
        try:
            while self._read:
                some = self._read[:_ACKS]
                self._servers.node(self._stream).link.call(b"XACK", self._stream, group, *some)
                del self._read[:_ACKS]
        except Exception as error:
            self._servers.refresh()
            failure = self._error(error, "Cannot acknowledge entries of")
            if not failure.retriable:
                raise failure from error
            log.warning("%s; tried again with the next poll", failure)

    def _error(self, error: Exception, what: str) -> PenstockError:
        text = f"{what} the stream '{self._plan.stream}' (redis.stream.name)"
        if (
            isinstance(error, Answered)
            and meaning_of(error.text) is Meaning.MOVED
            and not self._servers.is_cluster
        ):
            return not_alone(self._servers.access.text)
        return error_of(error, text)


def _order(id: bytes) -> tuple[int, int]:
    """What entries are ordered by."""
    ms, _, number = id.partition(b"-")
    return int(ms), int(number or 0)


def _texts(words: Sequence[bytes]) -> list[str]:
    try:
        return [word.decode() for word in words]
    except UnicodeDecodeError:
        return [word.decode("utf-8", "replace") for word in words]


def move_group(access: Access, plan: StreamPlan, offset: str | None) -> None:
    """Has the group of a stopped connector go on after an entry; None: from its begin."""
    servers = Servers(access)
    stream, group = plan.stream.encode(), plan.group.encode()
    try:
        link = servers.node(stream).link
        link.call(b"XGROUP", b"SETID", stream, group, (offset or plan.start).encode())
    except Answered as error:
        # Where there is no group yet, it begins after the stored offset.
        if "requires the key" not in error.text and not error.text.startswith("NOGROUP"):
            what = "Cannot move the group (redis.stream.consumer.group)"
            raise error_of(error, what) from error
    except Exception as error:
        raise error_of(error, f"Cannot reach {access.text}") from error
    finally:
        servers.close()
