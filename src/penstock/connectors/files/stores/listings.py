"""Folder listings of FTP servers: MLSD (RFC 3659) and the dialects of LIST.

LIST has no standard. The dialects here are those of Unix (`ls -l`, also with ISO dates), of
Windows, of NetWare, and EPLF. A time without a zone is in the zone of the server's clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from penstock.connectors.files.stores.folders import (
    DAY_MS,
    MINUTE_MS,
    SECOND_MS,
    Item,
    Kind,
)

_MONTHS: Final = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)
}
_TYPES: Final = {"-": Kind.FILE, "d": Kind.FOLDER, "l": Kind.LINK}
_DATE: Final = r"(?P<month>[A-Za-z]{3})\s+(?P<day>\d{1,2})\s+(?P<rest>\d{4}|\d{1,2}:\d{2})"
_UNIX: Final = re.compile(
    r"(?P<type>[bcdlps-])[rwxsStTlL-]{9}\S?\s.*?(?P<size>\d+)\s+"
    rf"(?:{_DATE}|(?P<iso>\d{{4}}-\d\d-\d\d \d\d:\d\d(?::\d\d)?)\S*(?P<zone> [+-]\d{{4}})?)"
    r" (?P<name>.+)"
)
_NETWARE: Final = re.compile(
    rf"(?P<type>[d-])\s*\[\S{{8}}\]\s+\S+\s+(?P<size>\d+)\s+{_DATE} (?P<name>.+)"
)
_WINDOWS: Final = re.compile(
    r"(?P<date>\d\d-\d\d-\d{2}(?:\d{2})?|\d{4}-\d\d-\d\d)\s+(?P<time>\d{1,2}:\d\d)\s?"
    r"(?P<half>[AaPp][Mm])?\s+(?:<(?P<type>DIR|JUNCTION|SYMLINKD?)>|(?P<size>[\d,.]+))"
    r"\s+(?P<name>\S.*)"
)
_EPLF: Final = re.compile(r"\+(?P<facts>[^\t]*)\t(?P<name>.+)")
_MODIFY: Final = re.compile(r"(\d{14})(?:\.(\d{1,3}))?\d*")
_LATER: Final = timedelta(days=1)  # how far the server's clock and zone may be ahead of ours


def mlsd_item(line: str) -> Item | None:
    """An item of a machine-readable listing; None for a line that is not an item of the folder.

    >>> mlsd_item("Type=file;Size=3;Modify=20240229130000; a b").name
    'a b'
    """
    facts, blank, name = line.partition(" ")
    if not blank or not name:
        return None
    values = {
        key.lower(): value for key, _, value in (fact.partition("=") for fact in facts.split(";"))
    }
    kind = values.get("type", "").lower()
    name = name.rstrip("/").rpartition("/")[2] or name
    if kind in ("cdir", "pdir") or name in (".", ".."):
        return None
    size, modified_ms = values.get("size", ""), mdtm_ms(values.get("modify", ""))
    exact = "." in values.get("modify", "")
    return Item(
        name,
        _mlsd_kind(kind),
        int(size) if size.isdecimal() else -1,
        -1 if modified_ms is None else modified_ms,
        1 if exact else SECOND_MS,
    )


def _mlsd_kind(text: str) -> Kind:
    if text in ("file", "dir"):
        return Kind.FILE if text == "file" else Kind.FOLDER
    return Kind.LINK if "link" in text else Kind.OTHER


def mdtm_ms(text: str) -> int | None:
    """A time as RFC 3659 writes it, `YYYYMMDDHHMMSS.sss` in UTC.

    >>> mdtm_ms("19700101000001.5")
    1500
    """
    match = _MODIFY.fullmatch(text.strip())
    if match is None:
        return None
    try:
        moment = datetime.strptime(match[1], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return _ms(moment) + int((match[2] or "").ljust(3, "0"))


def list_item(line: str, now: datetime, zone: tzinfo | None) -> Item | None:
    """An item of a human-readable listing; None for other lines, such as `total 8`.

    `now` determines the year of dates without one. `zone` is that of the server's clock; None: the
    zone of this machine.
    """
    for dialect in (_unix, _windows, _netware, _eplf):
        item = dialect(line.rstrip("\r\n"), now, zone)
        if item is not None:
            return None if item.name in (".", "..") else item
    return None


def _unix(line: str, now: datetime, zone: tzinfo | None) -> Item | None:
    match = _UNIX.fullmatch(line)
    if match is None:
        return None
    kind, name = _TYPES.get(match["type"], Kind.OTHER), match["name"]
    if kind is Kind.LINK:
        name = name.partition(" -> ")[0]
    if match["iso"]:
        modified, precision = _iso(match["iso"], match["zone"], zone)
    else:
        modified, precision = _date(match, now, zone)
    return Item(name, kind, int(match["size"]), modified, precision)


def _netware(line: str, now: datetime, zone: tzinfo | None) -> Item | None:
    match = _NETWARE.fullmatch(line)
    if match is None:
        return None
    kind = Kind.FOLDER if match["type"] == "d" else Kind.FILE
    return Item(match["name"], kind, int(match["size"]), *_date(match, now, zone))


def _windows(line: str, now: datetime, zone: tzinfo | None) -> Item | None:
    match = _WINDOWS.fullmatch(line)
    if match is None:
        return None
    numbers = [int(number) for number in match["date"].split("-")]
    if numbers[0] > 99:
        year, month, day = numbers
    else:
        month, day, year = numbers
        year += 0 if year > 99 else 2000 if year < 70 else 1900
    hour, minute = (int(number) for number in match["time"].split(":"))
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    modified = _moment(zone, year, month, day, hour, minute)
    size = int(re.sub(r"\D", "", match["size"] or "0"))
    kind = {None: Kind.FILE, "DIR": Kind.FOLDER, "SYMLINK": Kind.LINK}.get(
        match["type"], Kind.FOLDER
    )
    return Item(match["name"], kind, size, modified, MINUTE_MS)


def _eplf(line: str, now: datetime, zone: tzinfo | None) -> Item | None:
    match = _EPLF.fullmatch(line)
    if match is None:
        return None
    kind, size, modified = Kind.OTHER, -1, -1
    for fact in match["facts"].split(","):
        if fact == "/":
            kind = Kind.FOLDER
        elif fact == "r":
            kind = Kind.FILE
        elif fact[:1] == "s" and fact[1:].isdecimal():
            size = int(fact[1:])
        elif fact[:1] == "m" and fact[1:].isdecimal():
            modified = int(fact[1:]) * 1000
    return Item(match["name"], kind, size, modified, SECOND_MS)


def _iso(text: str, offset: str | None, zone: tzinfo | None) -> tuple[int, int]:
    exact = text.count(":") == 2
    moment = datetime.fromisoformat(text)
    if offset:
        moment = datetime.strptime(f"{text}{offset}", f"%Y-%m-%d %H:%M{':%S' if exact else ''} %z")
    return _of_clock(moment, zone), SECOND_MS if exact else MINUTE_MS


def _date(match: re.Match[str], now: datetime, zone: tzinfo | None) -> tuple[int, int]:
    """A date with a year, or with a time within the last twelve months."""
    month, day, rest = _MONTHS.get(match["month"].lower(), 0), int(match["day"]), match["rest"]
    if ":" not in rest:
        return _moment(zone, int(rest), month, day, 0, 0), DAY_MS
    hour, minute = (int(number) for number in rest.split(":"))
    for year in range(now.year + 1, now.year - 9, -1):  # February 29 may be years ago
        modified = _moment(zone, year, month, day, hour, minute)
        if 0 <= modified <= _ms(now + _LATER):
            return modified, MINUTE_MS
    return -1, MINUTE_MS


def _moment(zone: tzinfo | None, *date: int) -> int:
    """A time of the server's clock in ms since the epoch; -1 if it does not exist."""
    year, month, day, hour, minute = date
    try:
        return _of_clock(datetime(year, month, day, hour, minute), zone)  # noqa: DTZ001
    except ValueError:
        return -1


def _of_clock(moment: datetime, zone: tzinfo | None) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    return _ms(moment)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def items_of(
    lines: Sequence[str], read: Callable[[str], Item | None]
) -> tuple[list[Item], list[str]]:
    """The items of a listing, and its lines in unknown formats."""
    items: list[Item] = []
    unknown: list[str] = []
    for line in lines:
        item = read(line)
        if item is not None:
            items.append(item)
        elif line.strip() and not _is_known_noise(line):
            unknown.append(line)
    return items, unknown


def _is_known_noise(line: str) -> bool:
    name = line.rstrip("\r\n").rpartition(" ")[2]
    return name in (".", "..") or bool(re.match(r"total \d|(?i:type=[cp]dir;)", line))
