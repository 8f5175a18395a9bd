"""Log lines that the documentation quotes are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.places import ROOT

DOCS = ROOT / "docs"
ROOMS = ("cluster", "flow", "kafka", "offsets", "runtime")
QUOTE = re.compile(r"`([A-Za-z(][^`]* [^`]*)`")
IN_THE_LOG = re.compile(r"`([A-Za-z(][^`]* [^`]*)` in the log")


def _quotes() -> list[str]:
    """The lines that operating.md lists under "Logs", and quotes "in the log" of any page."""
    logs = (DOCS / "operating.md").read_text().split("\n## Logs\n")[1].split("\n## ")[0]
    listed = logs[logs.index("At INFO the worker logs") :]
    others = [quote for page in DOCS.glob("*.md") for quote in IN_THE_LOG.findall(page.read_text())]
    return [*dict.fromkeys([*QUOTE.findall(listed), *others])]


@cache
def _texts() -> list[str]:
    """The string literals of the rooms that log for operators; "…" stands for what is inserted."""
    return [
        text
        for room in ROOMS
        for path in (ROOT / "src/penstock" / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (text := _text(node))
    ]


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "…" for part in parts)
        case _:
            return ""


def _is_of(quote: str, text: str) -> bool:
    """Whether the parts of the quote between ellipses are in the text, in their order."""
    position = 0
    for part in filter(None, map(str.strip, quote.split("…"))):
        position = text.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return True


@pytest.mark.parametrize("quote", _quotes())
def test_a_quoted_log_line_is_in_the_code(quote: str) -> None:
    assert any(_is_of(quote, text) for text in _texts())


def test_a_line_that_no_longer_exists_is_found() -> None:
    assert not any(_is_of("slot … ended with … tasks", text) for text in _texts())
    assert len(_quotes()) > 20
