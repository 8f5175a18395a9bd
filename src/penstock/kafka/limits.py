"""The largest record that a producer sends, by Java's rules.

librdkafka's limits start at 1,000 bytes. Smaller ones are applied to each record, before it is
queued.

    >>> limits = ProducerLimits(request_bytes=300, buffer_bytes=1 << 25)
    >>> limits.refusal(b"key", b"v" * 250, []) is None
    False
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Headers = Sequence[tuple[str, bytes | None]]

_BATCH_BYTES: Final = 61
_RECORD_BYTES: Final = 21  # at most, without key, value and headers


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    """The largest record that Java's producer sends, where librdkafka's own limits are wider."""

    request_bytes: int
    buffer_bytes: int

    def refusal(self, key: bytes | None, value: bytes | None, headers: Headers) -> str | None:
        """Java's message for a record that is too large; None for one that is not."""
        size = record_bytes(key, value, headers)
        if size > self.request_bytes:
            return too_large(size, self.request_bytes)
        if size > self.buffer_bytes:
            return (
                f"The message is {size} bytes when serialized which is larger than the total "
                "memory buffer you have configured with the buffer.memory configuration."
            )
        return None


def too_large(size: int, limit: int) -> str:
    """Java's message for a record above `max.request.size`."""
    return (
        f"The message is {size} bytes when serialized which is larger than {limit}, which is the "
        "value of the max.request.size configuration."
    )


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The size of a record alone in a batch, as Java's producer estimates it: at most that."""
    size = _BATCH_BYTES + _RECORD_BYTES + _sized(key) + _sized(value) + _varint(len(headers))
    return size + sum(_sized(name.encode()) + _sized(content) for name, content in headers)


def _sized(part: bytes | None) -> int:
    return 1 if part is None else _varint(len(part)) + len(part)


def _varint(number: int) -> int:
    """How many bytes a number takes in Kafka's zigzag encoding."""
    return max(1, -(-(2 * number).bit_length() // 7))
