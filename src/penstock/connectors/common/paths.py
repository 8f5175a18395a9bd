"""Values inside of documents: by the names of fields, or by JSON pointers (RFC 6901).

What a path finds, apart from a value:

| | a missing name | a name below null or a scalar | an index of a list |
|---|---|---|---|
| `member` | MISSING | MISSING | MISSING: lists have no names |
| `node` | MISSING | MISSING | the item; MISSING beyond the end |

A null at the end of a path is a value: it is found, as None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

MISSING: Final = object()
"""What a path finds in a document that does not have it."""


def member(document: Any, names: Iterable[str]) -> Any:
    """The value of a field in nested structs and maps, or MISSING.

    >>> member({"a": {"b": None}}, ("a", "b")) is None
    True
    >>> member({"a": [1]}, ("a", "0")) is MISSING
    True
    """
    for name in names:
        if type(document) is not dict and not isinstance(document, Mapping):
            return MISSING
        document = document.get(name, MISSING)
    return document


def node(document: Any, steps: Iterable[str]) -> Any:
    """The value at the steps of a JSON pointer, or MISSING.

    >>> node({"a": [1, {"b": 2}]}, ("a", "1", "b"))
    2
    """
    for step in steps:
        if isinstance(document, Mapping):
            document = document.get(step, MISSING)
        elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return MISSING
    return document


def steps_of(pointer: str) -> tuple[str, ...]:
    """The steps of a JSON pointer that begins with a slash.

    >>> steps_of("/a~1b/0")
    ('a/b', '0')
    """
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))
