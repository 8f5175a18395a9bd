"""What `penstock explain` prints, and that the documentation has the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.explanations import pages, subjects
from penstock.plugins.registry import PluginKind, Registry
from penstock.runtime.providers import PROVIDERS
from tests.places import ROOT

from .workers import Penstock

DOCS = ROOT / "docs"
REGISTRY = Registry.installed()


def test_the_pages_are_up_to_date() -> None:
    made = pages(REGISTRY)
    files = [DOCS / "settings.md", DOCS / "metrics.md", *(DOCS / "settings").iterdir()]
    stored = {str(file.relative_to(DOCS)): file.read_text() for file in files}
    assert stored.keys() == made.keys(), "`make docs` writes them anew; delete what is left over"
    for path, page in made.items():
        assert stored[path] == page, f"{path}: `make docs` writes it anew"


def test_every_plugin_that_is_built_in_has_its_settings_on_a_page() -> None:
    made = "\n".join(pages(REGISTRY).values())
    elsewhere = REGISTRY.of_kind(PluginKind.TRANSFORM, PluginKind.PREDICATE)
    names = {found.plugin.class_name for found in REGISTRY.of_kind(*PluginKind)}
    names -= {found.plugin.class_name for found in elsewhere}
    assert {name for name in names if f"`{name}`" not in made} == set()


def test_the_pages_are_written_to_a_folder(penstock: Penstock, tmp_path: Path) -> None:
    assert penstock("explain", "--pages", str(tmp_path)).code == 0
    written = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.md")}
    assert written == pages(REGISTRY).keys()


def test_there_is_a_subject_for_everything_that_has_settings() -> None:
    names = {subject.names[0] for subject in subjects(REGISTRY)}
    assert {"worker", "standalone", "source", "sink"} < names
    assert {found.plugin.class_name for found in REGISTRY.of_kind(*PluginKind)} < names
    assert {cls.plugin.class_name for cls in PROVIDERS.values()} < names


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("worker", ["worker  (Workers of a cluster)", "group.id  (string, required)"]),
        ("sink", ["topics.regex  (string, "]),
        (
            "FileStreamSource",
            ["also FileStreamSource, FileStreamSourceConnector", "topic  (string"],
        ),
        ("DirectoryConfigProvider", ["allowed.paths  (list"]),
        ("tasks.max", ["source, sink:", "tasks.max  (int, default 1, [1,...])"]),
        (
            "org.apache.kafka.connect.transforms.InsertField$Value",
            ["timestamp.field  (string"],
        ),
        ("metrics", ["penstock_sink_record_lag{connector, task, topic, partition}  (gauge)"]),
        ("penstock_slot_deaths_total", ["penstock_slot_deaths_total  (counter)", "    Slots that"]),
    ],
)
def test_a_subject_a_plugin_or_a_setting_is_explained(
    penstock: Penstock, what: str, lines: list[str]
) -> None:
    done = penstock("explain", what)
    assert done.code == 0
    for line in lines:
        assert any(shown.startswith(line) for shown in done.out.splitlines()), done.out


def test_without_a_word_everything_there_is_to_explain_is_listed(penstock: Penstock) -> None:
    shown = penstock("explain").out.splitlines()
    names = [subject.names[0] for subject in subjects(REGISTRY)]
    assert [line.split()[0] for line in shown] == [*names, "metrics"]


def test_an_unknown_name_is_reported_with_similar_ones(penstock: Penstock) -> None:
    done = penstock("explain", "task.max")
    assert done.code == 5
    assert "Nothing is called 'task.max'." in done.err
    assert "'tasks.max'" in done.err
