"""Messages as records.

Like Confluent's: the key is the topic, the value the payload, with headers. Like Lenses': the key
is a struct of topic and message id, or consists of fields of the document. Properties of MQTT 5
become headers, too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import orjson

from penstock.api import Column, DataError, Header, Records
from penstock.api.schema import (
    BOOLEAN,
    BYTES,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Value,
    struct,
)
from penstock.connectors.common.paths import MISSING, member
from penstock.connectors.mqtt.client.packets import DUP, RETAIN, Message
from penstock.connectors.mqtt.client.properties import read
from penstock.connectors.mqtt.read.json import schema_and_value
from penstock.connectors.mqtt.read.plan import Payload, Route, Shape, SourcePlan, kafka_topic

log = logging.getLogger(__name__)

MESSAGE_ID: Final = "mqtt.message.id"
QOS: Final = "mqtt.qos"
RETAINED: Final = "mqtt.retained"
DUPLICATE: Final = "mqtt.duplicate"

EXPIRY: Final = "mqtt.message.expiry.interval"
FORMAT: Final = "mqtt.payload.format.indicator"
CONTENT_TYPE: Final = "mqtt.content.type"
RESPONSE_TOPIC: Final = "mqtt.response.topic"
CORRELATION: Final = "mqtt.correlation.data"

MESSAGE_KEY: Final = struct({"topic": STRING, "id": STRING})
_KNOWN: Final = 10_000


class Converting:
    """Converts messages to records according to a plan."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        self._topics: dict[bytes, tuple[str, str, Route]] = {}
        self._simple = plan.shape is Shape.CONFLUENT and all(
            route.payload is Payload.BYTES for route in plan.routes
        )

    def records(self, messages: Sequence[Message]) -> Records:
        """The records of these messages, in order. Raises DataError for a document that is not
        JSON, unless the plan skips these."""
        topics = self._topics
        named: list[tuple[str, str, Route]] = []
        for message in messages:
            names = topics.get(message.topic)
            if names is None:
                names = self._names(message.topic)
            named.append(names)
        if not self._simple:
            return self._shaped(messages, named)
        count = len(messages)
        return Records(
            topics=[names[1] for names in named],
            partitions=[None] * count,
            timestamps=[None] * count,
            keys=Column.of([names[0] for names in named], STRING),
            values=Column.of([message.payload for message in messages], BYTES),
            headers=self._headers(messages),
        )

    def _names(self, topic: bytes) -> tuple[str, str, Route]:
        """The MQTT topic as a string, its Kafka topic and its route; cached."""
        text = topic.decode("utf-8", "replace")
        route = self._plan.route_of(text)
        names = text, kafka_topic(route, text), route
        if len(self._topics) >= _KNOWN:
            self._topics.clear()
        self._topics[topic] = names
        return names

    def _shaped(
        self, messages: Sequence[Message], named: Sequence[tuple[str, str, Route]]
    ) -> Records:
        rows: list[int] = []
        keys: list[Value] = []
        key_schemas: list[Schema | None] = []
        values: list[Value] = []
        schemas: list[Schema | None] = []
        for row, (message, (topic, _, route)) in enumerate(zip(messages, named, strict=True)):
            try:
                schema, value = BYTES, message.payload
                if route.payload is Payload.JSON:
                    schema, value = _document(topic, message)
                key_schema, key = self._key(topic, message, route)
            except DataError as error:
                if not self._plan.skips_malformed:
                    raise
                log.warning("Skipping a message: %s", error)
                continue
            rows.append(row)
            keys.append(key)
            key_schemas.append(key_schema)
            values.append(value)
            schemas.append(schema)
        converted = [messages[row] for row in rows]
        return Records(
            topics=[named[row][1] for row in rows],
            partitions=[None] * len(rows),
            timestamps=[None] * len(rows),
            keys=Column.gather(keys, key_schemas),
            values=Column.gather(values, schemas),
            headers=self._headers(converted),
        )

    def _key(self, topic: str, message: Message, route: Route) -> tuple[Schema, Value]:
        if route.key_fields:
            document = _parsed(topic, message)
            parts = [_at(document, path) for path in route.key_fields]
            return STRING, route.key_delimiter.join(parts)
        if self._plan.shape is Shape.LENSES:
            return MESSAGE_KEY, {"topic": topic, "id": str(message.mid)}
        return STRING, topic

    def _headers(self, messages: Sequence[Message]) -> list[Sequence[Header]]:
        if self._plan.shape is Shape.CONFLUENT and self._plan.headers:
            headers: list[Sequence[Header]] = [
                (_id_header(message.mid), *_flag_headers(message.flags)) for message in messages
            ]
            for row, message in enumerate(messages):
                if message.properties:
                    headers[row] = (*headers[row], *_property_headers(message.properties))
            return headers
        if self._plan.headers and any(message.properties for message in messages):
            return [_property_headers(message.properties) for message in messages]
        return []


@lru_cache(1 << 16)
def _id_header(mid: int) -> Header:
    return Header(MESSAGE_ID, mid, INT32)


@lru_cache
def _flag_headers(flags: int) -> tuple[Header, ...]:
    return (
        Header(QOS, flags >> 1 & 3, INT32),
        Header(RETAINED, bool(flags & RETAIN), BOOLEAN),
        Header(DUPLICATE, bool(flags & DUP), BOOLEAN),
    )


@lru_cache(1024)
def _property_headers(packed: bytes) -> tuple[Header, ...]:
    if not packed:
        return ()
    properties = read(packed)
    headers: list[Header] = []
    if properties.payload_format is not None:
        headers.append(Header(FORMAT, properties.payload_format, INT32))
    if properties.expiry_s is not None:
        headers.append(Header(EXPIRY, properties.expiry_s, INT64))
    if properties.content_type is not None:
        headers.append(Header(CONTENT_TYPE, properties.content_type, STRING))
    if properties.response_topic is not None:
        headers.append(Header(RESPONSE_TOPIC, properties.response_topic, STRING))
    if properties.correlation_data is not None:
        headers.append(Header(CORRELATION, properties.correlation_data, BYTES))
    headers += [Header(name, value, STRING) for name, value in properties.user]
    return tuple(headers)


def _parsed(topic: str, message: Message) -> object:
    try:
        return orjson.loads(message.payload)
    except orjson.JSONDecodeError as error:
        raise DataError(
            f"A message of the topic '{topic}' is not JSON ({error}); its converter in "
            "connect.mqtt.kcql needs JSON"
        ) from error


def _document(topic: str, message: Message) -> tuple[Schema, Value]:
    document = _parsed(topic, message)
    if document is None:
        return OPTIONAL_STRING, None
    try:
        return schema_and_value(document)
    except DataError as error:
        raise DataError(f"A message of the topic '{topic}' cannot be converted: {error}") from error


def _at(document: object, path: tuple[str, ...]) -> str:
    """The text of a document's field."""
    value = member(document, path)
    if value is MISSING:
        raise DataError(f"The document has no field '{'.'.join(path)}' (WITHKEY)")
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise DataError(f"The field '{'.'.join(path)}' is not a string or number (WITHKEY)")
