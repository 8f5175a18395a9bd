"""The project of the template, and the page that explains it."""

from __future__ import annotations

import re

import pytest

from penstock.template import project
from tests.places import ROOT

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> dict[str, str]:
    """The files that a page of the documentation shows, by name."""
    return dict(BLOCK.findall((DOCS / page).read_text()))


def test_the_tutorial_shows_the_files_of_the_project() -> None:
    files = dict(project("notes", example=True))
    shown = {name: text for name, text in blocks("tutorial.md").items() if name.endswith(".py")}
    assert shown.keys() == {place for place in files if place.endswith(".py")} - {
        "notes/__init__.py"
    }
    for name, text in shown.items():
        assert text == files[name], f"the tutorial's {name} is not the template's"


@pytest.mark.parametrize(("half", "most"), [("source", 45), ("sink", 45)])
def test_a_connector_is_some_forty_lines(half: str, most: int) -> None:
    text = dict(project("notes", example=True))[f"notes/{half}.py"]
    code = [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith(("from ", "import ", '"""'))
    ]
    assert len(code) <= most


@pytest.mark.parametrize("example", [True, False])
@pytest.mark.parametrize("name", ["orders", "river_taps"])
def test_nothing_of_the_templates_name_is_left(name: str, example: bool) -> None:
    for place, text in project(name, example=example):
        assert "notes" not in place
        assert "notes" not in text.lower(), place


def test_the_entry_points_of_the_project_are_its_connectors() -> None:
    files = dict(project("river_taps", sink=False))
    lines = files["pyproject.toml"].splitlines()
    entries = [line for line in lines if line.startswith("river_taps-")]
    assert entries == ['river_taps-source = "river_taps.source:RiverTapsSource"']


def test_the_skeletons_readme_lists_what_is_to_be_filled_in() -> None:
    files = dict(project("taps"))
    places = {
        (place, name.rpartition(".")[2])
        for place, text in files.items()
        for name in re.findall(r'NotImplementedError\("[\w./]+: ([\w.]+)"\)', text)
    }
    assert places == {
        ("taps/source.py", "next_values"),
        ("taps/sink.py", "put"),
        ("tests/test_source.py", "add"),
        ("tests/test_sink.py", "contents"),
    }
    readme = files["README.md"]
    assert all(re.search(rf"`{place}`: `(\w+\.)?{name}`", readme) for place, name in places)


def test_only_one_half_leaves_nothing_of_the_other() -> None:
    for half, other in (("source", "sink"), ("sink", "source")):
        files = dict(project("taps", source=half == "source", sink=half == "sink"))
        assert not [place for place in files if other in place]
        assert f"taps/{other}.py" not in files["README.md"]
        assert f"test_{other}" not in files["README.md"]
