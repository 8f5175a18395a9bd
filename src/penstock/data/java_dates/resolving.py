"""From the numbers of a text to its moment, by the rules of GregorianCalendar: of contradictory
numbers, the latest count."""

from __future__ import annotations

from penstock.data.java_dates.calendar import (
    CUTOVER,
    CUTOVER_YEAR,
    SUNDAY,
    UNIX_DAY,
    ToDay,
    first_of_year,
    first_week,
    gregorian,
    julian,
    on_or_before,
)
from penstock.data.java_dates.reading import Numbers, wrapped
from penstock.data.logical import MS_PER_DAY


def resolved(read: Numbers) -> int:
    """The moment of the numbers that were read, in ms since the epoch."""
    age = {letter: place for place, letter in enumerate(read, 1)}.get
    get = read.get

    hours = get("K", 0) + 12 * get("a", 0)
    if "H" in read and max(age("K", 0) * ("a" in read), age("a", 0) * ("K" in read)) < age("H", 0):
        hours = read["H"]
    ms = ((hours * 60 + get("m", 0)) * 60 + get("s", 0)) * 1000 + get("S", 0)
    days, ms = divmod(ms, MS_PER_DAY)

    if age("Y", 0) > age("y", 0):
        number = _day_of_week_date(read) + days
    else:
        year = get("y", 1970)
        if "G" in read and read["G"] == 0:
            year = 1 - year
        number = _settled(read, year, days)
    return wrapped((number - UNIX_DAY) * MS_PER_DAY + ms - get("Z", 0), 64)


def _day_of_week_date(read: Numbers) -> int:
    """The day of a week year, a week and a day of the week."""
    weekday, week = read.get("u", SUNDAY), read.get("w", 1)
    if not 1 <= weekday <= 7:
        # A day that carries over counts from Monday in Java.
        more, weekday = divmod(weekday - 1, 7)
        week += more
        weekday = (weekday + 1) % 7 + 1
    first = first_week(first_of_year(read["Y"]))
    return first + (week - 1) * 7 + weekday - 1


def _settled(read: Numbers, year: int, days: int) -> int:
    """The day in a year, plus `days`."""
    by = _selected(read)
    newer = _day_in(read, year, by, gregorian) + days
    if year > CUTOVER_YEAR and newer >= CUTOVER:
        return newer
    older = _day_in(read, year, by, julian) + days
    if year < CUTOVER_YEAR and older < CUTOVER:
        return older
    if year < CUTOVER_YEAR:
        newer = older
    if by in ("D", "w"):
        return older
    return newer if newer >= CUTOVER else older


def _selected(read: Numbers) -> str:
    """What determines the day of the year: the day of the month (d), a week of the month (W), the
    n-th such day of the week in the month (F), the day of the year (D), a week of the year (w).

    The one set last counts, if it is complete; a week needs a day of the week.
    """
    age = {letter: place for place, letter in enumerate(read, 1)}
    weekday = age.get("u", 0)
    ages = {"d": age.get("d", 0)}
    for letter in "WFw":
        ages[letter] = max(age.get(letter, 0), weekday) if letter in age and weekday else 0
    ages["D"] = age.get("D", 0)
    best = max(ages.values())
    if not best:
        ages["W"], ages["w"] = age.get("W", 0), age.get("w", 0)
        ages["F"] = max(age.get("F", 0), weekday)
        best = max(ages["W"], ages["F"], ages["w"])
        if not best:
            return "d"
    week_of_year = age.get("w", 0)
    if best == ages["d"]:
        return "d"
    of_month = (best == ages["W"] and age.get("W", 0) >= week_of_year) or (
        best == ages["F"] and age.get("F", 0) >= week_of_year
    )
    if not of_month:
        return "D" if best == ages["D"] else "w"
    if ages["W"] == ages["F"]:
        return "W" if age.get("W", 0) >= age.get("F", 0) else "F"
    return "W" if best == ages["W"] else "F"


def _day_in(read: Numbers, year: int, by: str, to_day: ToDay) -> int:
    """The day in one calendar; `by` is from `_selected`."""
    get = read.get
    if by in ("D", "w"):
        first = to_day(year, 1, 1)
        if by == "D":
            return first + read["D"] - 1
        weekday = on_or_before(first_week(first) + 6, get("u", SUNDAY))
        return weekday + 7 * (get("w", 1) - 1)
    more, month = divmod(get("M", 1) - 1, 12)
    first = to_day(year + more, month + 1, 1)
    if by == "d":
        return first + get("d", 1) - 1
    weekday = get("u", SUNDAY)
    if by == "W":
        sunday = first_week(first)
        return on_or_before(sunday + 6, weekday) + 7 * (get("W", 1) - 1)
    nth = get("F", 1)
    if nth >= 0:
        return on_or_before(first + 7 * nth - 1, weekday)
    after, of_next = divmod(month + 1, 12)
    length = to_day(year + more + after, of_next + 1, 1) - first
    return on_or_before(first + length + 7 * (nth + 1) - 1, weekday)
