"""The REST server's settings whose texts have a grammar: listeners and response headers.

Sources: kafka-connect.md §1.1, §2; KIP-577.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConfigInvalid

_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")

PROTOCOLS: Final = ("http", "https")


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the REST server listens. An empty host is every interface, port 0 any free port."""

    protocol: str  # http or https
    host: str  # without brackets
    port: int


def parse_listener(text: str) -> Listener:
    """One entry of `listeners`; raises ConfigInvalid with Kafka's words."""
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ConfigInvalid(["Listener doesn't have the right format (protocol://hostname:port)."])
    protocol = match[1].lower()
    if protocol not in PROTOCOLS:
        raise ConfigInvalid(['Listener protocol must be either "http" or "https".'])
    return Listener(protocol, match[2], int(match[3]))


def bad_listener(values: Sequence[str] | None) -> str | None:
    """The problem of the first invalid entry of a list of listeners."""
    for text in values or ():
        if not text:
            return "Empty URL found when parsing listeners list."
        try:
            parse_listener(text)
        except ConfigInvalid as problem:
            return str(problem)
    return None


def bad_listeners(values: Sequence[str] | None) -> str | None:
    """The same for `listeners`, which must not be empty."""
    if not values:
        return "at least one URL is expected, ex: http://localhost:8080,https://localhost:8443."
    return bad_listener(values)


HEADER_ACTIONS: Final = ("set", "add", "setDate", "addDate")

_HEADER_RULE: Final = re.compile(r'\s*("[^"]*"|[^,]*)\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """An entry of `response.http.headers.config`: the change of a header in each response."""

    action: str  # one of HEADER_ACTIONS
    name: str
    value: str


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """The rules of `response.http.headers.config`; raises ConfigInvalid with Kafka's words.

    A rule that contains a comma is written in double quotes.
    """
    texts = (match[1].strip() for match in _HEADER_RULE.finditer(text))
    rules = (text.removeprefix('"').removesuffix('"').strip() for text in texts)
    return tuple(_header_rule(rule) for rule in rules if rule)


def _header_rule(text: str) -> HeaderRule:
    action, blank, header = text.partition(" ")
    if not blank:
        raise ConfigInvalid(
            [
                f"Invalid format of header config '{text}'."
                " Expected: '[action] [header name]:[header value]'"
            ]
        )
    if action not in HEADER_ACTIONS:
        actions = ", ".join(HEADER_ACTIONS)
        raise ConfigInvalid(
            [f"Invalid header config action: '{action}'. Expected one of [{actions}]"]
        )
    name, _, value = header.strip().partition(":")
    if not value:
        raise ConfigInvalid(
            [
                f"Invalid format of header name and header value pair '{header.strip()}'."
                " Expected: '[header name]:[header value]'"
            ]
        )
    if not name.strip() or re.search(r"\s", name.strip()):
        raise ConfigInvalid(
            [f"Invalid header name '{name.strip()}'. The '[header name]' cannot contain whitespace"]
        )
    return HeaderRule(action, name.strip(), value.strip())


def bad_header_rules(text: str | None) -> str | None:
    """The problem of the first invalid rule of `response.http.headers.config`."""
    try:
        parse_header_rules(text or "")
    except ConfigInvalid as problem:
        return str(problem)
    return None
