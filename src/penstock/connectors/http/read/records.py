"""Records of responses, with offsets like castorm's connector."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from hashlib import md5
from typing import Any, Final, NamedTuple

import orjson

from penstock.api import DataError, PenstockError, Records
from penstock.api.schema import INT64, STRING, Field, Schema, Type
from penstock.connectors.common.paths import MISSING
from penstock.connectors.http.client.messages import Answer
from penstock.connectors.http.pointers import Pointer, plain
from penstock.connectors.http.read.dates import instant, millis, moment_of
from penstock.connectors.http.read.plan import Direction, Filter, ListPlan, SourcePlan

_PACKAGE: Final = "com.github.castorm.kafka.connect.http"


def _documented(schema: Schema, doc: str, *, optional: bool) -> Schema:
    return Schema(schema.type, optional=optional, doc=doc)


KEY: Final = Schema(
    Type.STRUCT,
    name=f"{_PACKAGE}.Key",
    doc="Message Key",
    fields=(Field("key", 0, _documented(STRING, "HTTP Record Key", optional=True)),),
)
VALUE: Final = Schema(
    Type.STRUCT,
    name=f"{_PACKAGE}.Value",
    doc="Message Value",
    fields=(
        Field("value", 0, _documented(STRING, "HTTP Record Value", optional=False)),
        Field("key", 1, _documented(STRING, "HTTP Record Key", optional=True)),
        Field("timestamp", 2, _documented(INT64, "HTTP Record Timestamp", optional=True)),
    ),
)


class Unreadable(PenstockError):
    """A response without records at the configured places."""


class Item(NamedTuple):
    """One record. `timestamp` in ms."""

    key: str
    value: str
    timestamp: int
    offset: Mapping[str, str]


def items_of(plan: ListPlan, answer: Answer, document: Any, now_ms: int) -> list[Item]:
    """The records of a response, in the order of its list. Raises Unreadable."""
    try:
        nodes = plan.items.of(document)
    except DataError as error:
        raise Unreadable(
            f"{error}, the response of {answer.url}: check http.response.list.pointer"
        ) from None
    if nodes is None:
        return []
    if not isinstance(nodes, list):
        nodes = [nodes]
    return [_item(plan, node, now_ms) for node in nodes]


def document_of(answer: Answer) -> Any:
    """The JSON of a response. Raises Unreadable."""
    if not answer.body.strip():
        raise Unreadable(f"The response of {answer.url} is empty, not JSON")
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise Unreadable(
            f"The response of {answer.url} is not JSON ({error}): {answer.text[:100]!r}"
        ) from None


def _item(plan: ListPlan, node: Any, now_ms: int) -> Item:
    offset = {name: plain(_at(pointer, node, _OFFSET)) for name, pointer in plan.offsets.items()}
    body = _at(plan.record, node, "http.response.record.pointer")
    value = orjson.dumps(body).decode() if isinstance(body, dict) else plain(body)
    if isinstance(body, list):
        value = orjson.dumps(body).decode()
    key_parts = [
        plain(_at(pointer, node, "http.response.record.key.pointer")) for pointer in plan.keys
    ]
    key = "+".join(part for part in key_parts if part) or offset.get("key") or _named(value)
    text = offset.get("timestamp")
    if plan.timestamp is not None:
        text = plain(_at(plan.timestamp, node, "http.response.record.timestamp.pointer"))
    full_offset = {**offset, "key": key}
    timestamp = now_ms
    if text is not None:
        try:
            moment = plan.parse_time(text)
        except ValueError as error:
            raise Unreadable(
                f"A record has an invalid timestamp: {error}. Check "
                "http.response.record.timestamp.parser and its pattern."
            ) from None
        full_offset["timestamp"] = instant(moment)
        timestamp = millis(moment)
    return Item(key, value, timestamp, full_offset)


_OFFSET: Final = "http.response.record.offset.pointer"


def _at(pointer: Pointer, node: Any, setting: str) -> Any:
    target = pointer.find(node)
    if target is MISSING:
        start = orjson.dumps(node).decode()[:200]
        raise Unreadable(
            f"A record has no value at '{pointer.text}': check {setting}. The record: {start}"
        )
    return target


def _named(text: str) -> str:
    """Java's `UUID.nameUUIDFromBytes`."""
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def ordered(direction: Direction, items: Sequence[Item]) -> list[Item]:
    """The records, oldest first."""
    if direction is Direction.IMPLICIT:
        is_descending = len(items) > 1 and items[0].timestamp > items[-1].timestamp
        direction = Direction.DESC if is_descending else Direction.ASC
    return list(items) if direction is Direction.ASC else list(reversed(items))


class Fresh:
    """Filters the records after an offset, in one round of requests. A record without a timestamp
    always passes the filters by time, as in castorm's connector."""

    def __init__(self, kind: Filter, offset: Mapping[str, Any]) -> None:
        self._kind = kind
        self._offset = dict(offset)
        self._after = 0
        self._is_after = False
        if text := self._offset.get("timestamp"):
            try:
                self._after = millis(moment_of(str(text)))
            except ValueError:
                raise Unreadable(
                    f"The timestamp of the offset, '{text}', is invalid: check http.offset.initial"
                ) from None

    def of(self, items: Sequence[Item]) -> Iterator[Item]:
        """The new records."""
        for item in items:
            if self._kind is Filter.NONE or item.timestamp > self._after:
                yield item
            elif self._kind is Filter.OFFSET:
                if self._is_after:
                    yield item
                elif item.offset == self._offset:
                    self._is_after = True


def records_of(plan: SourcePlan, items: Sequence[Item]) -> Records:
    """The items as a batch."""
    times = [item.timestamp for item in items]
    if not plan.structs:
        return Records.of(
            plan.topic,
            [item.value for item in items],
            keys=[item.key for item in items],
            schema=STRING,
            key_schema=STRING,
            timestamps=times,
        )
    return Records.of(
        plan.topic,
        [{"value": item.value, "key": item.key, "timestamp": item.timestamp} for item in items],
        keys=[{"key": item.key} for item in items],
        schema=VALUE,
        key_schema=KEY,
        timestamps=times,
    )
