"""Shards: each is read separately, because the order is stable only within one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api import PenstockError, Primitive
from penstock.connectors.search.client.access import Client, path
from penstock.connectors.search.client.errors import Answered

INDEX: Final = "index"
SHARD: Final = "shard"
_BACKING: Final = re.compile(r"\.ds-(.+?)(?:-\d{4}\.\d{2}\.\d{2})?-\d{6,}")
_NOT_OF_TOPICS: Final = re.compile(r"[^A-Za-z0-9._-]")
_PLACE: Final = "${index}"


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """A shard of an index. An index that is deleted and recreated has another `uuid`."""

    index: str
    number: int
    uuid: str

    def __str__(self) -> str:
        return f"{self.index}/{self.number}/{self.uuid}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard of a task's configuration."""
        index, number, uuid = text.rsplit("/", 2)
        return cls(index, int(number), uuid)

    @property
    def partition(self) -> dict[str, Primitive]:
        """The source partition."""
        return {INDEX: self.index, SHARD: self.number}


def shards_of(client: Client, indices: str) -> list[Shard]:
    """The shards of open indices with these names and patterns, in order."""
    params = {
        "ignore_unavailable": "true",
        "allow_no_indices": "true",
        "expand_wildcards": "open",
        "filter_path": "*.settings.index.uuid,*.settings.index.number_of_shards",
    }
    try:
        answer = client.request("GET", path(indices, "_settings"), params=params)
    except Answered as error:
        if error.http_status == 404:
            return []
        raise
    shards: list[Shard] = []
    for index, entry in answer.items():
        settings = entry["settings"]["index"]
        count = int(settings["number_of_shards"])
        shards += [Shard(index, number, settings["uuid"]) for number in range(count)]
    return sorted(shards)


def topic_of(template: str, index: str) -> str:
    """The topic of an index; that of a data stream's index is the data stream's.

    >>> topic_of("from-${index}", "orders"), topic_of("${index}", ".ds-logs-a-2026.01.31-000001")
    ('from-orders', 'logs-a')
    """
    if _PLACE not in template:
        return template
    backing = _BACKING.fullmatch(index)
    name = backing[1] if backing else index
    return template.replace(_PLACE, _NOT_OF_TOPICS.sub("_", name))


def groups(shards: Sequence[Shard], most: int) -> list[list[Shard]]:
    """The shards of each task; those of an index are spread evenly.

    >>> shards = [Shard("a", number, "u") for number in range(3)]
    >>> [[shard.number for shard in group] for group in groups(shards, 2)]
    [[0, 2], [1]]
    """
    return [list(shards[start::most]) for start in range(min(most, len(shards)))]


def kind_of(client: Client, index: str, field: str) -> str | None:
    """The type of a field in an index's mapping; None if it has none yet."""
    try:
        answer = client.request("GET", path(index, "_mapping", "field", field))
    except Answered as error:
        if error.http_status == 404:
            return None
        raise
    for entry in answer.values():
        for mapping in entry["mappings"].get(field, {}).get("mapping", {}).values():
            return str(mapping.get("type"))
    return None


def demand_sortable(index: str, field: str, kind: str) -> None:
    """Raises PenstockError for a field that cannot be a position."""
    if kind not in INTEGERS | FRACTIONS | DATES:
        raise PenstockError(
            f"The field '{field}' (position.field) is of type {kind} in index '{index}'; it must "
            "be a date or a number"
        )


INTEGERS: Final = frozenset({"long", "integer", "short", "byte", "unsigned_long"})
FRACTIONS: Final = frozenset({"double", "float", "half_float", "scaled_float"})
DATES: Final = frozenset({"date", "date_nanos"})
