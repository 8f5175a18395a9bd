"""CQL's identifiers."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[a-z][a-z0-9_]*")


def quoted(name: str) -> str:
    """An identifier as CQL has it: in quotes unless it needs none.

    >>> quoted("plain"), quoted("Mixed"), quoted('with"quote')
    ('"plain"', '"Mixed"', '"with""quote"')
    """
    return '"' + name.replace('"', '""') + '"'


def shown(name: str) -> str:
    """An identifier as messages have it: in quotes where CQL needs them.

    >>> shown("plain"), shown("Mixed")
    ('plain', '"Mixed"')
    """
    return name if _PLAIN.fullmatch(name) else quoted(name)


def unquoted(text: str) -> str:
    """The name that a text stands for: what is in quotes is read as CQL, anything else is taken as
    it is, capitals included.

    >>> unquoted('"A b"'), unquoted("Ab")
    ('A b', 'Ab')
    """
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        return text[1:-1].replace('""', '"')
    return text
