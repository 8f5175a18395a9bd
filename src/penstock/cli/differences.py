"""The differences between a stored configuration and another one, by key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cli.show import masked

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One key; `old` is None when it is added, `new` when it is removed or a JSON null."""

    key: str
    old: str | None
    new: str | None
    added: bool = False
    removed: bool = False


def changes(stored: Config, new: Config) -> list[Change]:
    """The changes by key when `new` replaces `stored`."""
    return [
        Change(
            key,
            stored.get(key),
            new.get(key),
            added=key not in stored,
            removed=key not in new,
        )
        for key in sorted({*stored, *new})
        if key not in stored or key not in new or stored[key] != new[key]
    ]


def unified(
    changes: list[Change], old_title: str, new_title: str, *, show_secrets: bool
) -> list[tuple[str, str]]:
    """The changes as lines of a unified difference, each with its style. A changed secret is shown
    as changed, but masked."""
    if not changes:
        return []
    lines = [(f"--- {old_title}", "bold"), (f"+++ {new_title}", "bold")]
    for change in changes:
        if not change.added:
            lines += _lines("-", change.key, change.old, show_secrets, "red")
        if not change.removed:
            lines += _lines("+", change.key, change.new, show_secrets, "green")
    return lines


def document(name: str, exists: bool, changes: list[Change], *, show_secrets: bool) -> object:
    """The changes as JSON, for programs."""

    def side(change: Change, value: str | None) -> str | None:
        return masked(change.key, value, show_secrets)

    return {
        "name": name,
        "exists": exists,
        "added": {c.key: side(c, c.new) for c in changes if c.added},
        "removed": {c.key: side(c, c.old) for c in changes if c.removed},
        "changed": {
            c.key: {"from": side(c, c.old), "to": side(c, c.new)}
            for c in changes
            if not c.added and not c.removed
        },
    }


def _lines(
    sign: str, key: str, value: str | None, show_secrets: bool, style: str
) -> list[tuple[str, str]]:
    shown = masked(key, value, show_secrets)
    first, *more = f"{key}={'(null)' if shown is None else shown}".split("\n")
    return [(f"{sign}{first}", style), *((f"{sign}  {line}", style) for line in more)]
