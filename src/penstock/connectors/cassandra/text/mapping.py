"""DataStax's mapping language, from fields of records to columns (connectors.md §7.1).

    mapping = entry { "," entry }
    entry   = column "=" field
    field   = ("key" | "value" | "header") [ "." name ] | "now()" | a name in double quotes

>>> parse_mapping('id=key.id, "Name"=value.name, c=now()')[1]
Entry(column='Name', part='value', field='name')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.connectors.cassandra.text.names import unquoted

TTL: Final = "message_internal_ttl"
TIMESTAMP: Final = "message_internal_timestamp"
"""The bind variables for time to live and write time."""

_VARIABLES: Final = {"__ttl": TTL, "__timestamp": TIMESTAMP}
_TOKEN: Final = re.compile(r'\s*(?:("(?:[^"]|"")+")|([A-Za-z0-9_]+)|([=,.()]))')
_PARTS: Final = ("key", "value", "header")
NOW: Final = "now()"


class MappingInvalid(ValueError):
    """A mapping that cannot be parsed; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A column and its source: a field of a part of the record (empty `field`: the whole part), or
    the result of `now()` (empty `part`)."""

    column: str
    part: str
    field: str

    @property
    def shown(self) -> str:
        """The field in mapping syntax."""
        if not self.part:
            return self.field
        return f"{self.part}.{self.field}" if self.field else self.part


def parse_mapping(text: str) -> tuple[Entry, ...]:
    """Parses a mapping. Raises MappingInvalid with every problem."""
    tokens = _tokens(text)
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    at = 0
    while True:
        column, at = _column(tokens, at, text)
        at = _expect(tokens, at, "=", text)
        field, at = _field(tokens, at, text)
        if column in entries:
            problems.append(f"Mapping already defined for column '{column}'")
        entry = _entry(column, field)
        if entry is None:
            problems.append(
                f"Invalid field name '{field}': field names must be 'key', 'value', or start with "
                "'key.' or 'value.' or 'header.', or be one of supported functions: '[now()]'"
            )
        else:
            entries[column] = entry
        if at == len(tokens):
            break
        at = _expect(tokens, at, ",", text)
    if problems:
        raise MappingInvalid("; ".join(problems))
    return tuple(entries.values())


def _entry(column: str, field: str) -> Entry | None:
    if field == NOW:
        return Entry(column, "", NOW)
    part, dot, name = field.partition(".")
    if part not in _PARTS or (dot and not name) or (part == "header" and not name):
        return None
    return Entry(column, part, name)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """The tokens, and whether each is quoted."""
    tokens: list[tuple[str, bool]] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise MappingInvalid(
                f"Cannot be parsed at {at + 1}: unexpected '{text[at:].strip()[:20]}'"
            )
        tokens.append((match[0].strip(), match[1] is not None))
        at = match.end()
    if not tokens:
        raise MappingInvalid("the mapping is empty; write column=value.field, …")
    return tokens


def _column(tokens: list[tuple[str, bool]], at: int, text: str) -> tuple[str, int]:
    token, is_quoted = _token(tokens, at, text)
    if not is_quoted and token in "=,.()":
        raise MappingInvalid(f"Expected a column, got '{token}'")
    if is_quoted:
        return unquoted(token), at + 1
    return _VARIABLES.get(token, token), at + 1


def _field(tokens: list[tuple[str, bool]], at: int, text: str) -> tuple[str, int]:
    token, is_quoted = _token(tokens, at, text)
    if is_quoted:
        field, at = unquoted(token), at + 1
        return field, at
    if token in "=,.()":
        raise MappingInvalid(f"Expected a field, got '{token}'")
    field, at = token, at + 1
    while at < len(tokens) and not tokens[at][1] and tokens[at][0] not in "=,":
        field += tokens[at][0]
        at += 1
    return field, at


def _expect(tokens: list[tuple[str, bool]], at: int, symbol: str, text: str) -> int:
    token, is_quoted = _token(tokens, at, text)
    if is_quoted or token != symbol:
        raise MappingInvalid(f"Expected '{symbol}', got '{token}'")
    return at + 1


def _token(tokens: list[tuple[str, bool]], at: int, text: str) -> tuple[str, bool]:
    if at >= len(tokens):
        raise MappingInvalid(f"Unexpected end after '{text.strip()[-20:]}'")
    return tokens[at]
