"""The order of plugin versions, and ranges of them: Maven's, by which Kafka Connect picks the
highest of several versions of one class, or the requested one (kafka-connect.md §15.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import total_ordering
from typing import Final, TypeVar

LATEST: Final = "latest"

_QUALIFIERS: Final = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_ALIASES: Final = {"ga": "", "final": "", "release": "", "cr": "rc"}
_SHORT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}
"""The meaning of a letter directly before a number (`1.0a1`)."""

T = TypeVar("T", int, tuple[int, str])

_Item = int | str | list["_Item"]


@total_ordering
class Version:
    """A comparable version; any text is one.

    >>> Version("1.10") > Version("1.9") > Version("1.9-rc1") > Version("1.9-beta-2")
    True
    >>> Version("1.0") == Version("1")
    True
    """

    __slots__ = ("_items", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._items = _parsed(text.lower())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and _compared(self._items, other._items) == 0

    def __lt__(self, other: Version) -> bool:
        return _compared(self._items, other._items) < 0

    def __hash__(self) -> int:
        return hash(repr(self._items))

    def __repr__(self) -> str:
        return f"Version({self.text!r})"


class VersionRange:
    """The versions that a setting requests: `1.2`, exactly that one, or a well-formed Maven range.

    >>> [VersionRange(each).contains("4.2.0") for each in ("4.2", "[1,5)", "(,4),[4.2,)", "5", "")]
    [True, True, True, False, False]
    >>> print(VersionRange("9.9"), VersionRange("[5,6)"), VersionRange(""))
    [9.9,9.9] [5,6) [,]
    """

    def __init__(self, text: str) -> None:
        text = text.strip()
        self._parts: list[tuple[str, str, str, str]] = []
        if not text.startswith(("[", "(")):
            self._parts.append(("[", text, text, "]"))
            return
        for opening, inner, closing in re.findall(r"([\[(])([^\])]*)([\])])", text):
            low, comma, high = (part.strip() for part in inner.partition(","))
            self._parts.append((opening, low, high if comma else low, closing))

    def __str__(self) -> str:
        return ",".join(f"{begin}{low},{high}{end}" for begin, low, high, end in self._parts)

    def contains(self, version: str) -> bool:
        return any(_within(Version(version), *part) for part in self._parts)


def mismatch(class_name: str, wanted: str | None, available: Sequence[str]) -> str | None:
    """The problem if no available version matches the requested one; None if one does, or any is
    valid (null, `latest`), or the range is malformed (kafka-connect.md §15.4)."""
    if wanted is None or wanted == LATEST:
        return None
    version_range = VersionRange(wanted)
    if any(version_range.contains(version) for version in available):
        return None
    return (
        f"Plugin {class_name} not found that matches the version range {version_range}, "
        f"available versions: [{', '.join(available)}]"
    )


def _within(version: Version, begin: str, low: str, high: str, end: str) -> bool:
    if not low and not high and (begin, end) == ("[", "]"):
        return False
    above = not low or version > Version(low) or (begin == "[" and version == Version(low))
    below = not high or version < Version(high) or (end == "]" and version == Version(high))
    return above and below


def _parsed(text: str) -> list[_Item]:
    """Numbers and words; a hyphen, or a change from one to the other, begins a list in the list."""
    items: list[_Item] = []
    lists = [items]
    start = 0

    def nested() -> None:
        inner: list[_Item] = []
        lists[-1].append(inner)
        lists.append(inner)

    for at, char in enumerate(text):
        if char in ".-":
            lists[-1].append(_item(text[start:at]) if at > start else 0)
            start = at + 1
            if char == "-":
                nested()
        elif at > start and char.isdigit() != text[at - 1].isdigit():
            if char.isdigit() and lists[-1]:
                nested()  # `1.rc2` is `1-rc2`
            lists[-1].append(_item(text[start:at], followed_by_digit=char.isdigit()))
            start = at
            nested()
    if start < len(text):
        if not text[start].isdigit() and lists[-1]:
            nested()  # and `1.rc` is `1-rc`
        lists[-1].append(_item(text[start:]))
    for sublist in reversed(lists):
        _trim(sublist)
    return items


def _item(text: str, *, followed_by_digit: bool = False) -> int | str:
    if text[0].isdigit():
        return int(text)
    if followed_by_digit:
        text = _SHORT.get(text, text)
    return _ALIASES.get(text, text)


def _trim(items: list[_Item]) -> None:
    """Removes meaningless items at the end, also before lists: `1.0-rc` is `1-rc`."""
    for at in range(len(items) - 1, -1, -1):
        if items[at] in (0, "", []):
            del items[at]
        elif not isinstance(items[at], list):
            return


def _compared(one: _Item | None, other: _Item | None) -> int:
    """Below, at, or above 0. A list counts less than a number and more than a word."""
    if one is None:
        return 0 if other is None else -_compared(other, None)
    match one, other:
        case int(), None:
            return one
        case str(), None:
            return _sign(_rank(one), _rank(""))
        case list(), None:
            return next((sign for item in one if (sign := _compared(item, None))), 0)
        case (int(), int()):
            return _sign(one, other)
        case (str(), str()):
            return _sign(_rank(one), _rank(other))
        case (list(), list()):
            longest = max(len(one), len(other))
            pairs = zip(_filled(one, longest), _filled(other, longest), strict=True)
            return next((sign for a, b in pairs if (sign := _compared(a, b))), 0)
    order = (str, list, int)
    return order.index(type(one)) - order.index(type(other))


def _filled(items: list[_Item], size: int) -> list[_Item | None]:
    return [*items, *[None] * (size - len(items))]


def _rank(word: str) -> tuple[int, str]:
    """Known words by their place; others rank above them, alphabetically."""
    if word in _QUALIFIERS:
        return _QUALIFIERS.index(word), ""
    return len(_QUALIFIERS), word


def _sign(one: T, other: T) -> int:
    return 0 if one == other else 1 if one > other else -1
