"""The chart of the figures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import chart, report
from benchmarks.chart import Bar, bars
from benchmarks.report import Figure
from benchmarks.runtimes import PENSTOCK, REFERENCE


def document(*figures: Figure) -> dict[str, object]:
    return report.document(
        figures, [], records=1, rounds=2, seconds=1, reference_options=["-Xmx2G"]
    )


def both(scenario: str, name: str, ours: list[float], theirs: list[float]) -> list[Figure]:
    return [
        Figure(scenario, name, runtime, at, value)
        for runtime, values in ((PENSTOCK, ours), (REFERENCE, theirs))
        for at, value in enumerate(values)
    ]


def test_a_rate_is_better_if_it_is_higher_and_a_time_if_it_is_lower() -> None:
    found = bars(
        document(
            *both("start", "rest_s", [2, 4], [8, 8]),
            *both("source", "warm", [400, 600], [200, 100]),
            *both("source", "warm.from_put", [10], [20]),
            *both("quiet-sinks", "p50_ms", [4], [1]),
        )
    )
    assert found == [
        Bar("process start to REST", pytest.approx(8 / 3), (4, 2), 2.5),
        Bar("file → topic, warm", pytest.approx(500 / 150), (2, 6), 4),
        Bar("file → topic, warm: the same from the PUT on", 0.5, (0.5,), None),
        Bar("20 sinks × 5/s, p50", 0.25, (0.25,), None),
    ]


def test_a_row_of_one_runtime_is_not_drawn(tmp_path: Path) -> None:
    alone = document(Figure("source", "warm", PENSTOCK, 0, 5.0))
    assert bars(alone) == []
    assert not chart.write(tmp_path / "chart.svg", alone)
    assert list(tmp_path.iterdir()) == []


def test_the_chart_of_a_file_of_figures_is_an_svg_with_their_names(tmp_path: Path) -> None:
    figures, first, second = (tmp_path / name for name in ("bench.json", "a.svg", "b.svg"))
    report.write(figures, document(*both("source", "warm", [400], [100])))
    for file in (first, second):
        assert CliRunner().invoke(chart.main, [str(figures), str(file)]).exit_code == 0
    text = " ".join(ElementTree.parse(first).getroot().itertext())
    assert "file → topic, warm" in text
    assert "4 ×" in text
    assert first.read_bytes() == second.read_bytes()


def test_a_file_without_ratios_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    report.write(file, document())
    done = CliRunner().invoke(chart.main, [str(file), str(tmp_path / "chart.svg")])
    assert done.exit_code == 2
    assert "no figures of both runtimes" in done.output
