"""Ids of documents: texts with placeholders for values of a record.

>>> IdFormat("order::${/id}").filled({"id": 7})
'order::7'
>>> IdFormat("/id").filled({"id": "a"})
'a'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.connectors.common.paths import node, steps_of

_PLACEHOLDER: Final = re.compile(r"\$\{(.+?)}")


class IdFormat:
    """The format of ids; a text without placeholders is a JSON pointer, an empty one names no id.

    Raises ValueError for an invalid JSON pointer (RFC 6901).
    """

    __slots__ = ("_pointers", "_text")

    def __init__(self, text: str) -> None:
        if text and _PLACEHOLDER.search(text) is None:
            text = f"${{{text}}}"
        self._text = text
        self._pointers = {match[0]: pointer(match[1]) for match in _PLACEHOLDER.finditer(text)}

    def __bool__(self) -> bool:
        """Whether it names an id."""
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdFormat) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"IdFormat({self._text!r})"

    def filled(self, document: Any) -> str | None:
        """The id of a document; None if a value is missing, null, an array or an object."""
        texts: dict[str, str] = {}
        for placeholder, path in self._pointers.items():
            text = scalar_text(node(document, path))
            if text is None:
                return None
            texts[placeholder] = text
        # In one pass: a value may look like a placeholder.
        return _PLACEHOLDER.sub(lambda match: texts[match[0]], self._text)

    def stripped(self, document: Any) -> Any:
        """The document without the values in its id."""
        # The last items of an array go first, so that the others keep their indices.
        for path in sorted(self._pointers.values(), key=_indices, reverse=True):
            document = _without(document, path)
        return document


def pointer(text: str) -> tuple[str, ...]:
    """The names of a JSON pointer. Raises ValueError.

    >>> pointer("/a~1b/0")
    ('a/b', '0')
    """
    if not text.startswith("/"):
        raise ValueError(f"Invalid input: JSON Pointer expression must start with '/': \"{text}\"")
    return steps_of(text)


def scalar_text(value: Any) -> str | None:
    """A text, number or boolean as JSON writes it, a text without quotes."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
    return None


def _indices(path: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((int(part) if part.isdecimal() else -1, part) for part in path)


def _without(document: Any, path: tuple[str, ...]) -> Any:
    name, rest = path[0], path[1:]
    if isinstance(document, Mapping) and name in document:
        if not rest:
            return {key: member for key, member in document.items() if key != name}
        return {**document, name: _without(document[name], rest)}
    if isinstance(document, list) and name.isdecimal() and int(name) < len(document):
        index = int(name)
        changed = [] if not rest else [_without(document[index], rest)]
        return [*document[:index], *changed, *document[index + 1 :]]
    return document
