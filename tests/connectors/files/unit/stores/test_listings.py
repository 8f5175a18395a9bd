"""Listings of real FTP servers."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.connectors.files.stores.folders import DAY_MS, MINUTE_MS, SECOND_MS, Item, Kind
from penstock.connectors.files.stores.listings import items_of, list_item, mdtm_ms, mlsd_item

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def file(name: str, size: int, time: str, precision: int) -> Item:
    return Item(name, Kind.FILE, size, ms(time), precision)


@pytest.mark.parametrize(
    ("line", "item"),
    [
        (
            "-rw-r--r--   1 root     wheel    12345 Mar  9 08:07 a.csv",
            file("a.csv", 12345, "2026-03-09T08:07", MINUTE_MS),
        ),
        (  # later in the year than now: last year's
            "-rw-r--r--   1 root     wheel        0 Nov 30 23:59 empty",
            file("empty", 0, "2025-11-30T23:59", MINUTE_MS),
        ),
        (  # a server whose clock is ahead
            "-rw-r--r--   1 root     wheel        1 Mar 10 20:00 ahead",
            file("ahead", 1, "2026-03-10T20:00", MINUTE_MS),
        ),
        (  # a leap day, some years ago
            "-rw-r--r--   1 root     wheel        1 Feb 29 01:00 leap",
            file("leap", 1, "2024-02-29T01:00", MINUTE_MS),
        ),
        (
            "-rw-rw-rw-+  1 1001 1002 5000000000 Jan  5  2019 old file",
            file("old file", 5_000_000_000, "2019-01-05T00:00", DAY_MS),
        ),
        (  # no group; a name that begins with blanks
            "-rwxr-xr-x 1 ftp 17 Mar  9 08:07   x",
            file("  x", 17, "2026-03-09T08:07", MINUTE_MS),
        ),
        (  # a name that looks like a date
            "-rw-r--r-- 1 o g 3 Mar 09 08:07 9 Mar 08:07 b",
            file("9 Mar 08:07 b", 3, "2026-03-09T08:07", MINUTE_MS),
        ),
        (
            "-rw-r--r-- 1 domain users 3 2026-03-09 08:07 iso",
            file("iso", 3, "2026-03-09T08:07", MINUTE_MS),
        ),
        (
            "-rw-r--r-- 1 o g 3 2026-03-09 08:07:06.000000000 +0100 full",
            file("full", 3, "2026-03-09T07:07:06", SECOND_MS),
        ),
        (
            "drwxr-xr-x 2 o g 4096 Mar  9 08:07 in",
            Item("in", Kind.FOLDER, 4096, ms("2026-03-09T08:07"), MINUTE_MS),
        ),
        (
            "lrwxrwxrwx 1 o g 7 Mar  9 08:07 now -> a.csv",
            Item("now", Kind.LINK, 7, ms("2026-03-09T08:07"), MINUTE_MS),
        ),
        (
            "prw-r--r-- 1 o g 0 Mar  9 08:07 pipe",
            Item("pipe", Kind.OTHER, 0, ms("2026-03-09T08:07"), MINUTE_MS),
        ),
        (
            "03-09-26  08:07AM                12345 a b.csv",
            file("a b.csv", 12345, "2026-03-09T08:07", MINUTE_MS),
        ),
        (
            "03-09-2026  12:30PM            1,234 noon.csv",
            file("noon.csv", 1234, "2026-03-09T12:30", MINUTE_MS),
        ),
        (
            "12-31-99  12:01AM       <DIR>          old",
            Item("old", Kind.FOLDER, 0, ms("1999-12-31T00:01"), MINUTE_MS),
        ),
        (
            "2026-03-09  20:07       77 24h.txt",
            file("24h.txt", 77, "2026-03-09T20:07", MINUTE_MS),
        ),
        (
            "- [RWCEAFMS] rjs   214059       Oct 20 15:27 rx.dat",
            file("rx.dat", 214059, "2025-10-20T15:27", MINUTE_MS),
        ),
        (
            "d [R----F--] supervisor      512       Jan 16 18:53 login",
            Item("login", Kind.FOLDER, 512, ms("2026-01-16T18:53"), MINUTE_MS),
        ),
        (
            "+i8388621.48594,m825718503,r,s280,\tdjb.html",
            Item("djb.html", Kind.FILE, 280, 825_718_503_000, SECOND_MS),
        ),
        ("+i8388621.50690,m824255907,/,\t514", Item("514", Kind.FOLDER, -1, 824_255_907_000)),
    ],
)
def test_a_line_of_list(line: str, item: Item) -> None:
    assert list_item(line, NOW, UTC) == item
    assert list_item(line + "\r", NOW, UTC) == item


def test_times_of_list_are_of_the_servers_clock() -> None:
    zone = ZoneInfo("America/New_York")
    winter = list_item("-rw-r--r-- 1 o g 3 Jan  9 08:00 a", NOW, zone)
    summer = list_item("-rw-r--r-- 1 o g 3 Jul  9 08:00 a", NOW, zone)
    windows = list_item("01-09-26  08:00AM  3 a", NOW, zone)
    assert winter is not None
    assert summer is not None
    assert windows is not None
    assert winter.modified_ms == windows.modified_ms == ms("2026-01-09T13:00")
    assert summer.modified_ms == ms("2025-07-09T12:00")


@pytest.mark.parametrize(
    ("line", "item"),
    [
        (
            "type=file;size=25;modify=20260309080706; a; b = c",
            file("a; b = c", 25, "2026-03-09T08:07:06", SECOND_MS),
        ),
        (
            "Size=1;Modify=20260309080706.25;Type=FILE;UNIX.mode=0644; -x",
            Item("-x", Kind.FILE, 1, ms("2026-03-09T08:07:06") + 250, 1),
        ),
        (
            "type=dir;modify=20260309080706; in",
            Item("in", Kind.FOLDER, -1, ms("2026-03-09T08:07:06")),
        ),
        ("type=OS.unix=slink:/a;size=1; l", Item("l", Kind.LINK, 1, -1)),
        ("type=OS.unix=chr-13/29;size=1; dev", Item("dev", Kind.OTHER, 1, -1)),
        ("type=file; unsaid", Item("unsaid", Kind.FILE, -1, -1)),
        ("type=cdir;modify=20260309080706; /in", None),
        ("type=pdir;modify=20260309080706; ..", None),
    ],
)
def test_a_line_of_mlsd(line: str, item: Item | None) -> None:
    assert mlsd_item(line) == item


def test_a_time_that_is_none_is_none() -> None:
    assert mdtm_ms("20261309080706") is None
    assert mdtm_ms("yesterday") is None


def test_lines_that_are_no_items_are_told_apart() -> None:
    lines = [
        "total 8",
        "drwxr-xr-x 2 o g 4096 Mar  9 08:07 .",
        "drwxr-xr-x 2 o g 4096 Mar  9 08:07 ..",
        "",
        "-rw-r--r-- 1 o g 3 Mar  9 08:07 a",
        "A.TXT;1   2/3  9-MAR-2026 08:07 [SYSTEM] (RWED,RWED,RE,)",
    ]
    items, strange = items_of(lines, lambda line: list_item(line, NOW, UTC))
    assert [item.name for item in items] == ["a"]
    assert strange == lines[-1:]
