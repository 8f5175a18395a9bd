"""Runs the scenarios on both runtimes in turn and reports the results."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import click
from rich.console import Console

from benchmarks import (
    cassandra,
    chart,
    databases,
    documents,
    files,
    indices,
    messages,
    object_stores,
    quiet,
    redis_stores,
    report,
    scenarios,
    transforming,
    web,
)
from benchmarks.inputs import WrongOutcome, whole_batches
from benchmarks.report import Figure, Problem, number_words
from benchmarks.runtimes import PENSTOCK, REFERENCE, RunFailed, session
from benchmarks.scenarios import WARM_RECORDS, Load, Points, Scenario
from penstock.errors import PenstockError
from penstock.host import jars
from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics
from tests.servers.reference import script_options

RECORDS: Final = 2_000_000
ROUNDS: Final = 3
SECONDS: Final = 60.0
RUNTIMES: Final = (PENSTOCK, REFERENCE)

_FILE_WIDTH: Final = 140
_PROBLEM_WORDS: Final = 300  # shown characters of a problem; the file has all of it

SCENARIOS: Final = (
    *scenarios.SCENARIOS,
    *quiet.SCENARIOS,
    *transforming.SCENARIOS,
    *databases.SCENARIOS,
    *object_stores.SCENARIOS,
    *files.SCENARIOS,
    *documents.SCENARIOS,
    *indices.SCENARIOS,
    *cassandra.SCENARIOS,
    *redis_stores.SCENARIOS,
    *messages.SCENARIOS,
    *web.SCENARIOS,
)

Say = Callable[[str], None]


class Bench:
    """One benchmark: the figures so far, and the problems."""

    def __init__(self, load: Load, topics: Topics, folder: Path, say: Say) -> None:
        self.figures: list[Figure] = []
        self.problems: list[Problem] = []
        self._load = load
        self._topics = topics
        self._folder = folder
        self._say = say

    def run(
        self, scenarios: Sequence[Scenario], rounds: int, wanted: Container[str] = RUNTIMES
    ) -> None:
        """Runs all scenarios on the wanted runtimes, round after round, with the runtimes in
        alternating order."""
        for number in range(rounds):
            runtimes = (PENSTOCK, REFERENCE) if number % 2 else (REFERENCE, PENSTOCK)
            for scenario in scenarios:
                self._say(f"round {number + 1} of {rounds}: {scenario.title}")
                for runtime in (PENSTOCK,) if scenario.alone else runtimes:
                    if runtime in wanted:
                        self._measure(scenario, runtime, number)

    def _measure(self, scenario: Scenario, runtime: str, number: int) -> None:
        """Runs a scenario on a fresh worker. A failed run is reported as a problem; the remaining
        ones still run."""

        def keep(name: str, figure: str, value: float | None, points: Points = ()) -> None:
            self.figures.append(Figure(name, figure, runtime, number, value, points))
            shown = "too few records" if value is None else number_words(value)
            self._say(f"  {runtime:9s} {name} {figure}: {shown}")

        def note(figure: str, value: float | None, points: Points = ()) -> None:
            keep(scenario.name, figure, value, points)

        try:
            with session(
                runtime, self._folder, self._topics, scenario.settings, scenario.plugins
            ) as running:
                keep("start", "rest_s", running.rest_s)
                scenario.measure(running, self._load, note)
        except (RunFailed, WrongOutcome, TimeoutError, ValueError, PenstockError) as error:
            text = f"{type(error).__name__}: {error}"
            self.problems.append(Problem(scenario.name, runtime, number, text))
            self._say(f"  {runtime:9s} {scenario.name} failed: {text[:_PROBLEM_WORDS]}")


@click.command(context_settings={"show_default": True})
@click.option(
    "--scenario",
    "names",
    multiple=True,
    type=click.Choice([scenario.name for scenario in SCENARIOS]),
    help="Measure only this one; may be given several times.",
)
@click.option("--records", default=RECORDS, type=click.IntRange(1), help="Records per run.")
@click.option("--rounds", default=ROUNDS, type=click.IntRange(1), help="Runs per runtime.")
@click.option(
    "--seconds",
    default=SECONDS,
    type=click.FloatRange(1),
    help="How long latency, quiet connectors and idle ones are measured.",
)
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    help="Measure only this one of the two.  [default: both, in turns]",
)
@click.option(
    "--json",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the figures are written.  [default: bench.json in the penstock home]",
)
def main(
    names: tuple[str, ...],
    records: int,
    rounds: int,
    seconds: float,
    runtime: str | None,
    file: Path | None,
) -> None:
    """Measures penstock and the real Kafka Connect in turns, on one broker."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    jars.java()
    for name in jars.SETS:
        jars.folder(name, say)
    records = whole_batches(records)
    if records < WARM_RECORDS:
        say(f"Fewer than {WARM_RECORDS:,} records per run: what is called warm is not.")
    chosen = [scenario for scenario in SCENARIOS if not names or scenario.name in names]
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as temporary:
        folder = Path(temporary)
        with Broker(folder / "kafka", say=say) as broker:
            topics = Topics(broker.bootstrap)
            bench = Bench(Load(broker, topics, folder, records, seconds), topics, folder, say)
            try:
                bench.run(chosen, rounds, [runtime] if runtime else RUNTIMES)
            finally:  # Ctrl-C must not lose an hour's figures
                content = report.document(
                    bench.figures,
                    bench.problems,
                    records=records,
                    rounds=rounds,
                    seconds=seconds,
                    reference_options=script_options(),
                )
                file = file or jars.home() / "bench.json"
                report.write(file, content)
                title = f"medians of {rounds} rounds (lowest–highest), {records:,} records per run"
                console.print(report.table(bench.figures, title))
                say(f"All figures: {file}")
                if chart.write(drawn := file.with_suffix(".svg"), content):
                    say(f"Chart: {drawn}")
    for problem in bench.problems:
        run = f"round {problem.round + 1}, {problem.scenario}, {problem.runtime}"
        say(f"✗ {run}: {problem.text[:_PROBLEM_WORDS]}")
    sys.exit(1 if bench.problems else 0)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Ends the benchmark cleanly: stops all started processes."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
