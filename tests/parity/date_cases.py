"""Cases for Java's SimpleDateFormat: patterns, moments to write and texts to read.

All of it follows from one seed. Texts to read are those written, and corrupted copies of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

NOW_MS: Final = 1_763_745_000_000
"""The day that two-digit years are relative to."""

_LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
_MARKS: Final = ("", "-", " ", "/", ":", "''", "'T'", ".", ", ", "é")
_PATTERNS: Final = (
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "yyyy-MM-dd'T'HH:mm:ss'Z'",
    "yyyyMMdd",
    "yyyyMMddHHmmss",
    "yyyyMMddHHmmssSSS",
    "yyyy'E'MM-dd",
    "yyyy'1'MM-dd",
    "dd/MM/yyyy",
    "MM/dd/yy",
    "yyMMddHHmmssZ",
    "EEE, d MMM yyyy HH:mm:ss Z",
    "EEE, MMM d, ''yy",
    "yyyyy.MMMMM.dd GGG hh:mm aaa",
    "yyyy.MM.dd G 'at' HH:mm:ss z",
    "hh:mm a zzzz",
    "YYYY-'W'ww-u",
    "yyyy D",
    "yyyy w u",
    "yyyy MM W EEE",
    "yyyy MM F EEE",
)
_WRONG_PATTERNS: Final = ("b", "yyyy-MM-dd'T", "XXXX", "yyyy I", "'''", "q")
_DAY_MS: Final = 86_400_000
_CUTOVER_MS: Final = -12_219_292_800_000


def patterns() -> Iterator[str]:
    """Common patterns, and random ones."""
    yield from _PATTERNS
    yield from _WRONG_PATTERNS
    chance = random.Random(1)
    for _ in range(150):
        letters = [chance.choice(_LETTERS) for _ in range(chance.randint(1, 6))]
        if "Y" in letters:
            # What else names a year beside a year of weeks is refused to be known; see java_dates.
            letters = [letter for letter in letters if letter not in "yG"]
        yield "".join(
            letter * min(chance.choice((1, 1, 2, 2, 3, 4, 5)), 3 if letter == "X" else 5)
            + chance.choice(_MARKS)
            for letter in letters
        )


def moments(pattern: str) -> list[int]:
    """Ms since the epoch: recent, of any day, around the switch of 1582, far off."""
    chance = random.Random(pattern)
    return [
        *(chance.randrange(-2_208_988_800_000, 4_102_444_800_000) for _ in range(6)),
        *(chance.randrange(-62_135_596_800_000, 253_402_300_800_000) for _ in range(3)),
        chance.randrange(_CUTOVER_MS - 90 * _DAY_MS, _CUTOVER_MS + 90 * _DAY_MS),
        chance.randrange(-(10**14), 10**15),
    ]


def spoiled(text: str, seed: object) -> str:
    """The text, often with a change that a lenient reader may or may not accept."""
    chance = random.Random(f"{text} {seed}")
    at = chance.randrange(len(text) + 1)
    before, char, after = text[:at], text[at : at + 1], text[at + 1 :]
    return chance.choice(
        (
            text,
            text,
            before + chance.choice("0123456789") + after,
            before + chance.choice("0123456789 -") + char + after,
            before + after,
            before,
            f"{text} tail",
            f" {text}",
            text.lower(),
            before + chance.choice("-+:Z. \tGMT") + after,
        )
    )
