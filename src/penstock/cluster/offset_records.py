"""Bytes ⇄ value for the records of an offset topic (kafka-connect.md §4.5), by the rules of
`records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cluster import jackson
from penstock.cluster.jackson import dump
from penstock.cluster.records import SkippedRecord, load
from penstock.data.java_maps import hash_map_order
from penstock.errors import DataError

Primitive = None | bool | int | float | str
"""The values allowed in an offset or a source partition (kafka-connect.md §4.5)."""

Members = Mapping[str, Primitive]
"""A source partition or a source offset."""


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """How far a source connector has read a source partition; None forgets it."""

    connector: str
    partition: Members
    offset: Members | None


def encode_offset(
    record: OffsetRecord, stored_key: bytes | None = None
) -> tuple[bytes, bytes | None]:
    """The key and value of an offset topic record, members in the order of a Java `HashMap`.

    `stored_key` is the key under which the partition was read before: keys compare as bytes, so a
    known partition keeps its bytes. Raises `DataError` for values that may not be stored.
    """
    key = stored_key or dump([record.connector, _java_members(record.partition)])
    return key, None if record.offset is None else dump(_java_members(record.offset))


def decode_offset(key: bytes | None, value: bytes | None) -> OffsetRecord | SkippedRecord:
    """The record behind an offset topic key and value, or why it has no effect."""
    if key is None:
        return SkippedRecord("the record has no key")
    parts = load(key)
    if isinstance(parts, SkippedRecord):
        return SkippedRecord("the key is not JSON")
    if not isinstance(parts, list) or len(parts) != 2:
        return SkippedRecord("the key is not an array of a connector name and a partition")
    connector: object = parts[0]
    partition = _members(parts[1])
    if not isinstance(connector, str) or partition is None:
        return SkippedRecord(
            "the key is not an array of a connector name and a flat partition object"
        )
    content = load(value)
    if isinstance(content, SkippedRecord):
        return content
    if content is None:
        return OffsetRecord(connector, partition, None)
    offset = _members(content)
    if offset is None:
        return SkippedRecord("the offset is not a flat JSON object")
    return OffsetRecord(connector, partition, offset)


def partition_key(partition: Members) -> bytes:
    """Equal for equal partitions in any order of their members; 1, 1.0 and true differ."""
    return dump({name: _java_value(name, partition[name]) for name in sorted(partition)})


def _java_members(members: Members) -> dict[str, object]:
    for name in members:
        if not isinstance(name, str):
            raise DataError("Offsets may only use String keys")
    return {name: _java_value(name, members[name]) for name in hash_map_order(members)}


def _java_value(name: str, value: object) -> object:
    match value:
        case None | bool() | str():
            return value
        case int():
            if not -(2**63) <= value < 2**63:
                raise DataError(f"Offsets may hold 64-bit integers, but field {name} has {value}")
            return value
        case float():
            return jackson.double(value)
        case _:
            raise DataError(
                "Offsets may only contain primitive types as values, "
                f"but field {name} contains {type(value).__name__}"
            )


def _members(value: object) -> Members | None:
    if not isinstance(value, dict):
        return None
    if any(isinstance(member, (dict, list)) for member in value.values()):
        return None
    return value
