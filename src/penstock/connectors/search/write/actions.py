"""Records as actions of bulk requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from penstock.api import DataError, Header
from penstock.api.schema import Schema, Value
from penstock.connectors.common.paths import node, steps_of
from penstock.connectors.keyed.documents import dump, node_writer
from penstock.connectors.search.write.names import key_id, place_id
from penstock.connectors.search.write.plan import DataStreams, Ids, Nulls, Routing, SinkPlan

TIMESTAMP: Final = "@timestamp"
_LONGEST_ID: Final = 512
_EXTERNAL: Final = ',"version":%d,"version_type":"external"'


class MalformedId(DataError):
    """A key that no cluster accepts as a document's id: null, empty, or too long."""


class Action:
    """One document's action: its lines in a bulk request. `is_versioned`: the cluster keeps the
    order of a document's actions by their versions; otherwise, if `is_ordered`, we do."""

    __slots__ = ("id", "is_ordered", "is_versioned", "lines", "row")

    def __init__(
        self, row: int, id: str | None, lines: bytes, *, is_ordered: bool, is_versioned: bool
    ) -> None:
        self.row = row
        self.id = id
        self.lines = lines
        self.is_ordered = is_ordered
        self.is_versioned = is_versioned


class TopicActions:
    """Makes the actions of a topic's records."""

    def __init__(self, plan: SinkPlan, topic: str, resource: str) -> None:
        self._plan = plan
        self._topic = topic
        self._maps = plan.maps(topic)
        self._ids = plan.ids(topic)
        self._index = orjson.dumps(resource).decode()
        self._operation = "create" if plan.streams is not None else "index"
        # An update gives a document the next version, whatever offset it comes from.
        self._versioned = self._ids is Ids.KEY and plan.streams is None and not plan.upsert

    def nodes(self, schema: Schema | None) -> Callable[[Value], Any]:
        """The function that converts a schema's values into documents."""
        return node_writer(schema, mapped=self._maps, compact=self._plan.compact)

    def action(
        self,
        row: int,
        key_schema: Schema | None,
        key: Value,
        value: Value,
        node: Callable[[Value], Any],
        partition: int,
        offset: int,
        timestamp: int | None,
        headers: Sequence[Header],
    ) -> Action | None:
        """The action of a record; None if there is nothing to do. Raises DataError, MalformedId."""
        plan = self._plan
        if value is None:
            return self._delete(row, key_schema, key, partition, offset, headers)
        id = self._id(key_schema, key, partition, offset)
        document = node(value)
        if plan.streams is not None:
            document = stamped(document, plan.streams, timestamp)
        metadata = self._metadata(id, self._routing(key_schema, key, document))
        if plan.upsert:
            lines = (
                f'{{"update":{{{metadata},"retry_on_conflict":{plan.retry_on_conflict}}}}}\n'.encode()
                + b'{"doc_as_upsert":true,"doc":'
                + dump(document)
                + b"}\n"
            )
            return Action(row, id, lines, is_ordered=True, is_versioned=False)
        versioned = self._versioned and not plan.makes_ids
        if versioned:
            metadata += _EXTERNAL % self._version(offset, headers)
        lines = f'{{"{self._operation}":{{{metadata}}}}}\n'.encode() + dump(document) + b"\n"
        return Action(row, id, lines, is_ordered=False, is_versioned=versioned)

    def _delete(
        self,
        row: int,
        key_schema: Schema | None,
        key: Value,
        partition: int,
        offset: int,
        headers: Sequence[Header],
    ) -> Action | None:
        plan = self._plan
        if plan.nulls is Nulls.FAIL:
            raise DataError(
                f"record from topic={self._topic} partition={partition} offset={offset} has a null "
                "value (to ignore future records like this change the configuration property "
                "'behavior.on.null.values' from 'FAIL' to 'IGNORE')"
            )
        if plan.nulls is Nulls.IGNORE or key is None or self._ids is not Ids.KEY:
            return None  # a document without the key's id cannot be found
        id = self._id(key_schema, key, partition, offset)
        metadata = self._metadata(id, self._routing(key_schema, key, None))
        if self._versioned:
            metadata += _EXTERNAL % self._version(offset, headers)
        lines = f'{{"delete":{{{metadata}}}}}\n'.encode()
        return Action(row, id, lines, is_ordered=plan.upsert, is_versioned=self._versioned)

    def _id(self, key_schema: Schema | None, key: Value, partition: int, offset: int) -> str | None:
        if self._plan.makes_ids and not self._plan.upsert:
            return None
        match self._ids:
            case Ids.KEY:
                if key is None:
                    raise MalformedId("Key is used as document id and can not be null.")
                id = key_id(key_schema, key)
            case Ids.PLACE:
                return place_id(self._topic, partition, offset)
            case Ids.NONE:
                return None
        if len(id) > _LONGEST_ID // 4 and (size := len(id.encode(errors="replace"))) > _LONGEST_ID:
            raise MalformedId(f"The key is too long for a document's id: {size} bytes, at most 512")
        if not id:
            raise MalformedId("Key is used as document id and can not be empty.")
        return id

    def _metadata(self, id: str | None, routing: str | None) -> str:
        metadata = f'"_index":{self._index}'
        if id is not None:
            metadata += f',"_id":{dump(id).decode()}'
        if routing is not None:
            metadata += f',"routing":{dump(routing).decode()}'
        return metadata

    def _routing(self, key_schema: Schema | None, key: Value, document: Any) -> str | None:
        match self._plan.routing:
            case Routing.NONE:
                return None
            case Routing.KEY:
                return key_id(key_schema, key)
        routing = node(document, self._plan.routing_path)
        if isinstance(routing, bool) or not isinstance(routing, str | int | float) or routing == "":
            path = "".join(f"/{part}" for part in self._plan.routing_path)
            raise DataError(f"The value has no string or number for the routing at {path}")
        return routing if isinstance(routing, str) else dump(routing).decode()

    def _version(self, offset: int, headers: Sequence[Header]) -> int:
        name = self._plan.version_header
        if not name:
            return offset
        for header in reversed(headers):
            if header.name == name:
                text = header.value
                text = text.decode(errors="replace") if isinstance(text, bytes) else text
                try:
                    if isinstance(text, bool):
                        raise ValueError
                    return int(text)
                except (TypeError, ValueError):
                    raise DataError(
                        f"The header '{name}' (external.version.header) is not an integer"
                    ) from None
        raise DataError(f"The record has no header '{name}' (external.version.header)")


def stamped(document: Any, streams: DataStreams, timestamp: int | None) -> Any:
    """The document with its `@timestamp`. Raises DataError."""
    if not streams.sets_timestamp:
        return document
    if not isinstance(document, dict):
        raise DataError("A document of a data stream must be a JSON object, but the value is not.")
    if streams.fields:
        for name in streams.fields:
            if name in document:
                stamp = document[name]
                text = stamp if isinstance(stamp, str) else dump(stamp).decode()
                return {**document, TIMESTAMP: text}
        return document
    if streams.keeps_timestamp and TIMESTAMP in document:
        return document
    if timestamp is None:
        raise DataError("Record timestamp hasn't been set")
    return {**document, TIMESTAMP: timestamp}


def pointer(text: str) -> tuple[str, ...]:
    """The names of a JSON pointer (RFC 6901). Raises ValueError.

    >>> pointer("/a~1b/0")
    ('a/b', '0')
    """
    if not text:
        return ()
    if not text.startswith("/"):
        raise ValueError(f"A JSON pointer must start with '/': {text}")
    return steps_of(text)
