import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.__main__ import SCENARIOS
from benchmarks.report import (
    ROWS,
    Figure,
    Problem,
    Summary,
    Target,
    document,
    number_words,
    ratio,
    summary,
    summary_words,
    table,
    write,
)
from benchmarks.runtimes import PENSTOCK, REFERENCE


def figures(scenario: str, name: str, runtime: str, *values: float | None) -> list[Figure]:
    return [Figure(scenario, name, runtime, at, value) for at, value in enumerate(values)]


def printed(found: list[Figure]) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(table(found, "title"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_rounds_are_summed_up_by_their_median_and_their_spread() -> None:
    found = figures("source", "warm", PENSTOCK, 30, 10, None, 20)
    assert summary(found, "source", "warm", PENSTOCK) == Summary(20, 10, 30)
    assert summary(found, "source", "warm", REFERENCE) is None
    assert summary(found, "source", "cold", PENSTOCK) is None


def test_a_ratio_is_one_of_medians() -> None:
    assert ratio(Summary(30, 1, 99), Summary(20, 1, 99)) == 1.5
    assert ratio(None, Summary(20, 1, 99)) is None
    assert ratio(Summary(20, 1, 99), Summary(0, 0, 0)) is None


@pytest.mark.parametrize(
    ("target", "ours", "times", "met"),
    [
        (Target(1.5, at_least=True, of_ratio=True), 1.0, 1.5, True),
        (Target(1.5, at_least=True, of_ratio=True), 9.0, 1.49, False),
        (Target(0.4, at_least=False, of_ratio=True), 9.0, 0.4, True),
        (Target(0.4, at_least=False, of_ratio=True), 0.1, 0.41, False),
        (Target(0.4, at_least=False, of_ratio=True), 0.1, None, None),
        (Target(150, at_least=False, of_ratio=False), 150, None, True),
        (Target(150, at_least=False, of_ratio=False), 151, 0.1, False),
    ],
)
def test_a_target_is_met_or_not_or_cannot_be_told(
    target: Target, ours: float, times: float | None, met: bool | None
) -> None:
    assert target.met(ours, times) is met


def test_numbers_are_written_with_the_digits_that_count() -> None:
    assert summary_words(Summary(412_345.6, 9.87, 0.1234)) == "412,346 (9.87–0.12)"
    assert summary_words(None) == "–"
    assert number_words(12.84) == "12.8"


def test_the_table_shows_what_was_measured_beside_its_target() -> None:
    found = figures("sink-json", "warm", PENSTOCK, 600, 700, 800)
    found += figures("sink-json", "warm", REFERENCE, 500, 400, 300)
    row = next(line for line in printed(found).splitlines() if "JSON, warm" in line)
    cells = [cell.strip() for cell in row.strip("│ ").split("│")]
    assert cells[1:] == ["rec/s", "700 (600–800)", "400 (300–500)", "1.75", "≥ 2 × ✗"]
    found += figures("sink-json", "warm", REFERENCE, 300, 300, 300, 300)
    assert "≥ 2 × ✓" in printed(found)


def test_a_runtime_without_figures_leaves_a_gap_and_no_verdict() -> None:
    text = printed(figures("sink-transforms", "warm", REFERENCE, 400))
    row = next(line for line in text.splitlines() if "3 transforms, warm" in line)
    cells = [cell.strip() for cell in row.strip("│ ").split("│")]
    assert cells[2:] == ["–", "400 (400–400)", "–", "≥ 2 ×"]
    assert "JSON, warm" not in text


def test_every_row_is_of_a_scenario_and_every_scenario_has_a_row() -> None:
    assert {row.scenario for row in ROWS} == {scenario.name for scenario in SCENARIOS}
    assert len({(row.scenario, row.name) for row in ROWS}) == len(ROWS)


def test_the_document_holds_all_figures_and_what_the_table_says(tmp_path: Path) -> None:
    found = figures("first", "sink_s", PENSTOCK, 0.5, 0.7, 0.6)
    found.append(Figure("first", "sink_s", REFERENCE, 0, 0.2, ((0.0, 0.2), (1.0, 0.3))))
    problems = [Problem("source", PENSTOCK, 1, "lost")]
    content = document(
        found, problems, records=10, rounds=3, seconds=60, reference_options=["-Xmx2G"]
    )
    file = tmp_path / "new" / "bench.json"
    write(file, content)
    write(file, content)
    read = json.loads(file.read_text())
    (row,) = read["rows"]
    assert row["penstock"] == {"median": 0.6, "low": 0.5, "high": 0.7}
    assert (row["target"], row["met"]) == ("≤ 0.2 s", False)
    assert row["ratio"] == pytest.approx(3.0)
    assert [figure["value"] for figure in read["figures"]] == [0.5, 0.7, 0.6, 0.2]
    assert read["figures"][3]["points"] == [[0.0, 0.2], [1.0, 0.3]]
    assert read["problems"][0]["text"] == "lost"
    assert read["reference_options"] == ["-Xmx2G"]
    assert [path.name for path in file.parent.iterdir()] == ["bench.json"]
