"""The demo's output: steps while it sets up, and a live picture while records move.

On a terminal both are redrawn in place. Elsewhere a plain line is printed after each step, every
five seconds during a longer one, and every two seconds while records move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from penstock.demo.folder import SINK, SOURCE
from penstock.demo.progress import DemoProgress, ShownInstance
from penstock.demo.words import percent, rate_words, size_words

_PLAIN_SLOW_MS: Final = 5_000  # after which a step shows its progress
_PLAIN_MOVING_MS: Final = 2_000
_PLAIN_AGAIN_MS: Final = 10_000  # when there is nothing new to say
_STATE_STYLES: Final = {"RUNNING": "green", "FAILED": "bold red", "PAUSED": "yellow"}


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One step of the demo."""

    name: str
    began_ms: int
    detail: str = ""
    ended_ms: int | None = None
    failed: bool = False

    def taken_ms(self, now_ms: int) -> int:
        return (self.ended_ms if self.ended_ms is not None else now_ms) - self.began_ms


class View(Protocol):
    """Shows the demo's steps. An exception in its context marks an open step as failed."""

    def begin(self, name: str) -> None:
        """A step begins."""

    def detail(self, text: str) -> None:
        """Shows the step's progress."""

    def end(self, text: str) -> None:
        """The step is done; `text` is its outcome."""

    def progress(self, progress: DemoProgress) -> None:
        """How far the records are."""

    def __enter__(self) -> View: ...

    def __exit__(self, kind: object, *_: object) -> None: ...


def view_for(console: Console, now: Callable[[], int]) -> View:
    """The live view if the terminal can draw it, otherwise the plain one."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveView(console, now)
    return PlainView(console, now)


class LiveView:
    """Redraws itself several times a second, in a separate thread."""

    def __init__(self, console: Console, now: Callable[[], int]) -> None:
        self._now = now
        self._steps: tuple[DemoStep, ...] = ()
        self._progress: DemoProgress | None = None
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=8, transient=False
        )

    def begin(self, name: str) -> None:
        self._steps = (*self._steps, DemoStep(name, self._now()))

    def detail(self, text: str) -> None:
        self._change(detail=text)

    def end(self, text: str) -> None:
        self._change(detail=text, ended_ms=self._now())

    def progress(self, progress: DemoProgress) -> None:
        self._progress = progress

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._change(failed=True, ended_ms=self._now())
        self._live.stop()

    def _change(
        self, *, detail: str | None = None, ended_ms: int | None = None, failed: bool = False
    ) -> None:
        if not self._steps or self._steps[-1].ended_ms is not None:
            return
        *done, last = self._steps
        last = replace(
            last,
            detail=last.detail if detail is None else detail,
            ended_ms=ended_ms,
            failed=failed,
        )
        self._steps = (*done, last)

    def _draw(self) -> RenderableType:
        now_ms = self._now()
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(justify="right", no_wrap=True)
        for step in self._steps:
            mark: RenderableType = self._spinner
            if step.ended_ms is not None:
                mark = Text("✗", "bold red") if step.failed else Text("✓", "green")
            table.add_row(
                mark, step.name, Text(step.detail, "dim"), f"{step.taken_ms(now_ms) / 1000:.1f} s"
            )
        if self._progress is None:
            return table
        return Group(table, _moving(self._progress))


class PlainView:
    """Prints lines that begin with the seconds since the start."""

    def __init__(self, console: Console, now: Callable[[], int]) -> None:
        self._console = console
        self._now = now
        self._start_ms = now()
        self._step: DemoStep | None = None
        self._detail = ""
        self._moving = ""
        self._said_ms = self._start_ms

    def begin(self, name: str) -> None:
        self._step = DemoStep(name, self._now())
        self._detail = self._moving = ""
        self._said_ms = self._now()

    def detail(self, text: str) -> None:
        if self._step is None or text == self._detail:
            return
        if self._now() - self._said_ms >= _PLAIN_SLOW_MS:
            self._detail = text
            self._say(f"{self._step.name}: {text}")

    def end(self, text: str) -> None:
        if self._step:
            took_s = self._step.taken_ms(self._now()) / 1000
            self._say(f"{self._step.name}: {text} ({took_s:.1f} s)")
        self._step = None

    def progress(self, progress: DemoProgress) -> None:
        line = progress_line(progress)
        wait_ms = _PLAIN_AGAIN_MS if line == self._moving else _PLAIN_MOVING_MS
        if self._now() - self._said_ms >= wait_ms:
            self._moving = line
            self._say(line)

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._step is not None:
            self._say(f"{self._step.name}: not done")

    def _say(self, text: str) -> None:
        self._said_ms = self._now()
        seconds = (self._said_ms - self._start_ms) / 1000
        self._console.print(
            f"[{seconds:6.1f} s] {text}", markup=False, emoji=False, highlight=False, soft_wrap=True
        )


def progress_line(progress: DemoProgress) -> str:
    """The live picture in one line."""
    now_ms = progress.now_ms
    into, out = progress.into_topic, progress.out_of_topic
    if not into.count:
        return f"no record yet · {progress.states()}"
    into_words, out_words = (
        f"{pace.count:,} ({rate_words(pace.rate(now_ms))}, average {rate_words(pace.average())})"
        for pace in (into, out)
    )
    return (
        f"in {into_words} · out {out_words} · lag {progress.lag:,} · "
        f"file {percent(progress.position, progress.size)} · {progress.states()}"
    )


def _moving(progress: DemoProgress) -> Panel:
    now_ms = progress.now_ms
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True, min_width=10)
    table.add_column(min_width=8, ratio=1)
    table.add_column(justify="right", no_wrap=True, min_width=15)
    table.add_column(justify="right", no_wrap=True, min_width=20)
    for name, pace in (
        ("file → topic", progress.into_topic),
        ("topic → file", progress.out_of_topic),
    ):
        table.add_row(
            name,
            f"{pace.count:,}",
            ProgressBar(total=max(1, progress.lines), completed=min(pace.count, progress.lines)),
            rate_words(pace.rate(now_ms)),
            Text(f"average {rate_words(pace.average())}", "dim"),
        )
    below = Text()
    below.append(
        f"lag {progress.lag:,} records   file read to {percent(progress.position, progress.size)}"
        f" of {size_words(progress.size)}   written {size_words(progress.into_file.count)}\n"
    )
    for name in (SOURCE, SINK):
        below.append_text(_states(name, progress.parts))
    return Panel(Group(table, below), title="records", title_align="left", border_style="cyan")


def _states(name: str, parts: tuple[ShownInstance, ...]) -> Text:
    text = Text()
    mine = [part for part in parts if part.name == name or part.name.startswith(f"{name}-")]
    if not mine:
        text.append(f"{name} ")
        text.append("waiting", "yellow")
        text.append("   ")
    for part in mine:
        text.append(f"{part.name} ")
        text.append(part.state, _STATE_STYLES.get(part.state, "yellow"))
        text.append("   ")
    return text
