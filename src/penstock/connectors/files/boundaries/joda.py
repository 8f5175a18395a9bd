"""Formats moments by the patterns of `path.format`, those of Joda-Time's DateTimeFormat.

    'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH      year=2024/month=02/day=29/hour=13

Not those of Java's SimpleDateFormat: `Y` is the year, `x` the year of the week, `e` the day of the
week. Names of months and days are English; patterns with names need `locale` to be English.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

Write = Callable[[datetime], str]

_TOKEN: Final = re.compile(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBERS: Final[dict[str, Callable[[datetime], int]]] = {
    "C": lambda moment: moment.year // 100,
    "Y": lambda moment: moment.year,
    "y": lambda moment: moment.year,
    "x": lambda moment: moment.isocalendar().year,
    "w": lambda moment: moment.isocalendar().week,
    "e": lambda moment: moment.isoweekday(),
    "D": lambda moment: moment.timetuple().tm_yday,
    "M": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "h": lambda moment: moment.hour % 12 or 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
}
_YEARS: Final = frozenset("Yyx")


class PatternInvalid(ValueError):
    """A text is not a valid pattern; the message says why."""


def compile_pattern(pattern: str) -> Write:
    """The function that formats moments by a pattern. Raises PatternInvalid."""
    parts: list[str | Write] = []
    at = 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != at:
            break
        at = token.end()
        text = token[0]
        if text == "''":
            parts.append("'")
        elif text[0] == "'":
            parts.append(text[1:-1].replace("''", "'"))
        elif token[2]:
            parts.append(_letters(token[2], len(text)))
        else:
            parts.append(text)
    if at != len(pattern):
        raise PatternInvalid("it has a quote that is not closed")

    def write(moment: datetime) -> str:
        return "".join([part if isinstance(part, str) else part(moment) for part in parts])

    return write


def has_names(pattern: str) -> bool:
    """Whether a pattern contains names of months, of days, or AM and PM."""
    letters = [(token[2], len(token[0])) for token in _TOKEN.finditer(pattern) if token[2]]
    return any(letter in "Ea" or (letter == "M" and count > 2) for letter, count in letters)


def _letters(letter: str, count: int) -> Write:
    if letter == "M" and count > 2:
        return lambda moment: _MONTHS[moment.month - 1][: 3 if count == 3 else None]
    if letter == "E":
        return lambda moment: _DAYS[moment.weekday()][: 3 if count < 4 else None]
    if letter == "a":
        return lambda moment: "AM" if moment.hour < 12 else "PM"
    if letter == "G":
        return lambda moment: "AD"
    if letter == "S":
        return lambda moment: f"{moment.microsecond:06}".ljust(count, "0")[:count]
    if letter == "z":
        return lambda moment: str(moment.tzinfo) if count > 3 else (moment.tzname() or "")
    if letter == "Z":
        if count > 2:
            return lambda moment: str(moment.tzinfo)
        return lambda moment: _offset(moment, ":" if count == 2 else "")
    number = _NUMBERS.get(letter)
    if number is None:
        raise PatternInvalid(f"Illegal pattern component: {letter}")
    if letter in _YEARS and count == 2:
        return lambda moment: f"{number(moment) % 100:02}"
    return lambda moment: str(number(moment)).zfill(count)


def _offset(moment: datetime, delimiter: str) -> str:
    text = moment.strftime("%z")
    return f"{text[:3]}{delimiter}{text[3:5]}"
