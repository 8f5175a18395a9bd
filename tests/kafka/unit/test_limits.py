"""The largest record that a producer sends, as Java's producer computes it."""

from __future__ import annotations

import pytest

from penstock.kafka.clients import limits
from penstock.kafka.limits import ProducerLimits, record_bytes, too_large

# Captured from Kafka 4.2.0 (AbstractRecords.estimateSizeInBytesUpperBound): the lengths of key and
# value, the number of headers, and the size.
SIZES: list[tuple[int | None, int | None, int, int]] = [
    (None, None, 0, 85),
    (None, None, 1, 162),
    (None, None, 2, 166),
    (None, 1000000, 0, 1000087),
    (None, 1000000, 1, 1000164),
    (None, 1000000, 2, 1000168),
    (0, 1000000, 0, 1000087),
    (0, 1000000, 1, 1000164),
    (0, 1000000, 2, 1000168),
    (5, None, 0, 90),
    (5, None, 1, 167),
    (5, None, 2, 171),
    (5, 0, 0, 90),
    (5, 0, 1, 167),
    (5, 0, 2, 171),
    (5, 1, 0, 91),
    (5, 1, 1, 168),
    (5, 1, 2, 172),
    (5, 63, 0, 153),
    (5, 63, 1, 230),
    (5, 63, 2, 234),
    (5, 64, 0, 155),
    (5, 64, 1, 232),
    (5, 64, 2, 236),
    (5, 200, 0, 291),
    (5, 200, 1, 368),
    (5, 200, 2, 372),
    (5, 8191, 0, 8282),
    (5, 8191, 1, 8359),
    (5, 8191, 2, 8363),
    (5, 8192, 0, 8284),
    (5, 8192, 1, 8361),
    (5, 8192, 2, 8365),
    (5, 1000000, 0, 1000092),
    (5, 1000000, 1, 1000169),
    (5, 1000000, 2, 1000173),
]
HEADERS: list[tuple[str, bytes | None]] = [("name", bytes(70)), ("ü", None)]


@pytest.mark.parametrize(("key", "value", "headers", "size"), SIZES)
def test_a_records_size_is_what_java_estimates(
    key: int | None, value: int | None, headers: int, size: int
) -> None:
    parts = [None if length is None else bytes(length) for length in (key, value)]
    assert record_bytes(parts[0], parts[1], HEADERS[:headers]) == size


def test_a_record_is_refused_in_javas_words() -> None:
    small = ProducerLimits(request_bytes=300, buffer_bytes=1 << 20)
    assert small.refusal(None, bytes(214), []) is None
    assert small.refusal(None, bytes(215), []) == too_large(301, 300)
    assert too_large(301, 300) == (
        "The message is 301 bytes when serialized which is larger than 300, which is the value of "
        "the max.request.size configuration."
    )
    assert ProducerLimits(1 << 20, 300).refusal(None, bytes(215), []) == (
        "The message is 301 bytes when serialized which is larger than the total memory buffer you "
        "have configured with the buffer.memory configuration."
    )


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({}, None),
        ({"max.request.size": "1000"}, None),
        ({"max.request.size": "999"}, ProducerLimits(999, (1 << 31) - 1)),
        ({"max.request.size": "1000000", "buffer.memory": "33554432"}, None),
        (
            {"max.request.size": "1000000", "buffer.memory": "5000"},
            ProducerLimits(1_000_000, 5_000),
        ),
    ],
)
def test_each_record_is_checked_only_where_the_producers_own_limits_are_too_wide(
    java: dict[str, str], expected: ProducerLimits | None
) -> None:
    assert limits(java) == expected
