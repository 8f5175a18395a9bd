"""Reads the pieces of a pattern: numbers, names, time zones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from penstock.data.java_dates.calendar import HOUR_MS
from penstock.data.java_dates.names import ERAS, HALVES, MONTHS, WEEKDAYS
from penstock.data.java_dates.patterns import Item


class Unparseable(ValueError):
    """A text does not match the pattern."""


# Offsets from UTC in ms. A name precedes its prefixes.
_ZONES: Final[Mapping[str, int]] = {
    "coordinated universal time": 0,
    "greenwich mean time": 0,
    "utc": 0,
    "gmt": 0,
    "eastern standard time": -5 * HOUR_MS,
    "eastern daylight time": -4 * HOUR_MS,
    "central standard time": -6 * HOUR_MS,
    "central daylight time": -5 * HOUR_MS,
    "mountain standard time": -7 * HOUR_MS,
    "mountain daylight time": -6 * HOUR_MS,
    "pacific standard time": -8 * HOUR_MS,
    "pacific daylight time": -7 * HOUR_MS,
    "central european standard time": HOUR_MS,
    "central european summer time": 2 * HOUR_MS,
    "british summer time": HOUR_MS,
    "cest": 2 * HOUR_MS,
    "cet": HOUR_MS,
    "eest": 3 * HOUR_MS,
    "eet": 2 * HOUR_MS,
    "west": HOUR_MS,
    "wet": 0,
    "bst": HOUR_MS,
    "msk": 3 * HOUR_MS,
    "jst": 9 * HOUR_MS,
    "hst": -10 * HOUR_MS,
    "est": -5 * HOUR_MS,
    "edt": -4 * HOUR_MS,
    "cst": -6 * HOUR_MS,
    "cdt": -5 * HOUR_MS,
    "mst": -7 * HOUR_MS,
    "mdt": -6 * HOUR_MS,
    "pst": -8 * HOUR_MS,
    "pdt": -7 * HOUR_MS,
}

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1

BLANKS: Final = re.compile(r"[ \t]*")
NUMBER: Final = re.compile(r"NaN|-?(?:∞|\d+(?:E-?\d+)?)")
_GMT: Final = re.compile("GMT", re.IGNORECASE)
_ZONE_NUMBERS: Final[Mapping[str, re.Pattern[str]]] = {
    "GMT": re.compile(r"([+-])([0-9]{1,2}):([0-9]{2})"),
    "Z": re.compile(r"([+-])([0-9]{2})([0-9]{2})"),
    "X": re.compile(r"([+-])([0-9]{2})"),
    "XX": re.compile(r"([+-])([0-9]{2})([0-9]{2})"),
    "XXX": re.compile(r"([+-])([0-9]{2}):([0-9]{2})"),
}
# What a letter sets, if not itself: k and h are H and K with another number at midnight and noon.
SETS: Final[Mapping[str, str]] = {"k": "H", "h": "K", "L": "M", "E": "u", "z": "Z", "X": "Z"}
# Letters that are read as numbers (M and L if short). Each limits the number before it to as many
# digits as that has letters.
_NUMERIC: Final = frozenset("yYMLdkHmsSDFwWhKu")


def _names(*lists: Sequence[str], start: int = 0) -> Mapping[str, int]:
    return {name.lower(): at for names in lists for at, name in enumerate(names, start)}


_TEXTS: Final[Mapping[str, Mapping[str, int]]] = {
    "G": _names(ERAS),
    "M": _names(MONTHS, [name[:3] for name in MONTHS], start=1),
    "L": _names(MONTHS, [name[:3] for name in MONTHS], start=1),
    "E": _names(WEEKDAYS, [name[:3] for name in WEEKDAYS], start=1),
    "a": _names(HALVES),
}

_MOST_DIGITS: Final = 1000  # more than any real year has, fewer than Python's `int` accepts

Numbers = dict[str, int]
"""The numbers read, by letter, in the order they were last set."""


def int_value(text: str) -> int:
    """The Java int of a number that `NUMBER` found."""
    if text == "NaN":
        return 0
    if "∞" in text:
        return _INT_MIN if text.startswith("-") else _INT_MAX
    digits, _, exponent = text.partition("E")
    if len(digits) > _MOST_DIGITS or len(exponent) > _MOST_DIGITS:
        return _INT_MIN if text.startswith("-") else _INT_MAX
    number = int(digits)
    if exponent:
        power = wrapped(int(exponent), 32)
        number = int(Decimal(number).scaleb(max(-9999, min(power, 9999))))
    if number == wrapped(number, 64):
        return wrapped(number, 32)
    return _INT_MIN if number < 0 else _INT_MAX


def wrapped(number: int, bits: int) -> int:
    """The number after an overflow of `bits`."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def put(read: Numbers, letter: str, value: int) -> None:
    """Sets a number, as the latest."""
    read.pop(letter, None)
    read[letter] = value


def obeys_count(following: Item | None) -> bool:
    """Whether the number before this piece has at most as many digits as letters."""
    if following is None or following.letter not in _NUMERIC:
        return False
    return following.letter not in "ML" or following.count <= 2


def parse_name(letter: str, text: str, start: int, read: Numbers) -> int:
    """Reads the name of a month, day, era or half. Returns where it ends; raises Unparseable."""
    rest = text[start : start + 20].lower()
    matching = [name for name in _TEXTS[letter] if rest.startswith(name)]
    if not matching:
        raise Unparseable(text)
    name = max(matching, key=len)
    put(read, SETS.get(letter, letter), _TEXTS[letter][name])
    return start + len(name)


def parse_zone(item: Item, text: str, start: int, at: int, read: Numbers) -> int:
    """Reads a time zone. Returns where it ends; raises Unparseable."""
    if item.letter == "X":
        if text[at] == "Z":
            put(read, "Z", 0)
            return at + 1
        return _parse_offset("X" * item.count, text, at, read)
    if text[at] in "+-":
        return _parse_offset("Z", text, at, read)
    if _GMT.match(text, start):
        at = start + 3
        if text[at : at + 1] not in ("+", "-"):
            put(read, "Z", 0)
            return at
        return _parse_offset("GMT", text, at, read)
    rest = text[at : at + 40].lower()
    for name, offset in _ZONES.items():
        if rest.startswith(name):
            if offset or "Z" not in read:  # as in Java: UTC was the zone before
                put(read, "Z", offset)
            return at + len(name)
    raise Unparseable(text)


def _parse_offset(form: str, text: str, at: int, read: Numbers) -> int:
    match = _ZONE_NUMBERS[form].match(text, at)
    if match is None:
        raise Unparseable(text)
    sign, hours, *minutes = match.groups()
    total = int(hours) * 60 + (int(minutes[0]) if minutes else 0)
    if int(hours) > 23 or (minutes and int(minutes[0]) > 59):
        raise Unparseable(text)
    put(read, "Z", (-total if sign == "-" else total) * 60_000)
    return match.end()
