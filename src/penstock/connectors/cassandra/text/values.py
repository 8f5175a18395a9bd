"""Values parsed from text like DataStax's codecs: numbers, timestamps, durations (connectors.md
§7.1)."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Final
from zoneinfo import ZoneInfo

from penstock.api import DataError
from penstock.api.dates import DateFormat, PatternInvalid, Unparseable
from penstock.api.schema import EPOCH

UNITS: Final = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}
"""Java's time units, in nanoseconds."""

_SEPARATORS: Final = {
    "en": (",", "."), "zh": (",", "."), "ja": (",", "."), "ko": (",", "."), "th": (",", "."),
    "he": (",", "."), "de": (".", ","), "es": (".", ","), "it": (".", ","), "nl": (".", ","),
    "pt": (".", ","), "tr": (".", ","), "id": (".", ","), "da": (".", ","), "el": (".", ","),
    "fr": ("\u202f", ","), "ru": ("\u00a0", ","), "pl": ("\u00a0", ","), "cs": ("\u00a0", ","),
    "sv": ("\u00a0", ","), "fi": ("\u00a0", ","), "nb": ("\u00a0", ","), "no": ("\u00a0", ","),
    "uk": ("\u00a0", ","), "hu": ("\u00a0", ","),
}  # fmt: skip
"""The grouping and the decimal separator of each language."""

_ISO: Final = {
    "ISO_LOCAL_DATE": "date", "ISO_DATE": "date", "BASIC_ISO_DATE": "date",
    "ISO_LOCAL_TIME": "time", "ISO_TIME": "time", "ISO_LOCAL_DATE_TIME": "moment",
    "ISO_DATE_TIME": "moment", "ISO_OFFSET_DATE_TIME": "moment", "ISO_ZONED_DATE_TIME": "moment",
    "ISO_INSTANT": "moment", "CQL_TIMESTAMP": "moment", "UNITS_SINCE_EPOCH": "units",
}  # fmt: skip
_WORDS: Final = {
    "1": True, "y": True, "t": True, "yes": True, "true": True,
    "0": False, "n": False, "f": False, "no": False, "false": False,
}  # fmt: skip
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MOMENT: Final = re.compile(
    r"(?P<date>[+-]?\d{4,9}-\d\d-\d\d)"
    r"(?:[T ](?P<time>\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?))?"
    r"\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?(?::?\d\d)?|[A-Z]{3,4})?(?:\[(?P<region>[^\]]+)\])?",
    re.ASCII,
)
_DURATION_PARTS: Final = (
    ("y", 12, 0, 0), ("mo", 1, 0, 0), ("w", 0, 7, 0), ("d", 0, 1, 0),
    ("h", 0, 0, 3_600_000_000_000), ("ms", 0, 0, 1_000_000), ("m", 0, 0, 60_000_000_000),
    ("s", 0, 0, 1_000_000_000), ("us", 0, 0, 1_000), ("µs", 0, 0, 1_000), ("ns", 0, 0, 1),
)  # fmt: skip
_DURATION: Final = re.compile(r"(\d+)(mo|ms|us|µs|ns|y|w|d|h|m|s)", re.IGNORECASE)
_ISO_DURATION: Final = re.compile(
    r"P(?:(\d+)W|(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?)"
)
_EPOCH_DAY: Final = date(1970, 1, 1)
DAY_NS: Final = 86_400_000_000_000


class FormatInvalid(ValueError):
    """A codec setting is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The formats of values in text: `topic.⟨topic⟩.codec.*`. Creation raises FormatInvalid."""

    locale: str = "en_US"
    zone: str = "UTC"
    timestamp: str = "CQL_TIMESTAMP"
    date: str = "ISO_LOCAL_DATE"
    time: str = "ISO_LOCAL_TIME"
    unit: str = "MILLISECONDS"

    def __post_init__(self) -> None:
        if self.language not in _SEPARATORS:
            raise FormatInvalid(f"unknown locale {self.locale}")
        if self.unit not in UNITS:
            raise FormatInvalid(f"{self.unit} is not a unit; units are {', '.join(UNITS)}")
        zone_of(self.zone)
        for pattern in (self.timestamp, self.date, self.time):
            pattern_of(pattern)

    @property
    def language(self) -> str:
        return re.split(r"[_-]", self.locale)[0].lower()

    def number(self, text: str) -> Decimal:
        """Parses a number. Raises DataError."""
        plain = text.strip()
        if not _NUMBER.fullmatch(plain):
            group, point = _SEPARATORS[self.language]
            for separator in {group, "\u00a0", "\u202f", " "} if group not in ",." else {group}:
                plain = plain.replace(separator, "")
            plain = plain.replace(point, ".")
        try:
            if _NUMBER.fullmatch(plain):
                return Decimal(plain)
        except InvalidOperation:
            pass
        word = _WORDS.get(text.strip().lower())
        if word is not None:
            return Decimal(word)
        raise DataError(f"'{text}' is not a number")

    def boolean(self, text: str) -> bool:
        """Parses one of DataStax's words for true and false. Raises DataError."""
        word = _WORDS.get(text.strip().lower())
        if word is None:
            raise DataError(f"'{text}' is neither true nor false")
        return word

    def timestamp_ms(self, text: str) -> int:
        """Parses a timestamp, in ms since the epoch; numbers count `unit`. Raises DataError."""
        kind = _ISO.get(self.timestamp)
        stripped = text.strip()
        if kind == "moment":
            match = _MOMENT.fullmatch(stripped)
            if match is not None:
                return self._moment_ms(stripped, match)
        elif kind is None:
            try:
                return _patterned(self.timestamp, stripped, zone_of(self.zone))
            except Unparseable:
                pass
        if _NUMBER.fullmatch(stripped):
            return self.units_ms(Decimal(stripped))
        raise DataError(f"'{text}' is not a timestamp of the form {self.timestamp}")

    def units_ms(self, number: int | float | Decimal) -> int:
        """Converts a number of `unit` to ms."""
        unit = UNITS[self.unit]
        if isinstance(number, int):
            return number * unit // 1_000_000
        return int(Decimal(number) * unit / 1_000_000)

    def days(self, text: str) -> int:
        """Parses a date, in days since the epoch; numbers count `unit`. Raises DataError."""
        stripped = text.strip()
        if self.date == "BASIC_ISO_DATE" and len(stripped) == 8 and stripped.isdecimal():
            stripped = f"{stripped[:4]}-{stripped[4:6]}-{stripped[6:]}"
        if _ISO.get(self.date) in ("date", "moment"):
            try:
                return (date.fromisoformat(stripped[:10]) - _EPOCH_DAY).days
            except ValueError:
                pass
        elif self.date not in _ISO:
            try:
                return _patterned(self.date, stripped, UTC) // 86_400_000
            except Unparseable:
                pass
        if _NUMBER.fullmatch(stripped):
            return self.units_ms(Decimal(stripped)) // 86_400_000
        raise DataError(f"'{text}' is not a date of the form {self.date}")

    def day_ns(self, text: str) -> int:
        """Parses a time, in ns since midnight; numbers count `unit`. Raises DataError."""
        stripped = text.strip()
        if _ISO.get(self.time) in ("time", "moment"):
            match = re.fullmatch(
                r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|[+-].*)?", stripped
            )
            if match is not None:
                hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
                if hours < 24 and minutes < 60 and seconds < 60:
                    nanos = int((match[4] or "").ljust(9, "0"))
                    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos
        elif self.time not in _ISO:
            try:
                return _patterned(self.time, stripped, UTC) % 86_400_000 * 1_000_000
            except Unparseable:
                pass
        if _NUMBER.fullmatch(stripped):
            return self.units_day_ns(Decimal(stripped))
        raise DataError(f"'{text}' is not a time of the form {self.time}")

    def units_day_ns(self, number: int | float | Decimal) -> int:
        """Converts a number of `unit` since midnight to ns. Raises DataError beyond a day."""
        nanos = int(Decimal(number) * UNITS[self.unit])
        if not 0 <= nanos < DAY_NS:
            raise DataError(f"{number} {self.unit.lower()} is not a time of day")
        return nanos

    def _moment_ms(self, text: str, match: re.Match[str]) -> int:
        try:
            day = date.fromisoformat(match["date"])
            clock = time.fromisoformat((match["time"] or "00:00").replace(",", ".")[:15])
            zone = zone_of(match["region"] or match["zone"] or self.zone)
        except (ValueError, FormatInvalid) as error:
            raise DataError(f"'{text}' is not a timestamp: {error}") from error
        moment = datetime.combine(day, clock, zone)
        return (moment - EPOCH) // timedelta(milliseconds=1)


def zone_of(name: str) -> tzinfo:
    """A time zone by name or offset. Raises FormatInvalid."""
    if name in ("Z", "UTC", "GMT"):
        return UTC
    match = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d\d?)(?::?(\d\d))?(?::?(\d\d))?", name)
    try:
        if match is not None:
            offset = timedelta(
                hours=int(match[2]), minutes=int(match[3] or 0), seconds=int(match[4] or 0)
            )
            return _fixed(-offset if match[1] == "-" else offset)
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise FormatInvalid(f"{name} is not a time zone") from error


def _fixed(offset: timedelta) -> tzinfo:
    from datetime import timezone

    return timezone(offset)


def pattern_of(text: str) -> DateFormat | None:
    """Compiles a date pattern of Java; None for a predefined format. Raises FormatInvalid."""
    if text in _ISO:
        return None
    try:
        return DateFormat(re.sub(r"u+", lambda match: "y" * len(match[0]), text))
    except PatternInvalid as error:
        raise FormatInvalid(
            f"'{text}' is neither a date pattern nor one of {', '.join(sorted(_ISO))}: {error}"
        ) from error


def _patterned(pattern: str, text: str, zone: tzinfo) -> int:
    """Parses a text by a pattern, in ms since the epoch; `zone`: the default time zone."""
    compiled = pattern_of(pattern)
    assert compiled is not None
    ms = compiled.parse(text)
    if zone is UTC or any(letter in re.sub(r"'[^']*'", "", pattern) for letter in "zZX"):
        return ms
    local = (EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=zone)
    return (local - EPOCH) // timedelta(milliseconds=1)


def blob_of(text: str) -> bytes:
    """Decodes hexadecimal (0x…) or Base64. Raises DataError."""
    if text[:2].lower() == "0x":
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            pass
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"'{text[:40]}' is neither hexadecimal (0x…) nor Base64") from error


def duration_of(text: str) -> tuple[int, int, int]:
    """Parses a duration of CQL (`1y2mo3d4h`) or ISO 8601 into months, days and nanoseconds. Raises
    DataError.

    >>> duration_of("1y2mo3d4h"), duration_of("-P1DT2S")
    ((14, 3, 14400000000000), (0, -1, -2000000000))
    """
    stripped = text.strip()
    sign = -1 if stripped.startswith("-") else 1
    body = stripped.lstrip("+-")
    iso = _ISO_DURATION.fullmatch(body)
    if iso is not None and body not in ("P", "PT"):
        weeks, years, months, days, hours, minutes, seconds = (
            int(group or 0) for group in iso.groups()
        )
        nanos = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000
        return sign * (years * 12 + months), sign * (weeks * 7 + days), sign * nanos
    units = {name: rest for name, *rest in _DURATION_PARTS}
    parts = _DURATION.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise DataError(f"'{text}' is not a duration such as 1y2mo3d4h5m6s or P1DT2H")
    months = days = nanos = 0
    for number, unit in parts:
        month, day, nano = units[unit.lower()]
        months += int(number) * month
        days += int(number) * day
        nanos += int(number) * nano
    return sign * months, sign * days, sign * nanos
