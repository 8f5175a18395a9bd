"""What `penstock explain` prints, and that the documentation has the same text."""

from __future__ import annotations

import pytest

from penstock.cli.explanations import metrics_page, page, subjects
from penstock.plugins.registry import Kind, Registry
from penstock.runtime.providers import PROVIDERS
from tests.places import ROOT

from .workers import Penstock

DOCS = ROOT / "docs"
REGISTRY = Registry.installed()


def test_the_pages_are_up_to_date() -> None:
    assert (DOCS / "settings.md").read_text() == page(REGISTRY), "`make docs` writes it anew"
    assert (DOCS / "metrics.md").read_text() == metrics_page(), "`make docs` writes it anew"


def test_there_is_a_subject_for_everything_that_has_settings() -> None:
    names = {subject.names[0] for subject in subjects(REGISTRY)}
    assert {"worker", "standalone", "source", "sink"} < names
    assert {found.plugin.class_name for found in REGISTRY.of_kind(*Kind)} < names
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


def test_what_is_not_known_is_said_with_what_may_be_meant(penstock: Penstock) -> None:
    done = penstock("explain", "task.max")
    assert done.code == 5
    assert "Nothing is called 'task.max'." in done.err
    assert "'tasks.max'" in done.err
