"""The plan of a sink task."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from penstock.api import Backoff, DataError
from penstock.api.schema import Type, Value, text_of
from penstock.connectors.http.templates import Row, Template, json_text

BodyOf = Callable[[Row], bytes]
"""Makes a record's part of a body. Raises DataError."""


class Nulls(Enum):
    """The handling of records without a value."""

    FAIL = "fail"
    IGNORE = "ignore"
    LOG = "log"
    DELETE = "delete"
    SEND = "send"


class Behavior(Enum):
    """The handling of records that the server refuses."""

    FAIL = "fail"
    IGNORE = "ignore"
    LOG = "log"


class Order(Enum):
    """Which requests are sent one after the other."""

    PARTITION = "partition"
    KEY = "key"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Batch:
    """Several records in one request. `max_bytes` 0: no limit."""

    max_records: int
    prefix: bytes = b""
    suffix: bytes = b""
    separator: bytes = b","
    max_bytes: int = 0
    key: Template | None = None  # records with equal results go together
    tidy: bool = False  # remove commas before closing brackets
    divides: bool = False  # halve a refused batch to find the record at fault


@dataclass(frozen=True, slots=True)
class Retry:
    """When to repeat a request: after these statuses, or without a response."""

    statuses: frozenset[int]
    most: int
    backoff: Backoff

    def pause_ms(self, tries: int, chance: random.Random) -> int:
        """The delay after a number of tries.

        >>> retry = Retry(frozenset(), 5, Backoff(100, 60_000))
        >>> [retry.pause_ms(tries, random.Random()) for tries in (1, 2, 3, 30)]
        [100, 200, 400, 60000]
        """
        return int(self.backoff.delay_ms(tries, chance))


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """How records become requests."""

    method: str
    url: Template
    body: BodyOf
    retry: Retry
    headers: tuple[tuple[Template, Template], ...] = ()
    batch: Batch | None = None
    nulls: Nulls = Nulls.FAIL
    behavior: Behavior = Behavior.FAIL
    order: Order = Order.PARTITION
    in_flight: int = 10
    copied_headers: frozenset[str] | None = frozenset()  # None: all
    replacements: tuple[Callable[[str, Row], str], ...] = ()
    max_bytes: int = 0  # of a body; 0: no limit
    max_bytes_setting: str = "penstock.http.max.request.bytes"
    linger_ms: int = 10


def java_body(row: Row) -> bytes:
    """A value as Java prints it; strings and bytes unchanged."""
    value = row.value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    return text_of(row.value_schema)(value).encode()


def json_body(row: Row) -> bytes:
    """A value as JSON; bytes are JSON already."""
    value = row.value
    if isinstance(value, bytes) and row.value_schema is None:
        return value
    return json_text(row.value_schema, value)


def text_or_json(*, numeric: bool) -> BodyOf:
    """Strings unchanged, structs and maps as JSON; refuses other values."""

    def body(row: Row) -> bytes:
        value, schema = row.value, row.value_schema
        if isinstance(value, str):
            return value.encode()
        if schema is None and not isinstance(value, dict | list):
            raise DataError(_ODD)
        if schema is not None and schema.type not in (Type.STRUCT, Type.MAP, Type.ARRAY):
            raise DataError(_ODD)
        return json_text(schema, value, numeric=numeric)

    return body


_ODD = "Record value must be String, Schema Struct or HashMap"


def template_body(template: Template) -> BodyOf:
    """The result of a template."""
    return lambda row: template.render(row).encode()


def key_of(value: Value) -> object:
    """A hashable form of a key, for `Order.KEY`."""
    return value if isinstance(value, str | int | bytes | float) else repr(value)
