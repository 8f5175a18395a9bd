"""The rules of opencsv's CSVParser, for lines that are not plain CSV.

- The escape character is left out. Within a cell, it keeps a quote or another escape character
  that follows it.
- A quote that is neither next to a separator nor among the first three characters of a line is
  part of the cell, unless only white space precedes it.
- Lines end with `\\n`, `\\r` or both, also in quoted cells, where they become `\\n`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.api import DataError


class NullCells(Enum):
    """Which empty cells are null."""

    NEITHER = "NEITHER"
    EMPTY_SEPARATORS = "EMPTY_SEPARATORS"
    EMPTY_QUOTES = "EMPTY_QUOTES"
    BOTH = "BOTH"

    def of(self, cell: str, quoted: bool) -> str | None:
        """The cell, or null if it is empty. `quoted`: whether it had quotes."""
        if cell or self is NullCells.NEITHER:
            return cell
        if self is NullCells.BOTH or quoted == (self is NullCells.EMPTY_QUOTES):
            return None
        return cell


@dataclass(frozen=True, slots=True)
class Parser:
    """CSVParser with its settings. Without an escape character, backslashes are like others."""

    separator: str = ","
    quote: str | None = '"'
    escape: str | None = "\\"
    strict_quotes: bool = False
    """Whether characters outside of quotes are left out."""
    ignores_white_space: bool = True
    """Whether white space before a quote is left out."""
    ignores_quotes: bool = False
    """Whether quotes have no effect on separators and line ends."""
    keeps_cr: bool = False
    """Whether lines end only with a newline, so that cells keep carriage returns."""
    nulls: NullCells = NullCells.NEITHER

    def ends(self, data: bytes) -> list[int]:
        """The ends of complete records in data that begins with a record."""
        ends: list[int] = []
        state = _State()
        quote = None if self.quote is None else self.quote.encode()
        for line, end in _lines(data, self.keeps_cr):
            # A line without a quote is a record, unless it is in quotes.
            if state.in_quotes or (quote is not None and quote in line):
                self._parse(line.decode(errors="replace"), state, [])
            if not state.in_quotes:
                ends.append(end)
                state = _State()
        return ends

    def cells(self, record: bytes) -> list[str | None]:
        """The cells of a record. Raises DataError."""
        cells: list[str | None] = []
        state = _State()
        try:
            for line, _ in _lines(record, self.keeps_cr, last=True):
                text = line.decode()
                if state.in_quotes or not self._is_simple(text):
                    self._parse(text, state, cells)
                else:
                    cells += [self.nulls.of(cell, False) for cell in text.split(self.separator)]
        except UnicodeDecodeError as error:
            raise DataError(f"it is not text in utf-8: {error}") from error
        if state.in_quotes:
            raise DataError("a quote is not closed")
        return cells

    def _is_simple(self, line: str) -> bool:
        return not (
            self.strict_quotes
            or (self.quote is not None and self.quote in line)
            or (self.escape is not None and self.escape in line)
        )

    def _parse(self, line: str, state: _State, cells: list[str | None]) -> None:
        """Appends the cells that end in a line."""
        separator, quote, escape = self.separator, self.quote, self.escape
        heeds_quotes = not self.ignores_quotes
        in_quotes, in_field, out = state.in_quotes, state.in_field, state.out
        quoted = False
        at, length = 0, len(line)
        while at < length:
            char = line[at]
            at += 1
            is_inside = in_field or (in_quotes and heeds_quotes)
            if char == escape:
                if is_inside and at < length and line[at] in (quote, escape):
                    out.append(line[at])
                    at += 1
            elif char == quote:
                if is_inside and at < length and line[at] == quote:
                    out.append(quote)
                    at += 1
                else:
                    in_quotes = not in_quotes
                    quoted = quoted or not out
                    if self._is_part(line, at):
                        if self.ignores_white_space and out and _is_space("".join(out)):
                            out.clear()
                        else:
                            out.append(quote)
                in_field = not in_field
            elif char == separator and not (in_quotes and heeds_quotes):
                cells.append(self.nulls.of("".join(out), quoted))
                out.clear()
                quoted = in_field = False
            elif not self.strict_quotes or (in_quotes and heeds_quotes):
                out.append(char)
                in_field = quoted = True
        state.in_quotes, state.in_field = in_quotes and heeds_quotes, in_field
        if state.in_quotes:
            out.append("\n")
        else:
            state.in_field = False
            cells.append(self.nulls.of("".join(out), quoted))
            out.clear()

    def _is_part(self, line: str, after: int) -> bool:
        """Whether the quote before a position is not at an end of its cell."""
        return (
            not self.strict_quotes
            and 3 < after < len(line)
            and line[after - 2] != self.separator
            and line[after] != self.separator
        )


class _State:
    """What a line leaves for the next one of a record."""

    __slots__ = ("in_field", "in_quotes", "out")

    def __init__(self) -> None:
        self.in_quotes = False
        self.in_field = False
        self.out: list[str] = []


_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r(?=[^\n]))", re.DOTALL)
_LINE_WITH_CR: Final = re.compile(rb"[^\n]*\n", re.DOTALL)
_JAVAS_SPACES: Final = frozenset(
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009"
    "\u200a\u2028\u2029\u205f\u3000"
)


def _is_space(text: str) -> bool:
    return _JAVAS_SPACES.issuperset(text)


def _lines(data: bytes, keeps_cr: bool, *, last: bool = False) -> Iterator[tuple[bytes, int]]:
    """Complete lines without their ends, and where the next ones begin; with `last` also a line
    without an end. A carriage return at the end of data may be half of a line end."""
    at = 0
    for match in (_LINE_WITH_CR if keeps_cr else _LINE).finditer(data):
        at = match.end()
        line = match[0][:-1]
        yield (line if keeps_cr else line.removesuffix(b"\r")), at
    if last and at < len(data):
        yield (data[at:] if keeps_cr else data[at:].removesuffix(b"\r")), len(data)
