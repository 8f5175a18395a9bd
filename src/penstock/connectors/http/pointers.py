"""JSON pointers (RFC 6901) in the variant of castorm's connector: `/` is the whole document."""

from __future__ import annotations

from typing import Any

import orjson

from penstock.api import DataError
from penstock.connectors.common.paths import MISSING, node, steps_of


class Pointer:
    """A JSON pointer.

    >>> Pointer("/items/0/id").of({"items": [{"id": 7}]})
    7
    >>> Pointer("/").of([1])
    [1]
    >>> Pointer("/a~1b").of({"a/b": 1})
    1
    """

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        """Raises ValueError for an invalid pointer."""
        self.text = text
        if text in ("", "/"):
            self._steps: tuple[str, ...] = ()
            return
        if not text.startswith("/"):
            raise ValueError(f"a JSON pointer must begin with '/': '{text}'")
        self._steps = steps_of(text)

    def find(self, document: Any) -> Any:
        """The node at this pointer, or `MISSING`."""
        return node(document, self._steps)

    def of(self, document: Any) -> Any:
        """The node at this pointer. Raises DataError if it is missing."""
        found = self.find(document)
        if found is MISSING:
            start = orjson.dumps(document).decode()[:200]
            raise DataError(f"nothing found at '{self.text}' in {start}")
        return found


def plain(node: Any) -> str:
    """A node as a string, like Jackson's `asText`: empty for objects and arrays.

    >>> [plain(node) for node in (None, True, 1, 1.5, "x", {})]
    ['null', 'true', '1', '1.5', 'x', '']
    """
    match node:
        case None:
            return "null"
        case bool():
            return "true" if node else "false"
        case int() | float():
            return orjson.dumps(node).decode()
        case str():
            return node
    return ""
