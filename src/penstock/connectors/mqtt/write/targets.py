"""The MQTT topics of records, and their payloads.

>>> from penstock.api import Records
>>> records = Records.of("plant", ["21.5"], keys=["a"])
>>> Target("${topic}/${key}/temperature").of(records, 0)
'plant/a/temperature'
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from typing import Any, Final

import orjson

from penstock.api import DataError, Records
from penstock.api.schema import text
from penstock.connectors.common.paths import MISSING, member
from penstock.connectors.mqtt.client.topics import topic_problem

_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_SIMPLE: Final = ("topic", "partition", "key")


def pattern_problem(pattern: str | None) -> str | None:
    """The problem of a topic pattern, or None."""
    if not pattern:
        return "it is empty"
    for name in _PLACEHOLDER.findall(pattern):
        if name in _SIMPLE or (name.startswith(("header.", "value.")) and name.partition(".")[2]):
            continue
        return (
            f"${{{name}}} is unknown; use ${{topic}}, ${{partition}}, ${{key}}, ${{header.NAME}} "
            f"and ${{value.FIELD}}"
        )
    return topic_problem(_PLACEHOLDER.sub("x", pattern))


class Target:
    """Makes the topics of records from a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._placeholders = _PLACEHOLDER.findall(pattern)

    @property
    def is_by_topic(self) -> bool:
        """Whether all records of a Kafka topic have the same MQTT topic."""
        return all(placeholder == "topic" for placeholder in self._placeholders)

    def of(self, records: Records, row: int) -> str:
        """The topic of a record. Raises DataError if the record lacks a value for the pattern, or
        if the topic cannot be published to."""
        values = {
            placeholder: self._value(placeholder, records, row)
            for placeholder in self._placeholders
        }
        topic = _PLACEHOLDER.sub(lambda match: values[match.group(1)], self._pattern)
        if problem := topic_problem(topic):
            raise DataError(
                f"The record has the MQTT topic '{topic[:200]}' ({self._pattern}): {problem}"
            )
        return topic

    def _value(self, placeholder: str, records: Records, row: int) -> str:
        match placeholder:
            case "topic":
                return records.topics[row]
            case "partition":
                return str(records.partitions[row])
            case "key":
                value: Any = records.keys.values[row]
            case _:
                kind, _, name = placeholder.partition(".")
                value = _header(records, row, name) if kind == "header" else None
                if kind == "value":
                    value = member(records.values.values[row], name.split("."))
        return _text(value, placeholder)


def _header(records: Records, row: int, name: str) -> Any:
    for header in records.headers[row] if records.headers else ():
        if header.name == name:
            return header.value
    return None


def _text(value: Any, placeholder: str) -> str:
    if value is None or value is MISSING:
        raise DataError(f"The record has no value for ${{{placeholder}}} of its MQTT topic")
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise DataError(f"${{{placeholder}}} of the record is not UTF-8") from None
    raise DataError(f"${{{placeholder}}} of the record is not a string or number")


def payload_of(value: Any, schema: Any) -> bytes:
    """The payload of a value: bytes and strings unchanged; maps, structs and lists as JSON; empty
    for null; other values as text."""
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case None:
            return b""
        case dict() | list():
            try:
                return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)
            except orjson.JSONEncodeError as error:
                raise DataError(f"The value cannot be written as JSON: {error}") from error
    return text(schema, value).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"a value of type {type(value).__name__}")
