"""The plan of a source task."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.connectors.mqtt.client.topics import matches

_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9._-]")
_MAX_NAME: Final = 249


class Shape(Enum):
    """The connector whose keys and headers records have."""

    CONFLUENT = "confluent"  # the key is the MQTT topic
    LENSES = "lenses"  # the key is a struct of topic and message id


class Payload(Enum):
    """The form of record values."""

    BYTES = "bytes"
    JSON = "json"  # a struct with the schema of the document


@dataclass(frozen=True, slots=True)
class Route:
    """The topic and form of records from the messages of a filter."""

    topic_filter: str
    kafka_topic: str
    """`$`: the MQTT topic, with `_` for `/` and for characters not allowed in Kafka topics."""
    payload: Payload = Payload.BYTES
    key_fields: tuple[tuple[str, ...], ...] = ()
    """Paths to the fields of a JSON document that form the key."""
    key_delimiter: str = "."
    pattern: str | None = None
    """A regular expression for the MQTT topics of this route, instead of the filter."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The plan of a source task."""

    routes: tuple[Route, ...]
    qos: int
    shape: Shape
    headers: bool
    skips_malformed: bool = False
    """Skip documents that are not JSON, instead of failing."""

    def route_of(self, topic: str) -> Route:
        """The first route that matches a topic."""
        for route in self.routes:
            if route.pattern is not None:
                if re.fullmatch(route.pattern, topic):
                    return route
            elif matches(route.topic_filter, topic):
                return route
        return self.routes[0]  # from a removed filter of a resumed session


def kafka_topic(route: Route, topic: str) -> str:
    """The Kafka topic of a message.

    >>> kafka_topic(Route("#", "$"), "/plant/1//temperature in °C")
    'plant_1_temperature_in__C'
    """
    if route.kafka_topic != "$":
        return route.kafka_topic
    name = "_".join(level for level in topic.removeprefix("/").split("/") if level)
    name = _NO_NAME.sub("_", name)[:_MAX_NAME]
    return name if name not in ("", ".", "..") else "_"
