"""Date patterns of Java's `DateTimeFormatter`, as far as servers use them in practice.

Supported: `y u M d H h m s S n a E X x Z VV z` and their repetitions, quoted text, and, for
parsing, optional parts in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS: Final = (
    "January February March April May June July August September October November December".split()
)
_DAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_LETTERS: Final = "yuMdHhmsSnaEXxZVz"
_ZONES: Final = r"Z|[+-]\d{2}(?::?\d{2})?(?::?\d{2})?"


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    """The fields, literals and brackets of a pattern, in order."""
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "'":
            end = pattern.find("'", position + 1)
            if end < 0:
                raise ValueError(f"a quote is not closed in the pattern '{pattern}'")
            yield "text", pattern[position + 1 : end] or "'"
            position = end + 1
        elif char in "[]":
            yield char, char
            position += 1
        elif char.isalpha():
            run = re.match(rf"{char}+", pattern[position:])
            assert run is not None
            if char not in _LETTERS:
                raise ValueError(f"'{char}' of the pattern '{pattern}' is not supported")
            yield "field", run[0]
            position += len(run[0])
        else:
            yield "text", char
            position += 1


class DatePattern:
    """A pattern, and the default time zone.

    >>> DatePattern("yyyy-MM-dd'T'HH:mm:ss[.SSS]X").parse("2026-01-31T12:30:00.5Z").isoformat()
    '2026-01-31T12:30:00.500000+00:00'
    >>> DatePattern("yyyy/MM/dd HH:mm").format(datetime(2026, 1, 31, 12, 30, tzinfo=UTC))
    '2026/01/31 12:30'
    """

    def __init__(self, pattern: str, zone: str = "UTC") -> None:
        """Raises ValueError for an invalid pattern or zone."""
        self.pattern = pattern
        self._zone = zone_of(zone)
        self._tokens = tuple(_tokens(pattern))
        text = ""
        depth = 0
        self._fields: list[str] = []
        for kind, run in self._tokens:
            if kind == "[":
                text, depth = f"{text}(?:", depth + 1
            elif kind == "]":
                text, depth = f"{text})?", depth - 1
                if depth < 0:
                    break
            elif kind == "text":
                text += re.escape(run)
            else:
                self._fields.append(run)
                text += f"({_regex_of(run)})"
        if depth:
            raise ValueError(f"the brackets of the pattern '{pattern}' are not balanced")
        self._regex = re.compile(text)

    def parse(self, text: str) -> datetime:
        """Parses a text. Raises ValueError."""
        match = self._regex.fullmatch(text)
        if match is None:
            raise ValueError(f"'{text}' does not match the pattern '{self.pattern}'")
        parts = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "S": 0}
        zone: tzinfo = self._zone
        afternoon = None
        for run, part in zip(self._fields, match.groups(), strict=True):
            if part is None:
                continue
            letter = "y" if run[0] == "u" else run[0]
            if letter == "a":
                afternoon = part.upper() == "PM"
            elif letter in "XxZVz":
                zone = zone_of(part)
            elif letter == "M" and len(run) > 2:
                parts["M"] = 1 + [month[:3] for month in _MONTHS].index(part[:3].capitalize())
            elif letter in "Sn":
                parts["S"] = int((part if letter == "S" else part.zfill(9)).ljust(6, "0")[:6])
            elif letter == "h":
                parts["H"] = int(part) % 12
            elif letter != "E":
                parts[letter] = int(part) + (2000 if run in ("yy", "uu") else 0)
        if afternoon:
            parts["H"] += 12
        y, month, d, hour, minute, second, micros = parts.values()
        return datetime(y, month, d, hour, minute, second, micros, zone)

    def format(self, moment: datetime) -> str:
        """Formats a moment in the pattern's time zone."""
        local = moment.astimezone(self._zone)
        return "".join(
            run if kind == "text" else "" if kind in "[]" else _formatted(run, local)
            for kind, run in self._tokens
        )


def _regex_of(run: str) -> str:
    match run[0]:
        case "M" if len(run) > 2:
            return r"[A-Za-z]+"
        case "E" | "a":
            return r"[A-Za-z]+"
        case "S" | "n":
            return r"\d{1,9}"
        case "y" | "u":
            return r"\d{2}" if len(run) == 2 else r"\d{4,}"
        case "X" | "x" | "Z":
            return _ZONES
        case "V" | "z":
            return r"[A-Za-z0-9/_+:-]+"
    return r"\d{2}" if len(run) == 2 else r"\d{1,2}"


def _formatted(run: str, local: datetime) -> str:
    size = len(run)
    match run[0]:
        case "y" | "u":
            return f"{local.year % 100:02d}" if size == 2 else f"{local.year:0{size}d}"
        case "M" if size > 2:
            name = _MONTHS[local.month - 1]
            return name if size > 3 else name[:3]
        case "E":
            name = _DAYS[local.weekday()]
            return name if size > 3 else name[:3]
        case "S" | "n":
            return f"{local.microsecond:06d}000"[:size] if run[0] == "S" else "0"
        case "a":
            return "PM" if local.hour > 11 else "AM"
        case "h":
            return f"{(local.hour - 1) % 12 + 1:0{size}d}"
        case "X" | "x" | "Z" | "V" | "z":
            return _offset_text(run, local)
    number = {"M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}[run[0]]
    return f"{getattr(local, number):0{size}d}"


def _offset_text(run: str, local: datetime) -> str:
    offset = local.utcoffset() or timedelta()
    if run[0] in "Vz":
        return str(local.tzinfo)
    if run[0] == "X" and not offset:
        return "Z"
    minutes = int(offset.total_seconds()) // 60
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    if len(run) == 1 and run[0] != "Z":
        return f"{sign}{hours:02d}" + (f"{rest:02d}" if rest else "")
    return f"{sign}{hours:02d}{':' if len(run) in (3, 5) else ''}{rest:02d}"


def zone_of(text: str) -> tzinfo:
    """A time zone by name or offset. Raises ValueError."""
    if text in ("Z", "UTC", "GMT"):
        return UTC
    if re.fullmatch(_ZONES, text):
        digits = text[1:].replace(":", "").ljust(6, "0")
        delta = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:6]))
        return timezone(-delta if text[0] == "-" else delta)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"'{text}' is not a time zone") from None


def instant(moment: datetime) -> str:
    """Formats a moment like Java's `Instant`.

    >>> instant(datetime(2026, 1, 31, 12, 30, tzinfo=UTC))
    '2026-01-31T12:30:00Z'
    """
    utc = moment.astimezone(UTC)
    text = utc.strftime("%Y-%m-%dT%H:%M:%S").zfill(20 - 1)
    if utc.microsecond:
        micros = f"{utc.microsecond:06d}"
        text += f".{micros[:3] if micros.endswith('000') else micros}"
    return f"{text}Z"


def moment_of(text: str) -> datetime:
    """Parses a moment formatted by `instant`. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def millis(moment: datetime) -> int:
    """Milliseconds since 1970."""
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))


def of_millis(ms: int) -> datetime:
    """The moment of milliseconds since 1970. Raises ValueError beyond Python's years."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        raise ValueError(f"{ms} is not a time in ms since 1970") from None
