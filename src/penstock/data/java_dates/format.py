"""The format of one pattern."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from penstock.data.java_dates.calendar import fields_of, years_before
from penstock.data.java_dates.patterns import Item, items_of
from penstock.data.java_dates.quick import moment_reader, moment_writer, unit_of
from penstock.data.java_dates.reading import (
    BLANKS,
    NUMBER,
    SETS,
    Numbers,
    Unparseable,
    int_value,
    obeys_count,
    parse_name,
    parse_zone,
    put,
)
from penstock.data.java_dates.resolving import resolved
from penstock.data.java_dates.writing import writer
from penstock.data.logical import ms_to_timestamp, timestamp_to_ms

_MOST_REMEMBERED: Final = 4096
_FIRST_QUICK_MS, _LAST_QUICK_MS = -2_208_988_800_000, 4_102_444_800_000  # 1900 to 2100


class DateFormat:
    """One compiled pattern. Raises PatternInvalid for an invalid one.

    A two-digit year is in the hundred years that begin 80 years before `now_ms`, which matters only
    if `reads_short_years`.

    >>> format = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSSX")
    >>> format.format(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    >>> format.parse("2023-11-14T23:13:20.123+01")
    1700000000123
    """

    def __init__(self, pattern: str, now_ms: int = 0) -> None:
        self.pattern = pattern
        self._items = items_of(pattern)
        self._writers = [writer(item) for item in self._items]
        self._century = years_before(now_ms, 80)
        self._century_year = fields_of(self._century).year
        self._memo: dict[int, str] = {}
        self.unit_ms = unit_of(self._items)
        self.format_moment = moment_writer(self._items, self._format_slowly)
        self.parse_moment = moment_reader(self._items, self._parse_slowly)

    @property
    def reads_short_years(self) -> bool:
        """Whether reading may depend on `now_ms`."""
        return any(item.letter in "yY" and item.count <= 2 for item in self._items if item.letter)

    format_moment: Callable[[datetime], str]
    """The text of an aware moment in UTC."""

    parse_moment: Callable[[str], datetime]
    """The moment of a text; raises Unparseable, or DataError outside the years 1 to 9999."""

    def format(self, ms: int) -> str:
        """The text of a moment."""
        fields = fields_of(ms)
        return "".join([write(fields) for write in self._writers])

    def format_known(self, ms: int) -> str:
        """`format` with a cache: faster if many moments have the same text, as in a pattern without
        hours."""
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
        """The moment of a text; raises Unparseable."""
        read: Numbers = {}
        at = 0
        at_the_edge = False
        for place, item in enumerate(self._items):
            if not item.letter:
                if not text.startswith(item.text, at):
                    raise Unparseable(text)
                at += len(item.text)
                continue
            following = self._items[place + 1] if place + 1 < len(self._items) else None
            at, short_year = self._parse_item(item, obeys_count(following), text, at, read)
            if short_year is not None:
                at_the_edge = short_year == self._century_year % 100
        if at == 0:
            raise Unparseable(text)  # to Java, an empty pattern reads nothing, which is an error
        ms = resolved(read)
        if at_the_edge and ms < self._century:
            for letter in "yY":
                if letter in read:
                    read[letter] += 100
            ms = resolved(read)
        return ms

    def _parse_item(
        self, item: Item, obey_count: bool, text: str, start: int, read: Numbers
    ) -> tuple[int, int | None]:
        """Reads one piece. Returns where it ends and, for a two-digit year, its digits."""
        letter, count = item.letter, item.count
        blanks = BLANKS.match(text, start)
        at = blanks.end() if blanks else start
        if at >= len(text):
            raise Unparseable(text)
        if letter in "zZX":
            return parse_zone(item, text, start, at, read), None
        if letter in "GEa" or (letter in "ML" and count >= 3):
            return parse_name(letter, text, start, read), None
        if obey_count and start + count > len(text):
            raise Unparseable(text)
        match = NUMBER.match(text, at, start + count if obey_count else len(text))
        if match is None:
            raise Unparseable(text)
        value, short_year = int_value(match[0]), None
        if letter in "yY":
            if count <= 2 and match.end() - at == 2 and match[0].isdecimal():
                short_year = value
                century, pivot = divmod(self._century_year, 100)
                value += (century + (value < pivot)) * 100
        elif (letter == "k" and value == 24) or (letter == "h" and value == 12):
            value = 0
        elif letter == "u" and 1 <= value <= 7:
            value = value % 7 + 1
        put(read, SETS.get(letter, letter), value)
        return match.end(), short_year

    def _format_slowly(self, moment: datetime) -> str:
        return self.format(timestamp_to_ms(moment))

    def _parse_slowly(self, text: str) -> datetime:
        return ms_to_timestamp(self.parse(text))
