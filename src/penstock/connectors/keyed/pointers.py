"""Values in documents, by JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def at_path(document: Any, path: Sequence[str]) -> Any:
    """The value at the names of a JSON pointer, or None.

    >>> at_path({"a": [1, {"b": 2}]}, ("a", "1", "b"))
    2
    """
    for part in path:
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document
