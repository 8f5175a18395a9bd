"""Translates Java's regular expressions in settings to Python's `re`.

Syntax that Python cannot express is refused, with the reason. No pattern changes its meaning.

    >>> bool(compile_java(r"orders-\\p{Digit}+\\z").fullmatch("orders-12"))
    True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NoReturn

_LINE_ENDS: Final = r"\n\r\x85\u2028\u2029"
_END: Final = rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)"
_BLANKS: Final = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL: Final = r"\n\x0b\f\r\x85\u2028\u2029"
_PUNCT: Final = r"!-/:-@\[-`{-~"

# Members of a character class, by \p{name}. Java's default for these is ASCII.
_PROPERTIES: Final[Mapping[str, str]] = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": _PUNCT,
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
# Members of a character class, by escape; the capital letter is the complement.
_SETS: Final[Mapping[str, str]] = {
    "d": r"\d",
    "s": r"\s",
    "w": r"\w",
    "h": _BLANKS,
    "v": _VERTICAL,
}
_CONTROLS: Final[Mapping[str, str]] = {
    "t": "\t",
    "n": "\n",
    "r": "\r",
    "f": "\f",
    "a": "\x07",
    "e": "\x1b",
}
_BOUNDARIES: Final[Mapping[str, str]] = {
    "A": r"\A",
    "b": r"\b",
    "B": r"\B",
    "z": r"\Z",
    "Z": _END,
    "R": rf"(?:\r\n|[{_VERTICAL}])",
}
_FLAGS: Final[Mapping[str, str]] = {"i": "i", "m": "m", "s": "s", "x": "x", "u": "", "d": ""}

_GROUP: Final = re.compile(r"\?(?:[:=!>]|<[=!])")
_NAMED: Final = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_INLINE: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_COUNT: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_PROPERTY: Final = re.compile(r"\{(\w+)\}")
_BACK_NAME: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")
_CODES: Final = (
    (re.compile(r"x([0-9a-fA-F]{2})"), 16),
    (re.compile(r"x\{([0-9a-fA-F]{1,6})\}"), 16),
    (re.compile(r"u([0-9a-fA-F]{4})"), 16),
    (re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})"), 8),
)


class RegexInvalid(ValueError):
    """A text is not a regular expression, or not a supported one; the message has Java's form."""

    def __init__(self, reason: str, pattern: str, index: int) -> None:
        self.reason = reason
        self.index = index
        near = f" near index {index}" if index >= 0 else ""
        caret = f"\n{' ' * index}^" if 0 <= index < len(pattern) else ""
        super().__init__(f"{reason}{near}\n{pattern}{caret}")


@lru_cache(maxsize=1024)
def compile_java(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """The pattern, ready for `fullmatch` and `search`; raises RegexInvalid."""
    translation = _Translation(pattern)
    translation.run()
    text = "".join(translation.out)
    try:
        return re.compile(text, re.ASCII | flags)
    except re.error as problem:
        at = translation.origin(problem.pos or 0)
        raise RegexInvalid(*_in_java_words(problem.msg, pattern, at)) from problem
    except (OverflowError, RecursionError) as problem:
        raise RegexInvalid("Illegal repetition range", pattern, len(pattern) - 1) from problem


def _in_java_words(message: str, pattern: str, at: int) -> tuple[str, str, int]:
    if message in ("multiple repeat", "nothing to repeat"):
        return f"Dangling meta character '{pattern[at : at + 1]}'", pattern, at
    if message.startswith("missing )"):
        return "Unclosed group", pattern, len(pattern)
    if message.startswith("unbalanced parenthesis"):
        return "Unmatched closing ')'", pattern, at - 1
    return message[:1].upper() + message[1:], pattern, at


@dataclass(slots=True)
class _Translation:
    pattern: str
    at: int = 0
    out: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)  # where each piece of `out` came from
    dot_matches_all: bool = False
    many_lines: bool = False
    # Per open group: where its content starts, and how many ")" close it.
    groups: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> None:
        self.dot_matches_all = re.search(r"\(\?[a-zA-Z]*s", self.pattern) is not None
        self.many_lines = re.search(r"\(\?[a-zA-Z]*m", self.pattern) is not None
        while self.at < len(self.pattern):
            start = self.at
            piece = self.piece()
            self.out.append(piece)
            self.origins.append(start)

    def origin(self, position: int) -> int:
        """The index in the pattern for a `position` in the result."""
        for piece, start in zip(self.out, self.origins, strict=True):
            if position < len(piece):
                return start + (position if len(piece) > 1 and piece.startswith("(") else 0)
            position -= len(piece)
        return len(self.pattern)

    def piece(self) -> str:
        char = self.take()
        match char:
            case "\\":
                return self.escape()
            case "[":
                return self.char_class()
            case "(":
                return self.group()
            case ")":
                closing = self.groups.pop()[1] if self.groups else 1
                return ")" * closing
            case "." if not self.dot_matches_all:
                return f"[^{_LINE_ENDS}]"
            case "$" if not self.many_lines:
                return _END
            case "{":
                count = _COUNT.match(self.pattern, self.at - 1)
                if count is None:
                    self.fail("Illegal repetition", self.at)
                self.at = count.end()
                return count[0]
            case "]" | "}":
                return re.escape(char)
        return char

    def take(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def rest(self) -> bool:
        return self.at < len(self.pattern)

    def fail(self, reason: str, index: int) -> NoReturn:
        raise RegexInvalid(reason, self.pattern, index)

    def taken(self, form: re.Pattern[str]) -> re.Match[str] | None:
        if match := form.match(self.pattern, self.at):
            self.at = match.end()
        return match

    def group(self) -> str:
        start = self.at - 1
        piece, closing = self.opening(start)
        if closing:
            self.groups.append((self.at, closing))
        return piece

    def opening(self, start: int) -> tuple[str, int]:
        """The opening of the group at `start`, and the number of ")" that close it: none if it is
        not a group."""
        if not self.pattern.startswith("?", self.at):
            return "(", 1
        if match := self.taken(_GROUP):
            return "(" + match[0], 1
        if match := self.taken(_NAMED):
            return f"(?P<{match[1]}>", 1
        match = self.taken(_INLINE)
        if match is None:
            self.fail("Unknown inline modifier", min(self.at + 1, len(self.pattern)))
        letters = match[1] + (match[2] or "")
        if unknown := [letter for letter in letters if letter not in _FLAGS]:
            self.fail("Unknown inline modifier", start + 2 + letters.index(unknown[0]))
        on = "".join(_FLAGS[letter] for letter in match[1])
        off = "".join(_FLAGS[letter] for letter in match[2] or "")
        flags = f"{on}-{off}" if off else on
        if match[3] == ":":
            return f"(?{flags}:", 1
        # Java's "(?i)" applies until the end of its group, including alternatives.
        if not self.groups and start == 0:
            return (f"(?{on})" if on else ""), 0
        if self.groups and self.groups[-1][0] == start:
            self.groups[-1] = (self.at, self.groups[-1][1] + 1)
            return f"(?{flags}:", 0
        return self.fail("Inline flags must stand at the start of the pattern or a group", start)

    def escape(self) -> str:
        start = self.at - 1
        if not self.rest():
            self.fail("Unexpected internal error", self.at)
        if self.pattern[self.at] == "Q":
            end = self.pattern.find("\\E", self.at)
            text = self.pattern[self.at + 1 : end if end >= 0 else len(self.pattern)]
            self.at = end + 2 if end >= 0 else len(self.pattern)
            return re.escape(text)
        char = self.pattern[self.at]
        if char in _BOUNDARIES:
            self.at += 1
            return _BOUNDARIES[char]
        if char == "k":
            self.at += 1
            match = self.taken(_BACK_NAME)
            if match is None:
                self.fail("\\k is not followed by '<' for named capturing group", self.at)
            return f"(?P={match[1]})"
        if char in "123456789":
            self.at += 1
            return f"(?:\\{char})"  # so that a following digit stays a character
        members, inverted = self.members()
        if members is not None:
            return f"[{'^' if inverted else ''}{members}]"
        self.at = start + 1
        return re.escape(self.character())

    def members(self) -> tuple[str | None, bool]:
        """The set of an escape, and whether the escape is its complement; None for other
        escapes."""
        char = self.take()
        if char.lower() in _SETS:
            return _SETS[char.lower()], char.isupper()
        if char in "pP":
            match = self.taken(_PROPERTY)
            if match is None or match[1] not in _PROPERTIES:
                name = match[0] if match else ""
                self.fail(f"Unknown character property name {name}", self.at - 1)
            return _PROPERTIES[match[1]], char == "P"
        return None, False

    def character(self) -> str:
        """The character of an escape."""
        for form, base in _CODES:
            if match := self.taken(form):
                code = int(match[1], base)
                if code > 0x10FFFF:
                    self.fail("Hexadecimal codepoint is too big", self.at - 1)
                return chr(code)
        char = self.take()
        if char == "c" and self.rest():
            return chr(ord(self.take()) ^ 64)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            self.fail("Illegal hexadecimal escape sequence", self.at)
        if char == "u":
            self.fail("Illegal Unicode escape sequence", self.at)
        if char.isascii() and char.isalnum():
            self.fail("Illegal/unsupported escape sequence", self.at - 1)
        return char

    def char_class(self) -> str:
        inverted = self.pattern.startswith("^", self.at)
        self.at += inverted
        return f"[{'^' if inverted else ''}{self.class_members()}]"

    def class_members(self) -> str:
        out: list[str] = []
        while True:
            if not self.rest():
                self.fail("Unclosed character class", len(self.pattern) - 1)
            char = self.take()
            if char == "]" and out:
                return "".join(out)
            if char == "[":
                if self.pattern.startswith("^", self.at):
                    self.fail("A negated class inside a class is not supported", self.at)
                out.append(self.class_members())
            elif char == "&" and self.pattern.startswith("&", self.at):
                self.fail("Intersections of character classes are not supported", self.at)
            else:
                out.append(self.class_item(char))

    def class_item(self, char: str) -> str:
        low = char
        if char == "\\":
            if not self.rest():
                self.fail("Unclosed character class", len(self.pattern) - 1)
            start = self.at
            members, inverted = self.members()
            if members is not None:
                return self.complement(members) if inverted else members
            self.at = start
            low = self.character()
        if self.pattern.startswith("-", self.at) and self.at + 1 < len(self.pattern):
            after = self.pattern[self.at + 1]
            if after not in "[]":
                self.at += 2
                high = self.range_end(after)
                if high < low:
                    self.fail("Illegal character range", self.at - 1)
                return f"{re.escape(low)}-{re.escape(high)}"
        return _in_class(low)

    def range_end(self, char: str) -> str:
        if char != "\\":
            return char
        if not self.rest():
            self.fail("Unclosed character class", len(self.pattern) - 1)
        start = self.at
        if self.members()[0] is not None:
            self.fail("Illegal character range", self.at - 1)
        self.at = start
        return self.character()

    def complement(self, members: str) -> str:
        if len(members) == 2 and members.startswith("\\"):
            return members.upper()
        return self.fail("This complement inside a class is not supported", self.at - 1)


def _in_class(char: str) -> str:
    # re warns of possible future set operations, so these are always escaped.
    return "\\" + char if char in "&|~-[]^\\" else re.escape(char)
