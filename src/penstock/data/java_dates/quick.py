"""Fast paths for common patterns. They fall back to `DateFormat` for moments before 1583 and texts
of another shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final

from penstock.data.java_dates.calendar import CUTOVER_MOMENT, CUTOVER_YEAR, HOUR_MS
from penstock.data.java_dates.patterns import Item
from penstock.data.logical import MS_PER_DAY

_UNITS: Final[Mapping[str, int]] = {
    **dict.fromkeys("GyMdEDFwWzZYuXL", MS_PER_DAY),
    **dict.fromkeys("kHahK", HOUR_MS),
    "m": 60_000,
    "s": 1000,
    "S": 1,
}


def unit_of(items: Sequence[Item]) -> int:
    """The smallest unit of a pattern in ms: all moments within one have the same text."""
    return min((_UNITS[item.letter] for item in items if item.letter), default=MS_PER_DAY)


_ISO: Final[Mapping[str, int]] = {
    "yyyy-MM-dd HH:mm:ss": 19,
    "yyyy-MM-dd HH:mm:ss.SSS": 23,
}
"""Patterns, and the length of their texts."""

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


def _shape(items: Sequence[Item]) -> str:
    return "".join(item.letter * item.count or item.text for item in items)


def _iso_shape(items: Sequence[Item]) -> tuple[str, int, str] | None:
    """The separator of date and time of an ISO pattern, the length of its texts, and their ending
    for UTC (Z or nothing); None for other patterns."""
    shape, end = items, ""
    if shape and (shape[-1].letter == "X" or shape[-1].text == "Z"):
        shape, end = shape[:-1], "Z"
    if len(shape) < 6 or shape[5].letter or shape[5].text not in (" ", "T"):
        return None
    length = _ISO.get(_shape([*shape[:5], Item("", 0, " "), *shape[6:]]))
    return None if length is None else (shape[5].text, length, end)


def moment_writer(
    items: Sequence[Item], slowly: Callable[[datetime], str]
) -> Callable[[datetime], str]:
    """A function that writes moments in UTC; `slowly` does it for those before 1583."""
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
        return slowly(moment) if moment < CUTOVER_MOMENT else template % cells(moment)

    return write


def moment_reader(
    items: Sequence[Item], slowly: Callable[[str], datetime]
) -> Callable[[str], datetime]:
    """A function that reads texts; `slowly` reads those that are not in the usual shape."""
    iso = _iso_shape(items)
    if iso is not None:
        separator, length, end = iso
        marks = f"--{separator}::"
        size, point = length + len(end), 19 if length > 19 else None
        from_iso = datetime.fromisoformat

        def read_iso(text: str) -> datetime:
            # With the marks in place, it cannot be another ISO form.
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
    items: Sequence[Item], slowly: Callable[[str], datetime]
) -> Callable[[str], datetime] | None:
    """A reader for patterns of a numeric date, perhaps with a time, and literals between."""
    letters = [item for item in items if item.letter]
    names = [item.letter for item in letters]
    if not set("yMd") <= set(names) or len(set(names)) < len(names):
        return None
    sizes = {"y": 4, "S": _MS_SIZE} | dict.fromkeys("MdHms", 2)
    if any(item.count != sizes.get(item.letter) for item in letters):
        return None
    if any(_NUMBER_GOES_ON.match(item.text) for item in items):
        return None  # to Java, this literal is part of the number before it
    form = re.compile(
        "".join(
            f"([0-9]{{{item.count}}})" if item.letter else re.escape(item.text) for item in items
        )
    )
    places = [names.index(name) if name in names else None for name in "yMdHms"]
    ms_place = names.index("S") if "S" in names else None
    match = form.fullmatch

    def read(text: str) -> datetime:
        matched = match(text)
        if matched is None:
            return slowly(text)
        cells = matched.groups()
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
        return moment if year > CUTOVER_YEAR else slowly(text)

    return read
