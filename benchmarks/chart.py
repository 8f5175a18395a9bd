"""Draws the figures as a chart: how many times better than Kafka Connect penstock is, row by row.

    python -m benchmarks.chart bench.json chart.svg

A rate is better if it is higher; a time, CPU or memory if it is lower, so their ratio is inverted.
A bar is the ratio of the medians, a dot that of one round, and a tick the target. The axis is
logarithmic: twice as good and half as good are equally far from 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.report import ROWS, Row
from benchmarks.runtimes import PENSTOCK, REFERENCE

_BETTER, _WORSE, _TARGET, _ROUND = "#1a7f5a", "#c2571a", "#222222", "#00000066"
_WIDTH_IN: Final = 9.0
_ROW_IN: Final = 0.27
_HIGHER_IS_BETTER: Final = frozenset({"rec/s"})


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the chart. `times`, `rounds`, `target`: how many times better than Kafka Connect,
    by the medians, in each round, and at least as a goal (None: there is none for the ratio)."""

    title: str
    times: float
    rounds: tuple[float, ...]
    target: float | None


def bars(document: Mapping[str, Any]) -> list[Bar]:
    """The rows of a report's document (`report.document`) that both runtimes have figures for."""
    declared = {(row.scenario, row.name): row for row in ROWS}
    out, heading = [], ""
    for shown in document["rows"]:
        row = declared.get((shown["scenario"], shown["name"]))
        title = shown["title"].strip()
        if shown["title"].startswith("  "):
            title = f"{heading}: {title}"
        else:
            heading = title
        if row is None or not shown["ratio"]:
            continue
        rounds = tuple(_better(row, times) for times in _round_ratios(document, row))
        out.append(Bar(title, _better(row, shown["ratio"]), rounds, _goal(row)))
    return out


def _better(row: Row, ratio: float) -> float:
    return ratio if row.unit in _HIGHER_IS_BETTER else 1 / ratio


def _goal(row: Row) -> float | None:
    target = row.target
    return _better(row, target.limit) if target and target.of_ratio else None


def _round_ratios(document: Mapping[str, Any], row: Row) -> Iterator[float]:
    by_round: dict[int, dict[str, float]] = {}
    for figure in document["figures"]:
        if (figure["scenario"], figure["name"]) == (row.scenario, row.name) and figure["value"]:
            by_round.setdefault(figure["round"], {})[figure["runtime"]] = figure["value"]
    for values in by_round.values():
        if values.keys() >= {PENSTOCK, REFERENCE}:
            yield values[PENSTOCK] / values[REFERENCE]


def draw(shown: Sequence[Bar], title: str, file: Path) -> None:
    """Writes the chart as SVG; the same figures give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter

    style = {"svg.hashsalt": "penstock", "svg.fonttype": "none", "font.size": 9}
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH_IN, 1.2 + _ROW_IN * len(shown)), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xscale("log")
        for at, bar in enumerate(shown):
            color = _BETTER if bar.times >= 1 else _WORSE
            axes.barh(at, bar.times - 1, left=1, height=0.62, color=color)
            axes.plot(bar.rounds, [at] * len(bar.rounds), ".", color=_ROUND, markersize=4)
            if bar.target is not None:
                axes.plot([bar.target] * 2, [at - 0.42, at + 0.42], color=_TARGET, linewidth=1.5)
            axes.annotate(
                f"{bar.times:.2g} ×",
                (max([bar.times, 1.0, *bar.rounds]), at),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set_yticks(range(len(shown)), [bar.title for bar in shown])
        axes.invert_yaxis()
        axes.axvline(1, color=_TARGET, linewidth=0.8)
        ends = [end for bar in shown for end in (bar.times, *bar.rounds, bar.target or 1.0)]
        low, high = min([0.5, *ends]), max([2.0, *ends])
        axes.set_xlim(low / 1.15, high * 1.6)
        ticks = [2.0**power for power in range(-10, 15) if low / 1.15 <= 2.0**power <= high * 1.6]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ×"))
        axes.set_xlabel(
            "times better than Kafka Connect (bar: medians, dots: rounds, tick: target)"
        )
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="y", length=0)
        new = file.with_name(f"{file.name}.new")
        figure.savefig(new, format="svg", metadata={"Date": None})
        new.replace(file)


def write(file: Path, document: Mapping[str, Any]) -> bool:
    """Writes the chart of a report's document; False if no row has a ratio."""
    shown = bars(document)
    if shown:
        draw(
            shown,
            f"penstock and Kafka Connect {document['kafka_connect']} in turns on one machine "
            f"({document['machine']['processors']} cores, {document['rounds']} rounds)",
            file,
        )
    return bool(shown)


@click.command()
@click.argument("figures", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("chart", type=click.Path(dir_okay=False, path_type=Path))
def main(figures: Path, chart: Path) -> None:
    """Draws the chart of a file of figures that `python -m benchmarks` has written."""
    if not write(chart, json.loads(figures.read_text())):
        raise click.UsageError(f"{figures} has no figures of both runtimes")


if __name__ == "__main__":
    main()
