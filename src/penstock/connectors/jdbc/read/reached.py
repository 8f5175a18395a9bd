"""How far tables were read, according to stored offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.api import Offsets, Primitive, SourceOffset
from penstock.connectors.jdbc.read import offsets
from penstock.connectors.jdbc.read.offsets import Position, TableId
from penstock.connectors.jdbc.read.shapes import Unit
from penstock.connectors.jdbc.settings import source as k


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a unit was read, and the source partition that stores it."""

    partition: Mapping[str, Primitive]
    offset: Mapping[str, Primitive] | None


def reached(units: Sequence[Unit], mode: str, start: Offsets) -> dict[Unit, Reached]:
    """How far units were read, according to the connector's stored offsets."""
    stored_by_partition: dict[tuple[tuple[str, Primitive], ...], SourceOffset] = {
        tuple(sorted(stored.partition.items())): stored for stored in start
    }

    def lookup(partition: Mapping[str, Primitive]) -> SourceOffset | None:
        return stored_by_partition.get(tuple(sorted(partition.items())))

    found: dict[Unit, Reached] = {}
    for unit in units:
        candidates: Sequence[Mapping[str, Primitive]] = [unit.partition]
        if unit.table is not None and unit.parts == 1:
            candidates = unit.table.partitions()
        stored = next((match for match in map(lookup, candidates) if match is not None), None)
        found[unit] = Reached(
            unit.partition if stored is None else stored.partition,
            None if stored is None else stored.offset,
        )
        if unit.table is not None and mode == k.INCREMENTING:
            offset = _furthest(unit.table, found[unit], start)
            found[unit] = replace(found[unit], offset=offset)
    return found


def _furthest(table: TableId, own: Reached, start: Offsets) -> Mapping[str, Primitive] | None:
    """Where reading may resume if the table had a different number of parts before: everything was
    read up to the position of the whole table, or up to the lowest of all its parts."""
    names = {partition["table"] for partition in table.partitions()}
    parts: dict[int, dict[int, int]] = {}
    best = offsets.position(own.offset).incrementing
    for stored in start:
        if stored.partition.get("table") not in names or stored.offset is None:
            continue
        number = offsets.position(stored.offset).incrementing
        if number is None:
            continue
        part = stored.partition.get(offsets.PART)
        if part is None:
            best = number if best is None else max(best, number)
        else:
            index, _, count = str(part).partition("/")
            parts.setdefault(int(count), {})[int(index)] = number
    for count_of_parts, numbers in parts.items():
        if len(numbers) == count_of_parts:
            least = min(numbers.values())
            best = least if best is None else max(best, least)
    if best is None or (own.offset is not None and best == own.offset.get("incrementing")):
        return own.offset
    return Position(best).stored()
