"""What the name of a file tells about its records.

A `Names` maps each path to the topic and the partition of its records, and to its lane. One task
reads the files of a lane, in the order of their names; so the records of a stored Kafka partition
are restored in their order. None means that a file is not read.
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
    """Whether the file has the keys of tombstones."""


Names = Callable[[str], Target | None]

_DECIMAL: Final = re.compile(r"\d+\Z", re.ASCII)


def share_of(lane: str, tasks: int) -> int:
    """The number of the task of a lane: the same in all processes.

    >>> share_of("orders+3", 1), share_of("orders+3", 4) == share_of("orders+3", 4)
    (0, True)
    """
    return crc32(lane.encode("utf-8", "surrogatepass")) % tasks


@dataclass(frozen=True, slots=True)
class Restored:
    """The names that Confluent's sinks give, `<root>/<topic>/<folder>/<topic>+<partition>+<offset>`
    with an extension (connectors.md §13).

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
    """The folder of tombstones, if they are restored."""
    pattern: re.Pattern[str] | None = None
    """A pattern that paths must match."""

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
            return None  # read together with the file of their values
        return Target(topic, int(partition), f"{topic}{self.between}{partition}", tombstones)

    def stem(self, path: str) -> str:
        """The path without its extension, from the dot on."""
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
    pattern must match all of it, or a part of it if `anywhere`."""

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
    """Files whose name, the last part of the path, matches the pattern entirely."""

    topic: str
    pattern: re.Pattern[str]
    hidden: bool = False
    """Whether to include names that begin with a dot."""

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
    `{{start_offset}}` and `{{timestamp}}`, anywhere in the key after the prefix.

    `topic` overrides the topic in the name. With `by_partition` one task reads all files of a
    partition; names without a partition are then ignored.

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
        """Raises re.error for a template that is not a regular expression."""
        text = template
        for variable, group in _VARIABLES.items():
            before, placeholder, after = text.partition(f"{{{{{variable}}}}}")
            if placeholder:
                text = before + group + after.replace(placeholder, _REPEATED[variable])
        return cls(len(prefix), re.compile(text), topic, by_partition)

    def __call__(self, path: str) -> Target | None:
        match = self.pattern.search(path, self.start)
        if match is None:
            return None
        groups: Mapping[str, str | None] = match.groupdict()
        topic = self.topic or groups.get("topic")
        number = groups.get("partition")
        partition = int(number) if number else None
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
_REPEATED: Final[Mapping[str, str]] = {
    "topic": r"(?P=topic)",
    "partition": r"(?P=partition)",
    "start_offset": r"(?P=start_offset)",
    "timestamp": r"(?:[0-9]+)",
}
