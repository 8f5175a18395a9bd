"""Identifiers of CQL."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[a-z][a-z0-9_]*")


def quoted(name: str) -> str:
    """An identifier for statements, always in quotes.

    >>> quoted("plain"), quoted("Mixed"), quoted('with"quote')
    ('"plain"', '"Mixed"', '"with""quote"')
    """
    return '"' + name.replace('"', '""') + '"'


def shown(name: str) -> str:
    """An identifier for messages, in quotes only where CQL needs them.

    >>> shown("plain"), shown("Mixed")
    ('plain', '"Mixed"')
    """
    return name if _PLAIN.fullmatch(name) else quoted(name)


def unquoted(text: str) -> str:
    """Parses an identifier. Without quotes it stays unchanged, capitals included, unlike in CQL.

    >>> unquoted('"A b"'), unquoted("Ab")
    ('A b', 'Ab')
    """
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        return text[1:-1].replace('""', '"')
    return text
