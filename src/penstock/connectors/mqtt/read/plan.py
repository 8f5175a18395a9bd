"""What a source does with messages, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.connectors.mqtt.client.topics import matches

_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9._-]")
_MOST_NAME: Final = 249


class Shape(Enum):
    """Whose records: what their key is, and their headers."""

    CONFLUENT = "confluent"  # the key is the MQTT topic
    LENSES = "lenses"  # the key is a struct of topic and message id


class Payload(Enum):
    """What the value of a record is."""

    BYTES = "bytes"
    JSON = "json"  # a struct, whose schema is that of the document


@dataclass(frozen=True, slots=True)
class Route:
    """Where the messages of a filter go."""

    topic_filter: str
    kafka_topic: str
    """`$`: the MQTT topic, with `_` for `/` and for what a Kafka topic cannot have."""
    payload: Payload = Payload.BYTES
    key_fields: tuple[tuple[str, ...], ...] = ()
    """Paths into a JSON document whose values are the key."""
    key_delimiter: str = "."
    pattern: str | None = None
    """A regular expression that MQTT topics of this route match, instead of the filter."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a source does."""

    routes: tuple[Route, ...]
    qos: int
    shape: Shape
    headers: bool
    skips_malformed: bool = False
    """A document that is not JSON is left out, and not an error."""

    def route_of(self, topic: str) -> Route:
        """The route of a message: the first that matches its topic."""
        for route in self.routes:
            if route.pattern is not None:
                if re.fullmatch(route.pattern, topic):
                    return route
            elif matches(route.topic_filter, topic):
                return route
        return self.routes[0]  # a filter that has been removed from a session that goes on


def kafka_topic(route: Route, topic: str) -> str:
    """The Kafka topic of a message.

    >>> kafka_topic(Route("#", "$"), "/plant/1//temperature in °C")
    'plant_1_temperature_in__C'
    """
    if route.kafka_topic != "$":
        return route.kafka_topic
    name = "_".join(level for level in topic.removeprefix("/").split("/") if level)
    name = _NO_NAME.sub("_", name)[:_MOST_NAME]
    return name if name not in ("", ".", "..") else "_"
