"""New names of fields (RenameByMapping, RenameByRegExp). Paths begin with `key` or `value`; inside
of a document that is renamed itself, they have its new name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from penstock.api.settings import compile_java

Rename = Callable[[str, str], str]
"""The name of a field, by the path of its document and its own."""

_GROUP = re.compile(r"\\(.)|\$(?:(\d)|\{(\w+)\})", re.DOTALL)


def by_mapping(entries: Sequence[Mapping[str, str]]) -> Rename | None:
    """Fields by their whole path; None where nothing is renamed."""
    names = {each["oldName"]: each["newName"] for each in entries}
    if not names:
        return None
    return lambda path, name: names.get(f"{path}.{name}", name)


def by_patterns(entries: Sequence[Mapping[str, str]]) -> Rename | None:
    """In the names of fields whose whole path matches `regexp`, `pattern` is replaced, with Java's
    references to groups (`$1`, `${name}`); None where nothing is renamed."""
    if not entries:
        return None
    rules = [
        (compile_java(each["regexp"]), compile_java(each["pattern"]), _template(each["replace"]))
        for each in entries
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

    def part(found: re.Match[str]) -> str:
        escaped, number, group = found.groups()
        if escaped is not None:
            return escaped.replace("\\", "\\\\")
        return f"\\g<{number or group}>"

    parts: list[str] = []
    at = 0
    for found in _GROUP.finditer(text):
        parts += [text[at : found.start()].replace("\\", "\\\\"), part(found)]
        at = found.end()
    return "".join([*parts, text[at:].replace("\\", "\\\\")])


def rename_document(document: dict[str, Any], path: str, rename: Rename) -> None:
    """Renames the fields of a document and of those in it (not of those in arrays), in place. A
    renamed field comes last; where the new name is taken, the field is dropped, and the one that
    has the name stays."""
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
