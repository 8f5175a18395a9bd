"""Messages for records: topics, payloads and properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.api import DataError, Failed, Header, Records
from penstock.connectors.mqtt.client.packets import Item
from penstock.connectors.mqtt.client.properties import NONE, Properties
from penstock.connectors.mqtt.write.plan import SinkPlan
from penstock.connectors.mqtt.write.targets import Target, payload_of

_OWN: Final = "mqtt."
EXPIRY: Final = "mqtt.message.expiry.interval"
FORMAT: Final = "mqtt.payload.format.indicator"
CONTENT_TYPE: Final = "mqtt.content.type"
RESPONSE_TOPIC: Final = "mqtt.response.topic"
CORRELATION: Final = "mqtt.correlation.data"


class Items:
    """Converts records to messages according to a plan; with properties in MQTT 5."""

    def __init__(self, plan: SinkPlan, *, v5: bool) -> None:
        self._plan = plan
        self._v5 = v5
        self._targets: dict[str, Target] = {
            topic: Target(pattern) for topic, pattern in plan.targets.items()
        }
        self._names: dict[str, bytes] = {}  # MQTT topics of Kafka topics with a constant target

    def of(self, records: Records, refused: Failed) -> Sequence[Item | None]:
        """The message for each record; None for records in `refused`."""
        items: list[Item | None] = []
        values = records.values.values
        schemas = records.values.schemas()
        headers = records.headers if self._v5 and self._plan.headers else []
        no_properties = NONE if self._v5 else None
        names = self._names
        for row, value in enumerate(values):
            try:
                topic = names.get(records.topics[row]) or self._topic(records, row)
                payload = value if type(value) is bytes else payload_of(value, schemas[row])
                properties = no_properties
                if headers and headers[row]:
                    properties = _properties(headers[row])
                items.append(Item(topic, payload, properties))
            except DataError as error:
                refused[row] = error
                items.append(None)
        return items

    def _topic(self, records: Records, row: int) -> bytes:
        name = records.topics[row]
        target = self._targets.get(name)
        if target is None:
            if self._plan.target is None:
                raise DataError(f"No statement of connect.mqtt.kcql selects from topic '{name}'")
            target = self._targets[name] = Target(self._plan.target)
        topic = target.of(records, row).encode()
        if target.is_by_topic:
            self._names[name] = topic
        return topic


def _properties(headers: Sequence[Header]) -> bytes:
    properties: dict[str, Any] = {}
    user: list[tuple[str, str]] = []
    try:
        for header in headers:
            name, value = header.name, header.value
            if value is None:
                continue
            if not name.startswith(_OWN):
                user.append((name, _text(value)))
            elif name in _OURS:
                member, kind = _OURS[name]
                properties[member] = kind(value)
        return Properties(**properties, user=tuple(user)).packed()
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"The headers of the record cannot be MQTT properties: {error}") from error


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else _text(value).encode()


_OURS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    EXPIRY: ("expiry_s", int),
    FORMAT: ("payload_format", int),
    CONTENT_TYPE: ("content_type", _text),
    RESPONSE_TOPIC: ("response_topic", _text),
    CORRELATION: ("correlation_data", _bytes),
}
