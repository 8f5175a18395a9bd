"""Strings with placeholders for fields of records: `${topic}` in the syntax of Confluent's
connector, `{{value.id}}` in that of Lenses'.

| placeholder | result |
|---|---|
| `topic`, `partition`, `offset`, `timestamp` | the record's position and time (ms since 1970) |
| `key`, `key.a.b` | the key, or a field of it |
| `value`, `value.a.b` | the value, or a field of it |
| `header.name` | the last header of that name |
| `a.b` in `${…}` | a field of the value |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from penstock.api import DataError, Header
from penstock.api.schema import Schema, Type, Value, text_of, timestamp_to_ms
from penstock.connectors.files.formats.json import line, plain_of

_ROOTS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "header")
_BARE: Final = ("topic", "partition", "offset", "timestamp")


class Row(NamedTuple):
    """A record, the input of templates."""

    topic: str
    partition: int | None
    offset: int
    timestamp: int | None
    key: Value
    key_schema: Schema | None
    value: Value
    value_schema: Schema | None
    headers: Sequence[Header] = ()


class Style(Enum):
    """The syntax of placeholders."""

    DOLLAR = r"\$\{([^}]*)(\}?)"
    BRACES = r"\{\{([^}]*)(\}?\}?)"


Get = Callable[[Row], str | None]


@dataclass(frozen=True, slots=True)
class _Part:
    literal: str
    get: Get | None = None
    name: str = ""
    safe: str | None = None  # not None: percent-encode all but these characters


class Template:
    """A string with placeholders.

    >>> Template("/${topic}/${key}", Style.DOLLAR).render(Row("t", 0, 1, None, "k", None, 1, None))
    '/t/k'
    """

    __slots__ = ("_constant", "_null", "_parts", "text")

    def __init__(
        self,
        text: str,
        style: Style,
        *,
        url: bool = False,
        null: str | None = None,
    ) -> None:
        """`url`: percent-encode values, but not slashes in the path. `null`: the text for a null;
        None: an error. Raises ValueError for an invalid template."""
        self.text = text
        self._null = null
        parts: list[_Part] = []
        position = 0
        for match in re.finditer(style.value, text):
            literal = text[position : match.start()]
            if literal:
                parts.append(_Part(literal))
            closed = "}" if style is Style.DOLLAR else "}}"
            if match[2] != closed:
                raise ValueError(f"a placeholder is not closed: '{match[0][:40]}'")
            name = match[1].strip()
            safe = None
            if url and match.start() > 0:
                safe = "" if "?" in text[: match.start()] else "/"
            parts.append(_Part("", _getter(name, style), name, safe))
            position = match.end()
        if text[position:]:
            parts.append(_Part(text[position:]))
        self._parts = tuple(parts)
        self._constant = text if all(part.get is None for part in parts) else None

    @property
    def constant(self) -> str | None:
        """The text if there are no placeholders, else None."""
        return self._constant

    def render(self, row: Row) -> str:
        """The text for a record. Raises DataError if a field is missing or null."""
        if self._constant is not None:
            return self._constant
        texts: list[str] = []
        for part in self._parts:
            if part.get is None:
                texts.append(part.literal)
                continue
            text = part.get(row)
            if text is None:
                if self._null is None:
                    raise DataError(f"the record has no value for '{part.name}' of a template")
                text = self._null
            texts.append(text if part.safe is None else quote(text, safe=part.safe))
        return "".join(texts)


def _getter(name: str, style: Style) -> Get:
    root, _, rest = name.partition(".")
    path = tuple(rest.split(".")) if rest else ()
    if not name or (not all(path) and rest):
        raise ValueError(f"the placeholder '{name}' is invalid")
    if root not in _ROOTS:
        if style is Style.BRACES:
            raise ValueError(f"the placeholder '{name}' must begin with one of {', '.join(_ROOTS)}")
        path = tuple(name.split("."))
        return lambda row: _field(row.value, row.value_schema, path)
    if root in _BARE:
        if path:
            raise ValueError(f"'{root}' has no fields: '{name}'")
        return {
            "topic": lambda row: row.topic,
            "partition": lambda row: str(row.partition or 0),
            "offset": lambda row: str(row.offset),
            "timestamp": lambda row: None if row.timestamp is None else str(row.timestamp),
        }[root]
    if root == "header":
        if not rest:
            raise ValueError("'header' needs a name: 'header.NAME'")
        return lambda row: _header(row.headers, rest)
    if root == "key":
        return lambda row: _field(row.key, row.key_schema, path)
    return lambda row: _field(row.value, row.value_schema, path)


def _header(headers: Sequence[Header], name: str) -> str | None:
    for header in reversed(headers):
        if header.name == name:
            return value_text(header.schema, header.value)
    raise DataError(f"the record has no header '{name}'")


def _field(value: Value, schema: Schema | None, path: Sequence[str]) -> str | None:
    node: Any = value
    for index, step in enumerate(path):
        if isinstance(node, Mapping) and step in node:
            node = node[step]
        elif schema is not None and schema.type is Type.STRUCT and _has(schema, step):
            node = None
        else:
            raise DataError(f"the record has no field '{'.'.join(path[: index + 1])}'")
        schema = _inner(schema, step)
        if node is None:
            return None
    return value_text(schema, node)


def _has(schema: Schema, name: str) -> bool:
    return any(field.name == name for field in schema.fields)


def _inner(schema: Schema | None, step: str) -> Schema | None:
    if schema is None:
        return None
    if schema.type is Type.MAP:
        return schema.value_schema
    return next((field.schema for field in schema.fields if field.name == step), None)


def value_text(schema: Schema | None, value: Value) -> str | None:
    """The text of a value: strings unchanged, objects and arrays as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict | list):
        return json_text(schema, value).decode()
    if schema is not None and schema.name and schema.name.endswith(".Timestamp"):
        return str(timestamp_to_ms(value))
    return text_of(schema)(value)


def json_text(schema: Schema | None, value: Value, *, numeric: bool = False) -> bytes:
    """A value as JSON, like Kafka Connect's JsonConverter without schemas. Raises DataError."""
    make = plain_of(schema, numeric)
    try:
        return line(value if make is None else make(value)).rstrip(b"\n")
    except (TypeError, ValueError) as error:
        raise DataError(f"The value cannot be written as JSON: {error}") from error
