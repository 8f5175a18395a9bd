"""Reads the plugins that the `pyproject.toml` of their project declares."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from penstock.plugins.registry import ENTRY_POINTS


def declared_entries(file: Path) -> Mapping[str, str]:
    """The entry points for penstock in a `pyproject.toml`; none without the file or without valid
    ones."""
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    groups = _table(_table(document, "project"), "entry-points")
    entries = _table(groups, ENTRY_POINTS)
    return {name: text for name, text in entries.items() if isinstance(text, str)}


def _table(document: Mapping[str, object], name: str) -> dict[str, object]:
    table = document.get(name)
    return table if isinstance(table, dict) else {}
