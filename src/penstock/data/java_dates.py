"""Dates and times as text, by the patterns of Java's `SimpleDateFormat`.

A `DateFormat` writes and leniently reads what `new SimpleDateFormat(pattern)` does on a JVM that
speaks English and keeps UTC: all its letters and quoting, the Julian calendar before 15 October
1582, weeks that begin on Sunday, numbers out of range that carry over ("2024-13-41"), and text
behind what the pattern asks for, which is ignored. Moments are ms since the epoch, of any size.

Three things it refuses to know: names of time zones other than those in `_ZONES`, when reading;
that Java, having read such a name, goes on to write in that zone; and what a year of weeks (Y)
means beside a year or an era.

Nothing here reads the clock; what "89" means as a year depends on `now_ms`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Final, NamedTuple

from penstock.data.logical import MS_PER_DAY, ms_to_timestamp, timestamp_to_ms

LETTERS: Final = frozenset("GyMdkHmsSEDFwWahKzZYuXL")

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS: Final = (
    *("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
)
_ERAS: Final = ("BC", "AD")
_HALVES: Final = ("AM", "PM")

_H: Final = 3_600_000
# Names that are read, before others that they begin with, and how far each is ahead of UTC in ms.
_ZONES: Final[Mapping[str, int]] = {
    "coordinated universal time": 0,
    "greenwich mean time": 0,
    "utc": 0,
    "gmt": 0,
    "eastern standard time": -5 * _H,
    "eastern daylight time": -4 * _H,
    "central standard time": -6 * _H,
    "central daylight time": -5 * _H,
    "mountain standard time": -7 * _H,
    "mountain daylight time": -6 * _H,
    "pacific standard time": -8 * _H,
    "pacific daylight time": -7 * _H,
    "central european standard time": _H,
    "central european summer time": 2 * _H,
    "british summer time": _H,
    "cest": 2 * _H,
    "cet": _H,
    "eest": 3 * _H,
    "eet": 2 * _H,
    "west": _H,
    "wet": 0,
    "bst": _H,
    "msk": 3 * _H,
    "jst": 9 * _H,
    "hst": -10 * _H,
    "est": -5 * _H,
    "edt": -4 * _H,
    "cst": -6 * _H,
    "cdt": -5 * _H,
    "mst": -7 * _H,
    "mdt": -6 * _H,
    "pst": -8 * _H,
    "pdt": -7 * _H,
}

_UNIX_DAY: Final = date(1970, 1, 1).toordinal()  # days are counted from 31 December of year 0
_CUTOVER: Final = date(1582, 10, 15).toordinal()
_CUTOVER_MOMENT: Final = datetime(1582, 10, 15, tzinfo=UTC)
_CUTOVER_YEAR: Final = 1582
_SUNDAY: Final = 1

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class PatternInvalid(ValueError):
    """A text is no date pattern; worded as Java's IllegalArgumentException."""


class Unparseable(ValueError):
    """A text does not begin with what the pattern asks for."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A piece of a pattern: a letter, repeated `count` times; or, without one, `text` as it is."""

    letter: str
    count: int
    text: str = ""


class _Fields(NamedTuple):
    """A moment in the calendar of its time; `year` is 0 and less before the year 1."""

    day_number: int  # 1 is 1 January of the year 1, as Gregory would have had it
    year: int
    month: int
    day: int
    ms: int  # since midnight


def items_of(pattern: str) -> list[_Item]:
    """The pieces of a pattern; raises PatternInvalid."""
    items: list[_Item] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at)
            items.append(_Item("", 0, text))
            continue
        end = at
        while end < len(pattern) and pattern[end] == char:
            end += 1
        if not (char.isascii() and char.isalpha()):
            items.append(_Item("", 0, pattern[at:end]))
        elif char not in LETTERS:
            raise PatternInvalid(f"Illegal pattern character '{char}'")
        elif char == "X" and end - at > 3:
            raise PatternInvalid(f"invalid ISO 8601 format: length={end - at}")
        else:
            items.append(_Item(char, end - at))
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


# Calendars


def _gregorian(year: int, month: int, day: int) -> int:
    """The number of a day in the Gregorian calendar; any day of a month from 1 to 12."""
    before = year - 1
    return (
        365 * before
        + before // 4
        - before // 100
        + before // 400
        + _in_year(month, day, leap=year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    )


def _julian(year: int, month: int, day: int) -> int:
    """The number of a day in the Julian calendar."""
    before = year - 1
    return 365 * before + before // 4 - 2 + _in_year(month, day, leap=year % 4 == 0)


def _in_year(month: int, day: int, *, leap: bool) -> int:
    return (367 * month - 362) // 12 + (0 if month <= 2 else -1 if leap else -2) + day


_ToDay = Callable[[int, int, int], int]


def _from_day(number: int, to_day: _ToDay) -> tuple[int, int, int]:
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


def _fields_of(ms: int) -> _Fields:
    days, rest = divmod(ms, MS_PER_DAY)
    number = days + _UNIX_DAY
    return _Fields(number, *_from_day(number, _calendar_of(number)), rest)


def _calendar_of(number: int) -> _ToDay:
    return _gregorian if number >= _CUTOVER else _julian


def _weekday(number: int) -> int:
    """1 for Sunday to 7 for Saturday."""
    return number % 7 + 1


def _on_or_before(number: int, weekday: int) -> int:
    """The last day up to `number` that is this day of the week."""
    return number - (number - (weekday - 1)) % 7


def _first_week(first: int) -> int:
    """The Sunday that begins the week with a month's or a year's first day in it."""
    return _on_or_before(first, _SUNDAY)


def _week(first: int, number: int) -> int:
    """Which week since the one with `first` in it."""
    return (number - _first_week(first)) // 7 + 1


def _week_of_year(fields: _Fields) -> int:
    number = fields.day_number
    if number >= _first_week(_first_of_year(fields.year + 1)):
        return 1
    return _week(_first_of_year(fields.year), number)


def _week_year(fields: _Fields) -> int:
    next_year = _first_week(_first_of_year(fields.year + 1))
    return fields.year + (fields.day_number >= next_year)


def _first_of_month(fields: _Fields) -> int:
    first = fields.day_number - fields.day + 1
    # That October went from the 4th to the 15th: its weeks count the days there were.
    return _CUTOVER - 4 if first < _CUTOVER <= fields.day_number else first


def _first_of_year(year: int) -> int:
    return (_gregorian if year > _CUTOVER_YEAR else _julian)(year, 1, 1)


# Writing

_Write = Callable[[_Fields], str]


def _number(of: Callable[[_Fields], int], width: int) -> _Write:
    return lambda fields: f"{of(fields):0{width}d}"


def _hour(fields: _Fields) -> int:
    return fields.ms // _H


_NUMBERS: Final[Mapping[str, Callable[[_Fields], int]]] = {
    "M": lambda fields: fields.month,
    "L": lambda fields: fields.month,
    "d": lambda fields: fields.day,
    "k": lambda fields: _hour(fields) or 24,
    "H": _hour,
    "m": lambda fields: fields.ms // 60_000 % 60,
    "s": lambda fields: fields.ms // 1000 % 60,
    "S": lambda fields: fields.ms % 1000,
    "D": lambda fields: fields.day_number - _first_of_year(fields.year) + 1,
    "F": lambda fields: (fields.day_number - _first_of_month(fields)) // 7 + 1,
    "w": _week_of_year,
    "W": lambda fields: _week(_first_of_month(fields), fields.day_number),
    "h": lambda fields: _hour(fields) % 12 or 12,
    "K": lambda fields: _hour(fields) % 12,
    "u": lambda fields: (_weekday(fields.day_number) + 5) % 7 + 1,
}


def _year_of_era(fields: _Fields) -> int:
    return fields.year if fields.year > 0 else 1 - fields.year


def _year_text(of: Callable[[_Fields], int], count: int) -> _Write:
    def year_text(fields: _Fields) -> str:
        year = of(fields)
        shown = abs(year) % 100 if count == 2 else abs(year)
        return f"{'-' if year < 0 else ''}{shown:0{count}d}"

    return year_text


def _writer(item: _Item) -> _Write:
    """The function that writes one piece of a pattern."""
    count, text = item.count, item.text
    match item.letter:
        case "":
            return lambda fields: text
        case "G":
            return lambda fields: _ERAS[fields.year > 0]
        case "y":
            return _year_text(_year_of_era, count)
        case "Y":
            return _year_text(_week_year, count)
        case "M" | "L" if count >= 3:
            end = None if count >= 4 else 3
            return lambda fields: _MONTHS[fields.month - 1][:end]
        case "E":
            end = None if count >= 4 else 3
            return lambda fields: _WEEKDAYS[_weekday(fields.day_number) - 1][:end]
        case "a":
            return lambda fields: _HALVES[_hour(fields) >= 12]
        case "z":
            return lambda fields: "Coordinated Universal Time" if count >= 4 else "UTC"
        case "Z":
            return lambda fields: "+0000"
        case "X":
            return lambda fields: "Z"
    return _number(_NUMBERS[item.letter], count)


# Reading

_BLANKS: Final = re.compile(r"[ \t]*")
_NUMBER: Final = re.compile(r"NaN|-?(?:∞|\d+(?:E-?\d+)?)")
_GMT: Final = re.compile("GMT", re.IGNORECASE)
_ZONE_NUMBERS: Final[Mapping[str, re.Pattern[str]]] = {
    "GMT": re.compile(r"([+-])([0-9]{1,2}):([0-9]{2})"),
    "Z": re.compile(r"([+-])([0-9]{2})([0-9]{2})"),
    "X": re.compile(r"([+-])([0-9]{2})"),
    "XX": re.compile(r"([+-])([0-9]{2})([0-9]{2})"),
    "XXX": re.compile(r"([+-])([0-9]{2}):([0-9]{2})"),
}
# What a letter sets; k and h, whose midnight and noon have two numbers, set what H and K do.
_SETS: Final[Mapping[str, str]] = {"k": "H", "h": "K", "L": "M", "E": "u", "z": "Z", "X": "Z"}
# Letters that are read as numbers (M, L when written as such); next to each other, each of them
# takes just as many digits as it is long.
_NUMERIC: Final = frozenset("yYMLdkHmsSDFwWhKu")


def _names(*lists: Sequence[str], start: int = 0) -> Mapping[str, int]:
    return {name.lower(): at for each in lists for at, name in enumerate(each, start)}


_TEXTS: Final[Mapping[str, Mapping[str, int]]] = {
    "G": _names(_ERAS),
    "M": _names(_MONTHS, [name[:3] for name in _MONTHS], start=1),
    "L": _names(_MONTHS, [name[:3] for name in _MONTHS], start=1),
    "E": _names(_WEEKDAYS, [name[:3] for name in _WEEKDAYS], start=1),
    "a": _names(_HALVES),
}

_MOST_DIGITS: Final = 1000  # more than any year anybody writes, fewer than Python's `int` reads

_Read = dict[str, int]
"""What was read, by the letter it counts for, in the order it was last set."""


def _int_value(text: str) -> int:
    """The Java int of a number that `_NUMBER` found."""
    if text == "NaN":
        return 0
    if "∞" in text:
        return _INT_MIN if text.startswith("-") else _INT_MAX
    digits, _, exponent = text.partition("E")
    if len(digits) > _MOST_DIGITS or len(exponent) > _MOST_DIGITS:
        return _INT_MIN if text.startswith("-") else _INT_MAX
    number = int(digits)
    if exponent:
        power = _wrapped(int(exponent), 32)
        number = int(Decimal(number).scaleb(max(-9999, min(power, 9999))))
    if number == _wrapped(number, 64):
        return _wrapped(number, 32)
    return _INT_MIN if number < 0 else _INT_MAX


def _wrapped(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


class DateFormat:
    """One pattern, worked out. Raises PatternInvalid for a text that is none.

    `now_ms` fixes the hundred years that a year of two digits may be in, from 80 years before;
    it only matters where `reads_short_years`.

    >>> format = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSSX")
    >>> format.format(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    >>> format.parse("2023-11-14T23:13:20.123+01")
    1700000000123
    """

    def __init__(self, pattern: str, now_ms: int = 0) -> None:
        self.pattern = pattern
        self._items = items_of(pattern)
        self._writers = [_writer(item) for item in self._items]
        self._century = _years_before(now_ms, 80)
        self._century_year = _fields_of(self._century).year
        self._memo: dict[int, str] = {}
        self.unit_ms = _unit_of(self._items)
        self.format_moment = _moment_writer(self._items, self._format_slowly)
        self.parse_moment = _moment_reader(self._items, self._parse_slowly)

    @property
    def reads_short_years(self) -> bool:
        """Whether what is read may depend on `now_ms`."""
        return any(item.letter in "yY" and item.count <= 2 for item in self._items if item.letter)

    format_moment: Callable[[datetime], str]
    """The text of an aware moment in UTC."""

    parse_moment: Callable[[str], datetime]
    """The moment a text says; Unparseable, or DataError when it is not in the years 1 to 9999."""

    def format(self, ms: int) -> str:
        """The text of a moment."""
        fields = _fields_of(ms)
        return "".join([write(fields) for write in self._writers])

    def format_known(self, ms: int) -> str:
        """The same; quicker when many moments share their text, as a pattern without hours has
        it: texts are remembered."""
        unit = ms // self.unit_ms
        text = self._memo.get(unit)
        if text is None:
            if len(self._memo) >= _MOST_REMEMBERED:
                self._memo.clear()
            quick = _FIRST_QUICK_MS <= ms < _LAST_QUICK_MS
            text = self.format_moment(ms_to_timestamp(ms)) if quick else self.format(ms)
            self._memo[unit] = text
        return text

    def parse(self, text: str) -> int:
        """The moment a text says; raises Unparseable."""
        read: _Read = {}
        at = 0
        at_the_edge = False
        for place, item in enumerate(self._items):
            if not item.letter:
                if not text.startswith(item.text, at):
                    raise Unparseable(text)
                at += len(item.text)
                continue
            following = self._items[place + 1] if place + 1 < len(self._items) else None
            at, short_year = self._parse_item(item, _obeys(following), text, at, read)
            if short_year is not None:
                at_the_edge = short_year == self._century_year % 100
        if at == 0:
            raise Unparseable(text)  # nothing was asked for, and Java takes that for nothing read
        ms = _established(read)
        if at_the_edge and ms < self._century:
            for letter in "yY":
                if letter in read:
                    read[letter] += 100
            ms = _established(read)
        return ms

    def _parse_item(
        self, item: _Item, obey_count: bool, text: str, start: int, read: _Read
    ) -> tuple[int, int | None]:
        """Reads one piece: where it ends, and the two digits if it was a year of two."""
        letter, count = item.letter, item.count
        blanks = _BLANKS.match(text, start)
        at = blanks.end() if blanks else start
        if at >= len(text):
            raise Unparseable(text)
        if letter in "zZX":
            return _parse_zone(item, text, start, at, read), None
        if letter in "GEa" or (letter in "ML" and count >= 3):
            return _parse_name(letter, text, start, read), None
        if obey_count and start + count > len(text):
            raise Unparseable(text)
        found = _NUMBER.match(text, at, start + count if obey_count else len(text))
        if found is None:
            raise Unparseable(text)
        value, short_year = _int_value(found[0]), None
        if letter in "yY":
            if count <= 2 and found.end() - at == 2 and found[0].isdecimal():
                short_year = value
                century, pivot = divmod(self._century_year, 100)
                value += (century + (value < pivot)) * 100
        elif (letter == "k" and value == 24) or (letter == "h" and value == 12):
            value = 0
        elif letter == "u" and 1 <= value <= 7:
            value = value % 7 + 1
        _set(read, _SETS.get(letter, letter), value)
        return found.end(), short_year

    def _format_slowly(self, moment: datetime) -> str:
        return self.format(timestamp_to_ms(moment))

    def _parse_slowly(self, text: str) -> datetime:
        return ms_to_timestamp(self.parse(text))


_MOST_REMEMBERED: Final = 4096
_FIRST_QUICK_MS, _LAST_QUICK_MS = -2_208_988_800_000, 4_102_444_800_000  # 1900 to 2100


def _set(read: _Read, letter: str, value: int) -> None:
    read.pop(letter, None)
    read[letter] = value


def _obeys(following: _Item | None) -> bool:
    """Whether the number before this piece takes no more digits than its letters say."""
    if following is None or following.letter not in _NUMERIC:
        return False
    return following.letter not in "ML" or following.count <= 2


def _parse_name(letter: str, text: str, start: int, read: _Read) -> int:
    rest = text[start : start + 20].lower()
    found = [name for name in _TEXTS[letter] if rest.startswith(name)]
    if not found:
        raise Unparseable(text)
    name = max(found, key=len)
    _set(read, _SETS.get(letter, letter), _TEXTS[letter][name])
    return start + len(name)


def _parse_zone(item: _Item, text: str, start: int, at: int, read: _Read) -> int:
    if item.letter == "X":
        if text[at] == "Z":
            _set(read, "Z", 0)
            return at + 1
        return _parse_offset("X" * item.count, text, at, read)
    if text[at] in "+-":
        return _parse_offset("Z", text, at, read)
    if _GMT.match(text, start):
        at = start + 3
        if text[at : at + 1] not in ("+", "-"):
            _set(read, "Z", 0)
            return at
        return _parse_offset("GMT", text, at, read)
    rest = text[at : at + 40].lower()
    for name, offset in _ZONES.items():
        if rest.startswith(name):
            if offset or "Z" not in read:  # as in Java, where UTC is the zone there was anyway
                _set(read, "Z", offset)
            return at + len(name)
    raise Unparseable(text)


def _parse_offset(form: str, text: str, at: int, read: _Read) -> int:
    found = _ZONE_NUMBERS[form].match(text, at)
    if found is None:
        raise Unparseable(text)
    sign, hours, *minutes = found.groups()
    total = int(hours) * 60 + (int(minutes[0]) if minutes else 0)
    if int(hours) > 23 or (minutes and int(minutes[0]) > 59):
        raise Unparseable(text)
    _set(read, "Z", (-total if sign == "-" else total) * 60_000)
    return found.end()


def _established(read: _Read) -> int:
    """The moment that the numbers read make, as GregorianCalendar settles which of them count."""
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
    return _wrapped((number - _UNIX_DAY) * MS_PER_DAY + ms - get("Z", 0), 64)


def _day_of_week_date(read: _Read) -> int:
    """The day that a year of weeks, a week and a day of it are."""
    weekday, week = read.get("u", _SUNDAY), read.get("w", 1)
    if not 1 <= weekday <= 7:
        # Java takes the day for one of Monday to Sunday here, once it is carried over.
        more, weekday = divmod(weekday - 1, 7)
        week += more
        weekday = (weekday + 1) % 7 + 1
    first = _first_week(_first_of_year(read["Y"]))
    return first + (week - 1) * 7 + weekday - 1


def _settled(read: _Read, year: int, days: int) -> int:
    """The day of a year that the numbers read make, `days` later."""
    by = _selected(read)
    gregorian = _day_in(read, year, by, _gregorian) + days
    if year > _CUTOVER_YEAR and gregorian >= _CUTOVER:
        return gregorian
    julian = _day_in(read, year, by, _julian) + days
    if year < _CUTOVER_YEAR and julian < _CUTOVER:
        return julian
    if year < _CUTOVER_YEAR:
        gregorian = julian
    if by in ("D", "w"):
        return julian
    return gregorian if gregorian >= _CUTOVER else julian


def _selected(read: _Read) -> str:
    """What tells the day of the year: the day of the month (d), a week of the month (W), the
    n-th such day of the week in the month (F), the day of the year (D), a week of the year (w).

    Of what is complete that which was set last counts; a week is with its day complete.
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


def _day_in(read: _Read, year: int, by: str, to_day: _ToDay) -> int:
    """The day, in one calendar, that the numbers read make in the way `_selected` found."""
    get = read.get
    if by in ("D", "w"):
        first = to_day(year, 1, 1)
        if by == "D":
            return first + read["D"] - 1
        weekday = _on_or_before(_first_week(first) + 6, get("u", _SUNDAY))
        return weekday + 7 * (get("w", 1) - 1)
    more, month = divmod(get("M", 1) - 1, 12)
    first = to_day(year + more, month + 1, 1)
    if by == "d":
        return first + get("d", 1) - 1
    weekday = get("u", _SUNDAY)
    if by == "W":
        sunday = _first_week(first)
        return _on_or_before(sunday + 6, weekday) + 7 * (get("W", 1) - 1)
    nth = get("F", 1)
    if nth >= 0:
        return _on_or_before(first + 7 * nth - 1, weekday)
    after, of_next = divmod(month + 1, 12)
    length = to_day(year + more + after, of_next + 1, 1) - first
    return _on_or_before(first + length + 7 * (nth + 1) - 1, weekday)


def _years_before(ms: int, years: int) -> int:
    """The same date and time that many years earlier."""
    fields = _fields_of(ms)
    year = fields.year - years
    leap = _gregorian(year, 3, 1) - _gregorian(year, 2, 1) == 29
    day = min(fields.day, 29 if leap else 28) if fields.month == 2 else fields.day
    return (_gregorian(year, fields.month, day) - _UNIX_DAY) * MS_PER_DAY + fields.ms


# Short cuts: they do what the above does for moments that are within ranges and after 1582

_UNITS: Final[Mapping[str, int]] = {
    **dict.fromkeys("GyMdEDFwWzZYuXL", MS_PER_DAY),
    **dict.fromkeys("kHahK", _H),
    "m": 60_000,
    "s": 1000,
    "S": 1,
}


def _unit_of(items: Sequence[_Item]) -> int:
    """All moments within one such number of ms since the epoch have the same text."""
    return min((_UNITS[item.letter] for item in items if item.letter), default=MS_PER_DAY)


_ISO: Final[Mapping[str, int]] = {
    "yyyy-MM-dd HH:mm:ss": 19,
    "yyyy-MM-dd HH:mm:ss.SSS": 23,
}
"""Patterns, and how long their texts are."""

_ATTRIBUTES: Final[Mapping[str, str]] = {
    "y": "year",
    "M": "month",
    "d": "day",
    "H": "hour",
    "m": "minute",
    "s": "second",
}
_MS_SIZE: Final = 3
_NUMBER_GOES_ON: Final = re.compile(r"[\dE]")


def _shape(items: Sequence[_Item]) -> str:
    return "".join(item.letter * item.count or item.text for item in items)


def _iso_shape(items: Sequence[_Item]) -> tuple[str, int, str] | None:
    """What separates date and time of an ISO pattern, how long the text is, and what it ends with
    for UTC (a literal Z, or that of a zone); None for other patterns."""
    shape, end = items, ""
    if shape and (shape[-1].letter == "X" or shape[-1].text == "Z"):
        shape, end = shape[:-1], "Z"
    if len(shape) < 6 or shape[5].letter or shape[5].text not in (" ", "T"):
        return None
    length = _ISO.get(_shape([*shape[:5], _Item("", 0, " "), *shape[6:]]))
    return None if length is None else (shape[5].text, length, end)


def _moment_writer(
    items: Sequence[_Item], slowly: Callable[[datetime], str]
) -> Callable[[datetime], str]:
    letters = [item for item in items if item.letter]
    if len(letters) < 2 or any(
        item.letter not in _ATTRIBUTES
        or (item.letter == "y" and item.count == 2)
        or (item.letter == "M" and item.count > 2)
        for item in letters
    ):
        return slowly
    template = "".join(
        f"%0{item.count}d" if item.letter else item.text.replace("%", "%%") for item in items
    )
    cells = attrgetter(*(_ATTRIBUTES[item.letter] for item in letters))

    def write(moment: datetime) -> str:
        return slowly(moment) if moment < _CUTOVER_MOMENT else template % cells(moment)

    return write


def _moment_reader(
    items: Sequence[_Item], slowly: Callable[[str], datetime]
) -> Callable[[str], datetime]:
    iso = _iso_shape(items)
    if iso is not None:
        separator, length, end = iso
        marks = f"--{separator}::"
        size, point = length + len(end), 19 if length > 19 else None
        from_iso = datetime.fromisoformat

        def read_iso(text: str) -> datetime:
            # The marks are where they should be, so it is this of the ISO forms and no other.
            if (
                len(text) == size
                and text[4:17:3] == marks
                and (point is None or text[point] == ".")
                and (not end or text[-1] == end)
                and text > "1583"
            ):
                try:
                    return from_iso(text[:length] + "+00:00")
                except ValueError:
                    pass
            return slowly(text)

        return read_iso
    return _regex_reader(items, slowly) or slowly


def _regex_reader(
    items: Sequence[_Item], slowly: Callable[[str], datetime]
) -> Callable[[str], datetime] | None:
    """A reader of patterns that are a date in numbers, a time maybe, and marks between them."""
    letters = [item for item in items if item.letter]
    names = [item.letter for item in letters]
    if not set("yMd") <= set(names) or len(set(names)) < len(names):
        return None
    sizes = {"y": 4, "S": _MS_SIZE} | dict.fromkeys("MdHms", 2)
    if any(item.count != sizes.get(item.letter) for item in letters):
        return None
    if any(_NUMBER_GOES_ON.match(item.text) for item in items):
        return None  # what stands there belongs to the number in front of it, as Java reads it
    form = re.compile(
        "".join(
            f"([0-9]{{{item.count}}})" if item.letter else re.escape(item.text) for item in items
        )
    )
    places = [names.index(name) if name in names else None for name in "yMdHms"]
    ms_place = names.index("S") if "S" in names else None
    match = form.fullmatch

    def read(text: str) -> datetime:
        found = match(text)
        if found is None:
            return slowly(text)
        cells = found.groups()
        year, month, day, hour, minute, second = (
            0 if place is None else int(cells[place]) for place in places
        )
        try:
            moment = datetime(
                year,
                month,
                day,
                hour,
                minute,
                second,
                0 if ms_place is None else int(cells[ms_place]) * 1000,
                UTC,
            )
        except ValueError:
            return slowly(text)
        return moment if year > _CUTOVER_YEAR else slowly(text)

    return read
