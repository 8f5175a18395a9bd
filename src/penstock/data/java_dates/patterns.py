"""The pieces of a `SimpleDateFormat` pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LETTERS: Final = frozenset("GyMdkHmsSEDFwWahKzZYuXL")


class PatternInvalid(ValueError):
    """A text is not a date pattern; worded as Java's IllegalArgumentException."""


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of a pattern: a letter, repeated `count` times; or, without one, literal `text`."""

    letter: str
    count: int
    text: str = ""


def items_of(pattern: str) -> list[Item]:
    """The pieces of a pattern; raises PatternInvalid."""
    items: list[Item] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at)
            items.append(Item("", 0, text))
            continue
        end = at
        while end < len(pattern) and pattern[end] == char:
            end += 1
        if not (char.isascii() and char.isalpha()):
            items.append(Item("", 0, pattern[at:end]))
        elif char not in LETTERS:
            raise PatternInvalid(f"Illegal pattern character '{char}'")
        elif char == "X" and end - at > 3:
            raise PatternInvalid(f"invalid ISO 8601 format: length={end - at}")
        else:
            items.append(Item(char, end - at))
        at = end
    return items


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """The text of the quotation at `start`, and where it ends."""
    if pattern.startswith("''", start):
        return "'", start + 2
    text, at = "", start + 1
    while (end := pattern.find("'", at)) >= 0:
        text += pattern[at:end]
        if not pattern.startswith("''", end):
            return text, end + 1
        text += "'"
        at = end + 2
    raise PatternInvalid("Unterminated quote")
