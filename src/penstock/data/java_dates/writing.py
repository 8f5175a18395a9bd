"""Writes the pieces of a pattern."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.data.java_dates.calendar import (
    HOUR_MS,
    Fields,
    first_of_month,
    first_of_year,
    week_of_year,
    week_since,
    week_year,
    weekday_of,
)
from penstock.data.java_dates.names import ERAS, HALVES, MONTHS, WEEKDAYS
from penstock.data.java_dates.patterns import Item

Write = Callable[[Fields], str]


def _number(of: Callable[[Fields], int], width: int) -> Write:
    return lambda fields: f"{of(fields):0{width}d}"


def _hour(fields: Fields) -> int:
    return fields.ms // HOUR_MS


_NUMBERS: Final[Mapping[str, Callable[[Fields], int]]] = {
    "M": lambda fields: fields.month,
    "L": lambda fields: fields.month,
    "d": lambda fields: fields.day,
    "k": lambda fields: _hour(fields) or 24,
    "H": _hour,
    "m": lambda fields: fields.ms // 60_000 % 60,
    "s": lambda fields: fields.ms // 1000 % 60,
    "S": lambda fields: fields.ms % 1000,
    "D": lambda fields: fields.day_number - first_of_year(fields.year) + 1,
    "F": lambda fields: (fields.day_number - first_of_month(fields)) // 7 + 1,
    "w": week_of_year,
    "W": lambda fields: week_since(first_of_month(fields), fields.day_number),
    "h": lambda fields: _hour(fields) % 12 or 12,
    "K": lambda fields: _hour(fields) % 12,
    "u": lambda fields: (weekday_of(fields.day_number) + 5) % 7 + 1,
}


def _year_of_era(fields: Fields) -> int:
    return fields.year if fields.year > 0 else 1 - fields.year


def _year_text(of: Callable[[Fields], int], count: int) -> Write:
    def year_text(fields: Fields) -> str:
        year = of(fields)
        shown = abs(year) % 100 if count == 2 else abs(year)
        return f"{'-' if year < 0 else ''}{shown:0{count}d}"

    return year_text


def writer(item: Item) -> Write:
    """The function that writes one piece of a pattern."""
    count, text = item.count, item.text
    match item.letter:
        case "":
            return lambda fields: text
        case "G":
            return lambda fields: ERAS[fields.year > 0]
        case "y":
            return _year_text(_year_of_era, count)
        case "Y":
            return _year_text(week_year, count)
        case "M" | "L" if count >= 3:
            end = None if count >= 4 else 3
            return lambda fields: MONTHS[fields.month - 1][:end]
        case "E":
            end = None if count >= 4 else 3
            return lambda fields: WEEKDAYS[weekday_of(fields.day_number) - 1][:end]
        case "a":
            return lambda fields: HALVES[_hour(fields) >= 12]
        case "z":
            return lambda fields: "Coordinated Universal Time" if count >= 4 else "UTC"
        case "Z":
            return lambda fields: "+0000"
        case "X":
            return lambda fields: "Z"
    return _number(_NUMBERS[item.letter], count)
