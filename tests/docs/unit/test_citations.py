"""Every citation names a section of docs/reference that exists, and no link in the docs is dead."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.places import ROOT

REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "bin")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".java", ".js", ".properties", ""}
    and path.is_file()
    and path != Path(__file__)
    and "__pycache__" not in path.parts
)

NUMBER = re.compile(r"§(\d+(?:\.\d+)?)")
STANDARD = re.compile(r"(?:RFC \d+|MQTT 5|HTML standard),?\s+§[\d.]+(?:,\s+§[\d.]+)*")
"""A section of an external document, which is not checked."""
CITATION = re.compile(
    r"(?P<page>kafka-connect|connectors)\.md[\s#]+"
    r"(?P<numbers>§\d+(?:\.\d+)?(?:[,\s#]+(?:and )?§\d+(?:\.\d+)?)*)"
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


@cache
def sections(page: str) -> set[str]:
    """The numbers of a reference page's headings: `8`, `8.3`."""
    text = (REFERENCE / f"{page}.md").read_text()
    return set(re.findall(r"^#+ (\d+(?:\.\d+)?)\b", text, re.MULTILINE))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    names = set()
    for heading in re.findall(
        r"^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", page.read_text()), re.M
    ):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def dead_citations(text: str) -> Iterator[str]:
    """Citations without a page, or of a section that its page does not have."""
    text = STANDARD.sub(lambda cited: cited[0].replace("§", " "), text)
    cited: set[int] = set()
    for citation in CITATION.finditer(text):
        for number in NUMBER.finditer(citation["numbers"]):
            cited.add(citation.start("numbers") + number.start())
            if number[1] not in sections(citation["page"]):
                yield f"{citation['page']}.md {number[0]}: no such section"
    for number in NUMBER.finditer(text):
        if number.start() not in cited:
            line = text.count("\n", 0, number.start()) + 1
            yield f"line {line}: {number[0]} of which page?"


def dead_links(page: Path) -> Iterator[str]:
    """Relative links of a page to a file or a heading that does not exist."""
    for link in LINK.finditer(CODE.sub("", page.read_text())):
        path, _, anchor = unquote(link["target"]).partition("#")
        if re.match(r"\w+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link['target']}: no such file"
        elif anchor and anchor not in anchors(target):
            yield f"{link['target']}: no such heading"


def found(problems: Callable[[Path], Iterable[str]], paths: Iterable[Path]) -> list[str]:
    """All problems of some files, each with the file's name."""
    return [f"{path.relative_to(ROOT)}: {text}" for path in paths for text in problems(path)]


def test_citations_in_sources_can_be_followed() -> None:
    assert len(SOURCES) > 1000
    assert not found(lambda path: dead_citations(path.read_text()), SOURCES)


def test_links_in_the_docs_can_be_followed() -> None:
    assert len(PAGES) > 50
    assert not found(dead_links, PAGES)


@pytest.mark.parametrize("page", ["kafka-connect", "connectors"])
def test_a_reference_page_cites_its_own_sections(page: str) -> None:
    text = (REFERENCE / f"{page}.md").read_text()
    own = CITATION.sub("", text)
    assert {number[1] for number in NUMBER.finditer(own)} <= sections(page)
    assert not [problem for problem in dead_citations(text) if problem.endswith("no such section")]


def test_the_docs_cite_sections_with_their_page() -> None:
    pages = [page for page in PAGES if REFERENCE not in page.parents]
    assert not found(lambda page: dead_citations(LINK.sub("", page.read_text())), pages)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("(§8.3)", "line 1: §8.3 of which page?"),
        ("\nreference §8.3", "line 2: §8.3 of which page?"),
        ("kafka-connect.md §8.99", "kafka-connect.md §8.99: no such section"),
        ("connectors.md §2.1, §99", "connectors.md §99: no such section"),
        ("kafka-connect.md §4.2, §5.3\n# and §77", "kafka-connect.md §77: no such section"),
    ],
)
def test_dead_citations_are_found(text: str, problem: str) -> None:
    assert problem in "; ".join(dead_citations(text))


def test_citations_that_can_be_followed() -> None:
    assert not list(dead_citations("kafka-connect.md §4.2, §5.3,\n# §8.4; connectors.md §10"))


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`: c\n[x](gone.md) [y](#a-b-c) [z](page.md#d) [w](https://example.org)")
    assert list(dead_links(page)) == ["gone.md: no such file", "page.md#d: no such heading"]
