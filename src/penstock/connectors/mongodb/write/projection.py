"""Keeps or removes fields of a document (AllowList and BlockList projectors).

Paths have dots; a document inside an array has the path of its array. `*` stands for one name, `**`
for everything below. In an allow list `a.b` keeps `a` as well, and a single name that ends in `*`
keeps all names with that prefix.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

Project = Callable[[dict[str, Any]], None]
"""Changes a document in place."""


def fields_of(text: str) -> list[str]:
    """The entries of a list of fields."""
    return [field for field in re.split(r"\s*,\s*", text.strip()) if field]


def allowing(text: str) -> Project:
    """Keeps the listed fields; an empty list keeps none."""
    listed: set[str] = set()
    for field in fields_of(text):
        parts = field.split(".")
        listed.update(".".join(parts[: count + 1]) for count in range(len(parts)))
    listed.discard("")
    if "**" in listed:
        return _keep_all
    prefixes = tuple(
        field[:-1] for field in listed if "." not in field and field != "*" and field.endswith("*")
    )
    stays = lru_cache(maxsize=4096)(lambda path: _stays(path, listed, prefixes))

    def project(document: dict[str, Any], parent: str = "") -> None:
        for name in list(document):
            path = f"{parent}.{name}" if parent else name
            value = document[name]
            if not stays(path):
                del document[name]
                continue
            if isinstance(value, Mapping):
                if f"{path}.**" not in listed:
                    project(document[name], path)
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, dict):
                        project(item, path)

    return project


def _keep_all(document: dict[str, Any]) -> None:
    """Keeps everything."""


def _stays(path: str, listed: Collection[str], prefixes: tuple[str, ...]) -> bool:
    """Whether a path is listed, with `*` in place of any of its names."""
    if path in listed or path.startswith(prefixes):
        return True
    parts = path.split(".")
    if "*" not in "".join(listed):
        return False
    return any(
        ".".join(pattern) in listed
        for pattern in itertools.product(*((part, "*") for part in parts))
    )


def blocking(text: str) -> Project:
    """Removes the listed fields."""
    listed = list(dict.fromkeys(fields_of(text)))

    def project(document: dict[str, Any]) -> None:
        for field in listed:
            _block(document, field)

    return project


def _block(document: dict[str, Any], field: str) -> None:
    first, _, rest = field.partition(".")
    if first == "**":
        document.clear()
    elif first == "*":
        for name in list(document):
            value = document[name]
            if not isinstance(value, dict):
                del document[name]
            elif rest:
                _block(value, rest)
    elif not rest:
        if field.endswith("*"):
            for name in [member for member in document if member.startswith(field[:-1])]:
                del document[name]
        else:
            document.pop(field, None)
    else:
        value = document.get(first)
        if isinstance(value, dict):
            _block(value, rest)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _block(item, rest)
