"""Days as Java's GregorianCalendar counts them: Julian before 15 October 1582, Gregorian since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from penstock.data.logical import MS_PER_DAY

HOUR_MS: Final = 3_600_000
UNIX_DAY: Final = date(1970, 1, 1).toordinal()  # days are counted from 31 December of year 0
CUTOVER: Final = date(1582, 10, 15).toordinal()
CUTOVER_MOMENT: Final = datetime(1582, 10, 15, tzinfo=UTC)
CUTOVER_YEAR: Final = 1582
SUNDAY: Final = 1


class Fields(NamedTuple):
    """A moment in the calendar of its time; `year` is 0 or less before the year 1."""

    day_number: int  # 1 is 1 January of the year 1 in the Gregorian calendar
    year: int
    month: int
    day: int
    ms: int  # since midnight


def gregorian(year: int, month: int, day: int) -> int:
    """The number of a day in the Gregorian calendar; `day` may be out of range."""
    before = year - 1
    return (
        365 * before
        + before // 4
        - before // 100
        + before // 400
        + _in_year(month, day, leap=year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    )


def julian(year: int, month: int, day: int) -> int:
    """The number of a day in the Julian calendar."""
    before = year - 1
    return 365 * before + before // 4 - 2 + _in_year(month, day, leap=year % 4 == 0)


def _in_year(month: int, day: int, *, leap: bool) -> int:
    return (367 * month - 362) // 12 + (0 if month <= 2 else -1 if leap else -2) + day


ToDay = Callable[[int, int, int], int]
"""A calendar: the number of the day of year, month and day."""


def _from_day(number: int, to_day: ToDay) -> tuple[int, int, int]:
    """Year, month and day of a day's number, in the calendar of `to_day`."""
    year = number * 400 // 146_097 + 1
    while to_day(year, 1, 1) > number:
        year -= 1
    while to_day(year + 1, 1, 1) <= number:
        year += 1
    month = 12
    while to_day(year, month, 1) > number:
        month -= 1
    return year, month, number - to_day(year, month, 1) + 1


def fields_of(ms: int) -> Fields:
    """The fields of ms since the epoch."""
    days, rest = divmod(ms, MS_PER_DAY)
    number = days + UNIX_DAY
    return Fields(number, *_from_day(number, _calendar_of(number)), rest)


def _calendar_of(number: int) -> ToDay:
    return gregorian if number >= CUTOVER else julian


def weekday_of(number: int) -> int:
    """1 for Sunday to 7 for Saturday."""
    return number % 7 + 1


def on_or_before(number: int, weekday: int) -> int:
    """The last day up to `number` that is this day of the week."""
    return number - (number - (weekday - 1)) % 7


def first_week(first: int) -> int:
    """The Sunday of the week that contains a month's or a year's first day."""
    return on_or_before(first, SUNDAY)


def week_since(first: int, number: int) -> int:
    """Which week, from the one that contains `first`."""
    return (number - first_week(first)) // 7 + 1


def week_of_year(fields: Fields) -> int:
    """The week of the week year, from 1."""
    number = fields.day_number
    if number >= first_week(first_of_year(fields.year + 1)):
        return 1
    return week_since(first_of_year(fields.year), number)


def week_year(fields: Fields) -> int:
    """The year that the week belongs to."""
    next_year = first_week(first_of_year(fields.year + 1))
    return fields.year + (fields.day_number >= next_year)


def first_of_month(fields: Fields) -> int:
    """The number of the month's first day."""
    first = fields.day_number - fields.day + 1
    # October 1582 jumped from the 4th to the 15th; its weeks count only days that existed.
    return CUTOVER - 4 if first < CUTOVER <= fields.day_number else first


def first_of_year(year: int) -> int:
    """The number of the year's first day."""
    return (gregorian if year > CUTOVER_YEAR else julian)(year, 1, 1)


def years_before(ms: int, years: int) -> int:
    """The date and time `years` earlier."""
    fields = fields_of(ms)
    year = fields.year - years
    leap = gregorian(year, 3, 1) - gregorian(year, 2, 1) == 29
    day = min(fields.day, 29 if leap else 28) if fields.month == 2 else fields.day
    return (gregorian(year, fields.month, day) - UNIX_DAY) * MS_PER_DAY + fields.ms
