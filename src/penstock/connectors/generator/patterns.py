"""Texts that match a regular expression.

>>> import numpy as np
>>> make = texts_of("User_[1-9]")
>>> all(text.startswith("User_") for text in make(np.random.default_rng(1), 3))
True

Literals, classes, `.`, groups, alternatives and repetitions are supported; assertions, which are
about the surroundings of a text, are not.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final

import numpy as np

from penstock.api import DataError

Texts = Callable[[np.random.Generator, int], list[str]]
"""Makes the given number of texts."""

UNBOUNDED: Final = 8
"""The maximum of repetitions beyond the minimum, if there is no upper bound."""

_CLASSES: Final = {
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_",
    "s": " ",
}
_PRINTABLE: Final = "".join(map(chr, range(32, 127)))
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r"}


def texts_of(pattern: str) -> Texts:
    """Returns a maker of texts that match a pattern. Raises DataError for unsupported patterns."""
    reader = _Reader(pattern)
    texts = reader.alternatives()
    if not reader.at_end:
        raise reader.invalid("an unmatched )")
    return texts


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._pattern)

    def invalid(self, problem: str) -> DataError:
        return DataError(f"Cannot generate strings for the regex '{self._pattern}': {problem}")

    def alternatives(self) -> Texts:
        choices = [self._sequence()]
        while self._accept("|"):
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else _one_of(choices)

    def _sequence(self) -> Texts:
        parts = []
        while not self.at_end and self._peek() not in "|)":
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _atom(self) -> Texts:
        char = self._next()
        match char:
            case "(":
                if self._accept("?") and not self._accept(":"):
                    raise self.invalid("only (…) and (?:…) are supported")
                inner = self.alternatives()
                if not self._accept(")"):
                    raise self.invalid("an unmatched (")
                return inner
            case "[":
                return _chars(self._class())
            case ".":
                return _chars(_PRINTABLE)
            case "\\":
                return _chars(self._escape())
            case "^" | "$":
                return _chars("")  # the pattern is for the whole text
            case "*" | "+" | "?" | "{":
                raise self.invalid(f"nothing to repeat before {char}")
        return _chars(char)

    def _escape(self) -> str:
        char = self._next()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES:
            return "".join(
                printable for printable in _PRINTABLE if printable not in _CLASSES[char.lower()]
            )
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char.isalnum():
            raise self.invalid(f"\\{char} is not supported")
        return char

    def _class(self) -> str:
        excluded = self._accept("^")
        chars = ""
        while not self._accept("]"):
            char = self._next()
            if char == "\\":
                chars += self._escape()
            elif self._peek() == "-" and self._peek(1) not in ("]", ""):
                self._next()
                last = self._next()
                if last < char:
                    raise self.invalid(f"the range {char}-{last} is empty")
                chars += "".join(map(chr, range(ord(char), ord(last) + 1)))
            else:
                chars += char
        if excluded:
            chars = "".join(printable for printable in _PRINTABLE if printable not in chars)
        if not chars:
            raise self.invalid("an empty character class")
        return "".join(dict.fromkeys(chars))

    def _repeated(self, texts: Texts) -> Texts:
        while True:
            if self._accept("*"):
                texts = _repetitions(texts, 0, UNBOUNDED)
            elif self._accept("+"):
                texts = _repetitions(texts, 1, 1 + UNBOUNDED)
            elif self._accept("?"):
                texts = _repetitions(texts, 0, 1)
            elif self._accept("{"):
                texts = _repetitions(texts, *self._bounds())
            else:
                return texts

    def _bounds(self) -> tuple[int, int]:
        text = ""
        while not self._accept("}"):
            text += self._next()
        low, comma, high = text.partition(",")
        try:
            least = int(low)
            most = int(high) if high else least + (UNBOUNDED if comma else 0)
        except ValueError:
            raise self.invalid(f"{{{text}}} is not a valid repetition") from None
        if not 0 <= least <= most:
            raise self.invalid(f"{{{text}}} is not a valid repetition")
        return least, most

    def _peek(self, ahead: int = 0) -> str:
        return self._pattern[self._at + ahead : self._at + ahead + 1]

    def _next(self) -> str:
        if self.at_end:
            raise self.invalid("unexpected end")
        self._at += 1
        return self._pattern[self._at - 1]

    def _accept(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self._at += 1
        return True


def _chars(chars: str) -> Texts:
    if len(chars) < 2:
        return lambda rng, count: list(repeat(chars, count))
    return lambda rng, count: [chars[index] for index in rng.integers(len(chars), size=count)]


def _joined(parts: list[Texts]) -> Texts:
    def make(rng: np.random.Generator, count: int) -> list[str]:
        columns = [part(rng, count) for part in parts]
        return list(map("".join, zip(*columns, strict=True))) if columns else [""] * count

    return make


def _one_of(choices: list[Texts]) -> Texts:
    def make(rng: np.random.Generator, count: int) -> list[str]:
        columns = [choice(rng, count) for choice in choices]
        chosen = rng.integers(len(choices), size=count)
        return [columns[column][row] for row, column in enumerate(chosen)]

    return make


def _repetitions(texts: Texts, least: int, most: int) -> Texts:
    def make(rng: np.random.Generator, count: int) -> list[str]:
        lengths = rng.integers(least, most, size=count, endpoint=True).tolist()
        pieces: Iterator[str] = iter(texts(rng, sum(lengths)))
        return ["".join(next(pieces) for _ in range(length)) for length in lengths]

    return make
