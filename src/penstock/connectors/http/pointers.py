"""Places in JSON documents (RFC 6901), as castorm's connector writes them: `/` is the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from penstock.api import DataError

MISSING: Final = object()
"""What `Pointer.find` returns where there is nothing."""


class Pointer:
    """A place.

    >>> Pointer("/items/0/id").of({"items": [{"id": 7}]})
    7
    >>> Pointer("/").of([1])
    [1]
    >>> Pointer("/a~1b").of({"a/b": 1})
    1
    """

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        """Raises ValueError for what is no pointer."""
        self.text = text
        if text in ("", "/"):
            self._steps: tuple[str, ...] = ()
            return
        if not text.startswith("/"):
            raise ValueError(f"a JSON pointer begins with '/': '{text}'")
        self._steps = tuple(
            step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")
        )

    def find(self, document: Any) -> Any:
        """What is there, or `MISSING`."""
        node = document
        for step in self._steps:
            if isinstance(node, Mapping):
                node = node.get(step, MISSING)
            elif isinstance(node, Sequence) and not isinstance(node, str | bytes):
                at = int(step) if step.isdecimal() else -1
                node = node[at] if 0 <= at < len(node) else MISSING
            else:
                return MISSING
            if node is MISSING:
                return MISSING
        return node

    def of(self, document: Any) -> Any:
        """What is there. Raises DataError where there is nothing."""
        found = self.find(document)
        if found is MISSING:
            start = orjson.dumps(document).decode()[:200]
            raise DataError(f"there is nothing at '{self.text}' in {start}")
        return found


def plain(node: Any) -> str:
    """A node as a text, as Jackson's `asText` has it: objects and arrays are empty.

    >>> [plain(each) for each in (None, True, 1, 1.5, "x", {})]
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
