"""A module of src/penstock has one subject: at most 600 lines, and no banners between subjects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.places import ROOT

SOURCE = ROOT / "src" / "penstock"
MODULES = {
    path.relative_to(SOURCE).as_posix(): path.read_text().splitlines()
    for path in sorted(SOURCE.rglob("*"))
    if path.suffix in {".py", ".java"}
}

MOST_LINES = 600
TABLES = {
    "config/worker_keys.py": "the catalogue of a worker's settings",
    "cluster/events.py": "the catalogue of the herder's events, requests and commands",
    "runtime/metric_table.py": "the catalogue of a worker's metrics",
    "connectors/files/settings/sink.py": "the catalogue of the settings of sinks of files",
}
BANNER = re.compile(r"^\s*(?:#|//)\s*[─━═=*#~_-]{2}")


def banners(lines: list[str]) -> Iterator[int]:
    """The numbers of lines that are banners."""
    for number, line in enumerate(lines, 1):
        if BANNER.match(line):
            yield number


def test_only_tables_have_more_than_600_lines() -> None:
    long = {name: len(lines) for name, lines in MODULES.items() if len(lines) > MOST_LINES}

    assert {name: count for name, count in long.items() if name not in TABLES} == {}
    assert set(TABLES) <= set(long), "a table that has become short need not be listed"


def test_no_module_has_banners() -> None:
    found = {name: list(banners(lines)) for name, lines in MODULES.items()}

    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def test_what_a_banner_is() -> None:
    lines = ["# ── the loop ──", "    // --- keys", "# a comment - with a dash", "x = 1  # ── here"]

    assert list(banners(lines)) == [1, 2]
