"""Records as a sink's writer gets them after a transform that changes their topics.

>>> from penstock.api import TopicPartition
>>> from penstock.testing.conformance import records_of
>>> records = routed(records_of([1, 2]), ["a", "b"], TopicPartition("orders", 3))
>>> records.topics, records.original(1)
(['a', 'b'], TopicPartition(topic='orders', partition=3))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.api import Records, TopicPartition
from penstock.testing.contexts import ConsumedFrom


def routed(records: Records, topics: Sequence[str], place: TopicPartition) -> Records:
    """Records that were consumed from a topic partition and have these topics now: one after the
    other, by their offsets."""
    return replace(
        records,
        topics=[topics[offset % len(topics)] for offset in records.offsets],
        partitions=[place.partition] * len(records),
        source=ConsumedFrom(place),
    )
