"""Paths with wildcards, as Java's `glob:` matches names (java.nio.file.FileSystem.getPathMatcher).

A pattern is matched one folder at a time: `/logs/*/app-?.{log,txt}`. A path that ends with a slash
matches all files of that folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.connectors.files.stores.folders import Item, Kind, absolute

_WILD: Final = frozenset("*?[{")


class PathPatternInvalid(ValueError):
    """A path is not a valid pattern; the message says why."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A folder, and patterns of names below it; the last one matches files."""

    folder: str
    names: tuple[re.Pattern[str], ...]

    def files(self, look: Callable[[str], Sequence[Item]]) -> Iterator[tuple[str, Item]]:
        """The files with their paths, sorted by name within each folder. `look` lists a folder."""
        yield from _files(self.folder, self.names, look)

    def fits(self, path: str) -> bool:
        """Whether a path matches the pattern."""
        folder, _, name = path.rpartition("/")
        return self.has(folder) and self.names[-1].fullmatch(name) is not None

    def has(self, folder: str) -> bool:
        """Whether a folder may contain files of the pattern."""
        parts = [text for text in folder.split("/") if text]
        fixed = [text for text in self.folder.split("/") if text]
        wild = parts[len(fixed) :]
        return (
            parts[: len(fixed)] == fixed
            and len(wild) == len(self.names) - 1
            and all(name.fullmatch(text) for name, text in zip(self.names, wild, strict=False))
        )


def _files(
    folder: str, names: Sequence[re.Pattern[str]], look: Callable[[str], Sequence[Item]]
) -> Iterator[tuple[str, Item]]:
    name, *rest = names
    for item in sorted(look(folder), key=lambda item: item.name):
        if not name.fullmatch(item.name):
            continue
        path = f"{folder.rstrip('/')}/{item.name}"
        if rest:
            if item.kind in (Kind.FOLDER, Kind.LINK):
                yield from _files(path, rest, look)
        elif item.kind is Kind.FILE:
            yield path, item


def pattern(path: str) -> Pattern:
    """The pattern of a configured path. Raises PatternInvalid.

    >>> pattern("logs/").folder, [name.pattern for name in pattern("/a/b*/c").names]
    ('/logs', ['b[^/]*', 'c'])
    """
    parts = absolute(path + "*" if path.endswith("/") else path).split("/")[1:]
    if not parts[0]:
        raise PathPatternInvalid("It does not name a file")
    wild = next((at for at, part in enumerate(parts) if _WILD & set(part)), len(parts) - 1)
    folder = "/" + "/".join(parts[:wild])
    return Pattern(folder, tuple(_compiled(part) for part in parts[wild:]))


def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(_Glob(glob).expression(), re.DOTALL)


class _Glob:
    """Translates the glob pattern of a name to a regular expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def expression(self) -> str:
        parts: list[str] = []
        in_group = False
        while self._at < len(self._text):
            char = self._next()
            if char == "\\":
                if self._at == len(self._text):
                    raise PathPatternInvalid("It ends with a backslash")
                parts.append(re.escape(self._next()))
            elif char == "*":
                parts.append("[^/]*")
            elif char == "?":
                parts.append("[^/]")
            elif char == "[":
                parts.append(self._members())
            elif char == "{":
                if in_group:
                    raise PathPatternInvalid("It contains nested groups")
                in_group = True
                parts.append("(?:(?:")
            elif char == "}" and in_group:
                in_group = False
                parts.append("))")
            elif char == "," and in_group:
                parts.append(")|(?:")
            else:
                parts.append(re.escape(char))
        if in_group:
            raise PathPatternInvalid("A '{' has no '}'")
        return re.sub(r"(?:\[\^/\]\*)+", "[^/]*", "".join(parts))

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _members(self) -> str:
        end = self._text.find("]", self._at + 1)
        if end < 0:
            raise PathPatternInvalid("A '[' has no ']'")
        inside = self._text[self._at : end]
        self._at = end + 1
        negated = inside.startswith(("!", "^")) and len(inside) > 1
        body = inside[1:] if inside.startswith("!") and negated else inside
        if body.startswith("^"):
            body = "\\" + body
        escaped = re.sub(r"([\[&~|])", r"\\\1", body.replace("\\", "\\\\"))
        escaped = escaped.replace("\\\\^", "\\^")
        expression = f"[{'^' if inside.startswith('!') and negated else ''}{escaped}]"
        try:
            re.compile(expression)
        except re.error as error:
            raise PathPatternInvalid(f"'[{inside}]' is not a set of characters: {error}") from error
        return expression
