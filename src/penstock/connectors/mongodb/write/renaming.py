"""Renames fields (RenameByMapping, RenameByRegExp). Paths begin with `key` or `value`; inside a
document that is renamed itself, they have its new name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from penstock.api.settings import compile_java

Rename = Callable[[str, str], str]
"""The new name of a field, given the path of its document and its name."""

_GROUP = re.compile(r"\\(.)|\$(?:(\d)|\{(\w+)\})", re.DOTALL)


def by_mapping(entries: Sequence[Mapping[str, str]]) -> Rename | None:
    """Renames fields by their whole path; None if nothing is renamed."""
    names = {entry["oldName"]: entry["newName"] for entry in entries}
    if not names:
        return None
    return lambda path, name: names.get(f"{path}.{name}", name)


def by_patterns(entries: Sequence[Mapping[str, str]]) -> Rename | None:
    """Replaces `pattern` in the names of fields whose whole path matches `regexp`, with Java's
    references to groups (`$1`, `${name}`); None if nothing is renamed."""
    if not entries:
        return None
    rules = [
        (compile_java(entry["regexp"]), compile_java(entry["pattern"]), _template(entry["replace"]))
        for entry in entries
    ]

    @lru_cache(maxsize=4096)
    def rename(path: str, name: str) -> str:
        whole = f"{path}.{name}"
        for regexp, pattern, replace in rules:
            if regexp.fullmatch(whole):
                name = pattern.sub(replace, name)
        return name

    return rename


def _template(text: str) -> str:
    """Java's replacement text, as Python's."""

    def part(reference: re.Match[str]) -> str:
        escaped, number, group = reference.groups()
        if escaped is not None:
            return escaped.replace("\\", "\\\\")
        return f"\\g<{number or group}>"

    parts: list[str] = []
    at = 0
    for reference in _GROUP.finditer(text):
        parts += [text[at : reference.start()].replace("\\", "\\\\"), part(reference)]
        at = reference.end()
    return "".join([*parts, text[at:].replace("\\", "\\\\")])


def rename_document(document: dict[str, Any], path: str, rename: Rename) -> None:
    """Renames the fields of a document and of those in it (not of those in arrays), in place. A
    renamed field comes last; if another field has the new name, that one stays and the renamed one
    is dropped."""
    moved: dict[str, Any] = {}
    for name in list(document):
        value = document[name]
        new = rename(path, name)
        if new != name:
            del document[name]
            if new not in document:
                moved.setdefault(new, value)
        if isinstance(value, dict):
            rename_document(value, f"{path}.{new}", rename)
    document.update(moved)
