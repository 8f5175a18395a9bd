"""What the name of a file says of its records.

A `Names` tells for each path the topic and the partition that its records go to, and its lane.
Files of one lane are read by one task, in the order of their names; so records of a Kafka partition
that was stored come back in their order. None is for a file that is not to be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32


@dataclass(frozen=True, slots=True)
class Target:
    """Where the records of a file go."""

    topic: str
    partition: int | None
    """None: the producer's partitioner decides."""
    lane: str
    tombstones: bool = False
    """Whether the file has keys, of records without a value."""


Names = Callable[[str], Target | None]

_DECIMAL: Final = re.compile(r"\d+\Z", re.ASCII)


def share_of(lane: str, tasks: int) -> int:
    """The task of a lane, by its number: the same in all processes.

    >>> share_of("orders+3", 1), share_of("orders+3", 4) == share_of("orders+3", 4)
    (0, True)
    """
    return crc32(lane.encode("utf-8", "surrogatepass")) % tasks


@dataclass(frozen=True, slots=True)
class Restored:
    """The names that Confluent's sinks give, `<root>/<topic>/<folder>/<topic>+<partition>+<offset>`
    with an ending (connectors.md §13).

    >>> restored = Restored("topics/", "/", "+")
    >>> restored("topics/a/partition=1/a+1+0000000000.json")
    Target(topic='a', partition=1, lane='a+1', tombstones=False)
    >>> restored("topics/a/partition=1/a+1+0000000000.keys.avro") is None
    True
    """

    root: str
    delimiter: str
    between: str
    tombstones: str | None = None
    """The folder that has tombstones, if they are restored."""
    pattern: re.Pattern[str] | None = None
    """What paths have to match."""

    def __call__(self, path: str) -> Target | None:
        if not path.startswith(self.root):
            return None
        parts = path[len(self.root) :].split(self.delimiter)
        if len(parts) < 2 or (self.pattern is not None and not self.pattern.fullmatch(path)):
            return None
        topic, name = parts[0], parts[-1]
        tombstones = self.tombstones is not None and parts[1:-1] == [self.tombstones]
        start = f"{topic}{self.between}"
        if not name.startswith(start):
            return None
        partition, between, rest = name[len(start) :].partition(self.between)
        offset, _, ending = rest.partition(".")
        if not (between and _DECIMAL.match(partition) and _DECIMAL.match(offset)):
            return None
        if tombstones != ending.startswith("keys.") or ending.startswith("headers."):
            return None  # they are read with the file of their values
        return Target(topic, int(partition), f"{topic}{self.between}{partition}", tombstones)

    def stem(self, path: str) -> str:
        """The path without what it ends with, from the dot on."""
        begin = path.rfind(self.between)
        end = path.find(".", begin)
        return path if end < 0 else path[:end]

    def start(self, path: str) -> int:
        """The offset of the first record."""
        stem = self.stem(path)
        return int(stem[stem.rfind(self.between) + len(self.between) :])


@dataclass(frozen=True, slots=True)
class Patterned:
    """Files whose path, from `start` on, matches a pattern, for the topic of the pattern. A
    pattern has to match all of it, or a part of it if `anywhere`."""

    start: int
    patterns: Sequence[tuple[str, re.Pattern[str]]]
    anywhere: bool = False

    def __call__(self, path: str) -> Target | None:
        name = path[self.start :]
        for topic, pattern in self.patterns:
            if pattern.search(name) if self.anywhere else pattern.fullmatch(name):
                return Target(topic, None, path)
        return None


@dataclass(frozen=True, slots=True)
class Named:
    """Files by the last part of their path, all of which the pattern matches."""

    topic: str
    pattern: re.Pattern[str]
    hidden: bool = False
    """Whether names that begin with a dot count."""

    def __call__(self, path: str) -> Target | None:
        name = path[path.rfind("/") + 1 :]
        if not self.hidden and name.startswith("."):
            return None
        if not self.pattern.fullmatch(name):
            return None
        return Target(self.topic, None, path)


@dataclass(frozen=True, slots=True)
class Templated:
    """The names of `file.name.template`, a regular expression with `{{topic}}`, `{{partition}}`,
    `{{start_offset}}` and `{{timestamp}}`, somewhere in the key behind the prefix.

    `topic` comes before that in the name. With `by_partition` all files of a partition are of one
    task; a name without one is left out then.

    >>> templated = Templated.of("{{topic}}/{{partition}}/{{start_offset}}", "", None)
    >>> templated("customer-topic/1/1734445664111.txt").partition
    1
    """

    start: int
    pattern: re.Pattern[str]
    topic: str | None
    by_partition: bool

    @classmethod
    def of(
        cls, template: str, prefix: str, topic: str | None, *, by_partition: bool = False
    ) -> Templated:
        """Raises re.error for a template that is no regular expression."""
        text = template
        for variable, group in _VARIABLES.items():
            first, found, rest = text.partition(f"{{{{{variable}}}}}")
            if found:
                text = first + group + rest.replace(found, _AGAIN[variable])
        return cls(len(prefix), re.compile(text), topic, by_partition)

    def __call__(self, path: str) -> Target | None:
        match = self.pattern.search(path, self.start)
        if match is None:
            return None
        groups: Mapping[str, str | None] = match.groupdict()
        topic = self.topic or groups.get("topic")
        given = groups.get("partition")
        partition = int(given) if given else None
        if not topic or (self.by_partition and partition is None):
            return None
        lane = f"{topic}/{partition}" if self.by_partition else path
        return Target(topic, partition, lane)


_VARIABLES: Final[Mapping[str, str]] = {
    "topic": r"(?P<topic>[a-zA-Z0-9\-_.]+)",
    "partition": r"(?P<partition>[0-9]+)",
    "start_offset": r"(?P<start_offset>[0-9]+)",
    "timestamp": r"(?:[0-9]+)",
}
_AGAIN: Final[Mapping[str, str]] = {
    "topic": r"(?P=topic)",
    "partition": r"(?P=partition)",
    "start_offset": r"(?P=start_offset)",
    "timestamp": r"(?:[0-9]+)",
}
