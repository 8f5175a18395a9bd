"""The records that the scenarios move, and the checks of the outcome.

A run counts only if its outcome is right: every record once, unaltered, in the order of its
partition. Outcomes are compared by a digest that needs no sorting: the sum of the lines' hashes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from penstock.testing.topics import Topics

PARTITIONS: Final = 2
FILE_BATCH: Final = 2_000
"""The file source of Kafka Connect holds back lines that follow a full batch at the very end of a
file (kafka-connect.md §11.1), so files must consist of whole batches."""

_BATCH: Final = 20_000  # records generated, produced and consumed at once
_FLUSH: Final = 200_000
_READ: Final = 1 << 24  # bytes
_MASK: Final = (1 << 64) - 1
_QUIET_S: Final = 60.0

Block = Sequence[bytes]
"""Some lines, or values of records, in order."""


class WrongOutcome(Exception):
    """Records were lost, repeated, altered or reordered, so the run does not count."""


_CITIES: Final = ("Graz", "Zürich", "Łódź", "Pau")


def _row(number: int) -> dict[str, object]:
    return {
        "id": number,
        "name": number % 1_000,
        "city": _CITIES[number & 3],
        "score": number % 500,
        "active": "true" if number & 1 else "false",
    }


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Records of one kind: the templates of a value in the topic and of the line that a file sink
    writes, both filled in from the record's number."""

    name: str
    value: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """The template of every field of the line; empty if the line is the unchanged value."""
    shape: tuple[str, str, str] = ("", "", "")
    """The text before, between and after the fields, as Java prints it."""

    @property
    def number(self) -> re.Pattern[bytes]:
        """Matches the number in a line."""
        return re.compile(rb"\bid=(\d+)" if self.fields else rb"^(\d+) ", re.MULTILINE)

    def line(self, order: Sequence[str]) -> str:
        """The template of a line with its fields in this order."""
        if not self.fields:
            return self.value
        before, between, after = self.shape
        shown = between.join(f"{name}={self.fields[name]}" for name in order)
        return before + shown + after

    def order(self, line: bytes) -> tuple[str, ...]:
        """The order of the fields in a line. That of a Java map is not guaranteed, so only the set
        of fields is checked. Raises WrongOutcome if it differs."""
        if not self.fields:
            return ()
        names = tuple(name.decode() for name in re.findall(rb"(\w+)=", line))
        if sorted(names) != sorted(self.fields):
            raise WrongOutcome(f"expected the fields {sorted(self.fields)}, found {line[:200]!r}")
        return names


_TEXT: Final = {
    "id": "%(id)d",
    "name": "user-%(name)d",
    "city": "%(city)s",
    "score": "%(score)d.5",
    "active": "%(active)s",
}
_JSON: Final = (
    '{"id":%(id)d,"name":"user-%(name)d","city":"%(city)s","score":%(score)d.5,"active":%(active)s}'
)
_SCHEMA: Final = (
    '{"type":"struct","fields":['
    '{"type":"int64","optional":false,"field":"id"},'
    '{"type":"string","optional":false,"field":"name"},'
    '{"type":"string","optional":true,"field":"city"},'
    '{"type":"double","optional":false,"field":"score"},'
    '{"type":"boolean","optional":false,"field":"active"}'
    '],"optional":false,"name":"bench.Row"}'
)
_MAP: Final = ("{", ", ", "}")

LINES: Final = Kind("lines", "%(id)08d the quick brown fox jümps over the lazy dog, once more")
JSON: Final = Kind("json", _JSON, _TEXT, _MAP)
SCHEMAS: Final = Kind(
    "schemas", f'{{"schema":{_SCHEMA},"payload":{_JSON}}}', _TEXT, ("Struct{", ",", "}")
)
TRANSFORMED: Final = Kind(
    "json",  # the same topic; `TRANSFORMS` produces these lines from it
    _JSON,
    {
        "id": _TEXT["id"],
        "label": _TEXT["name"],
        "city": "",
        "score": _TEXT["score"],
        "origin": "bench",
    },
    _MAP,
)
TRANSFORMS: Final[Mapping[str, str]] = {
    "transforms": "insert,replace,mask",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.static.field": "origin",
    "transforms.insert.static.value": "bench",
    "transforms.replace.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.replace.exclude": "active",
    "transforms.replace.renames": "name:label",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "city",
}


def whole_batches(records: int) -> int:
    """Rounds the number of records so that each of two files has whole batches."""
    step = 2 * FILE_BATCH
    return max(step, -(-records // step) * step)


def generated(template: str, records: int) -> Iterator[list[bytes]]:
    """The template filled in for the numbers from 0, in blocks."""
    for start in range(0, records, _BATCH):
        stop = min(start + _BATCH, records)
        yield [(template % _row(number)).encode() for number in range(start, stop)]


@cache
def digest(kind: Kind, order: tuple[str, ...], records: int) -> tuple[int, int]:
    """The digest of the lines of `records` records, and their bytes with line ends."""
    total = size = 0
    for block in generated(kind.line(order), records):
        total += sum(map(hash, block))
        size += sum(map(len, block)) + len(block)
    return total & _MASK, size


def line_bytes(kind: Kind, records: int) -> int:
    """The size of a file sink's output for `records` records; the order of fields does not
    matter."""
    return digest(kind, tuple(kind.fields), records)[1]


def check(blocks: Iterable[Block], kind: Kind, records: int, partitions: int) -> None:
    """Raises WrongOutcome unless the lines are those of records 0 … `records` - 1, once each, and
    of every partition (the number modulo `partitions`) in order."""
    records_read = total = 0
    order: tuple[str, ...] | None = None
    last = np.full(partitions, -1, np.int64)
    disorder = ""
    for block in blocks:
        if not block:
            continue
        if order is None:
            order = kind.order(block[0])
        records_read += len(block)
        total += sum(map(hash, block))
        numbers = np.array(kind.number.findall(b"\n".join(block)), dtype=bytes).astype(np.int64)
        for partition in range(partitions):
            own = np.concatenate(
                (last[partition : partition + 1], numbers[numbers % partitions == partition])
            )
            back = np.flatnonzero(np.diff(own) <= 0)
            if len(back) and not disorder:
                disorder = f"; {own[back[0] + 1]} follows {own[back[0]]} in partition {partition}"
            last[partition] = own[-1]
    if records_read != records:
        raise WrongOutcome(f"expected {records:,} records, found {records_read:,}{disorder}")
    if total & _MASK != digest(kind, order or (), records)[0]:
        raise WrongOutcome(f"{records:,} records came out, but not those that went in{disorder}")
    if disorder:
        raise WrongOutcome(f"all records came out, but not in order{disorder}")


def lines_of(file: Path) -> Iterator[Block]:
    """A file's lines without their ends, in blocks."""
    with file.open("rb") as opened:
        while block := opened.readlines(_READ):
            yield [line.removesuffix(b"\n") for line in block]


def values_of(topics: Topics, topic: str) -> Iterator[Block]:
    """The values of a topic of one partition as it is now, in blocks."""
    settings = {
        "bootstrap.servers": topics.bootstrap,
        "group.id": "bench-check",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    end = topics.count(topic)
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        records_read, deadline = 0, time.monotonic() + _QUIET_S
        while records_read < end:
            messages = consumer.consume(_BATCH, 0.5)
            values = [message.value() or b"" for message in messages if message.error() is None]
            if values:
                records_read, deadline = records_read + len(values), time.monotonic() + _QUIET_S
                yield values
            elif time.monotonic() > deadline:
                raise WrongOutcome(
                    f"only {records_read:,} of {end:,} records of '{topic}' could be read"
                )
    finally:
        consumer.close()


def write_file(file: Path, kind: Kind, records: int) -> None:
    """Writes a file with one line per record."""
    with file.open("wb") as out:
        for block in generated(kind.value, records):
            out.write(b"\n".join(block) + b"\n")


def fill_topic(topics: Topics, topic: str, kind: Kind, records: int) -> None:
    """Creates a topic with these records; record n is in partition n modulo PARTITIONS."""
    topics.create(topic, partitions=PARTITIONS)
    settings = {
        "bootstrap.servers": topics.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 50,
        "batch.size": 900_000,
        "queue.buffering.max.messages": 2 * _FLUSH,
        "queue.buffering.max.kbytes": 1 << 20,
        "log_level": 0,
    }
    producer = Producer(settings)
    waiting = 0
    for block in generated(kind.value, records):
        for partition in range(PARTITIONS):
            messages = [{"value": value} for value in islice(block, partition, None, PARTITIONS)]
            queued = producer.produce_batch(topic, messages, partition=partition)
            if queued != len(messages):
                raise WrongOutcome(f"only {queued} of {len(messages)} records could be produced")
        waiting += len(block)
        if waiting >= _FLUSH:
            producer.flush(_QUIET_S)
            waiting = 0
    producer.flush(_QUIET_S)
    stored = topics.ends(topic)
    expected = {part: -(-(records - part) // PARTITIONS) for part in range(PARTITIONS)}
    if stored != expected:
        raise WrongOutcome(f"'{topic}' should hold {expected}, it holds {stored}")
