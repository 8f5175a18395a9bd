import io
from collections.abc import Callable

import pytest
from rich.console import Console

from penstock.demo.progress import DemoProgress, Look, ShownInstance
from penstock.demo.view import LiveView, PlainView, view_for

Clock = Callable[[], int]


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Hands:
    return Hands()


def console(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, _environ={})


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


PROGRESS = (
    DemoProgress.start(1_000, 5_000, 0)
    .seen(1_000, Look())
    .seen(2_000, Look(600, 250, 2_500, 900, (ShownInstance("demo-sink-0", "RUNNING"),)))
)


def test_the_live_view_is_for_terminals_only(clock: Hands) -> None:
    assert isinstance(view_for(console(terminal=True), clock), LiveView)
    assert isinstance(view_for(console(), clock), PlainView)


def test_steps_are_said_with_their_times(clock: Hands) -> None:
    out = console()
    with PlainView(out, clock) as view:
        view.begin("Kafka")
        clock.ms = 2_500
        view.end("answers")
    assert written(out) == "[   2.5 s] Kafka: answers (2.5 s)\n"


def test_a_step_that_takes_long_says_what_it_is_at(clock: Hands) -> None:
    out = console()
    with PlainView(out, clock) as view:
        view.begin("jars")
        view.detail("fetching 5 jars for spark")
        view.end("ready")
        view.begin("file")
        for ms in range(0, 12_001, 120):
            clock.ms = ms
            view.detail(f"read {ms // 120} %")
    assert [line[11:] for line in written(out).splitlines()] == [
        "jars: ready (0.0 s)",
        "file: read 42 %",
        "file: read 84 %",
    ]


def test_plain_progress_comes_every_two_seconds(clock: Hands) -> None:
    out = console()
    with PlainView(out, clock) as view:
        for ms in range(1_000, 10_001, 100):
            clock.ms = ms
            view.progress(PROGRESS.seen(ms + 1_000, Look(600 + ms, 250 + ms)))
    lines = written(out).splitlines()
    assert len(lines) == 5
    assert len(set(lines)) == 5
    assert "in 2,600 (" in lines[0]
    assert "lag 350 · file 50 % · demo-sink-0 RUNNING" in lines[0]


def test_unchanged_lines_are_printed_rarely(clock: Hands) -> None:
    out = console()
    with PlainView(out, clock) as view:
        for ms in range(1_000, 30_001, 100):
            clock.ms = ms
            view.progress(DemoProgress.start(10, 10, 0))
    lines = written(out).splitlines()
    assert len(lines) == 3  # after 2, 12 and 22 s
    assert "no record yet · no status yet" in lines[0]


def test_brackets_and_emoji_codes_are_shown_as_they_are(clock: Hands) -> None:
    out = console()
    with PlainView(out, clock) as view:
        view.begin("[bold]x[/bold] :smile:")
        view.end("done")
    assert "[bold]x[/bold] :smile:" in written(out)


def test_the_live_view_draws_steps_and_records(clock: Hands) -> None:
    out = console(terminal=True)
    with LiveView(out, clock) as view:
        view.begin("Kafka")
        clock.ms = 1_500
        view.end("answers [here]")
        view.begin("records")
        view.progress(PROGRESS)
    drawn = written(out)
    for part in ("✓", "answers [here]", "1.5 s", "600", "lag 350", "50 %", "RUNNING", "waiting"):
        assert part in drawn


def test_an_open_step_is_marked_when_the_demo_fails(clock: Hands) -> None:
    out = console(terminal=True)
    view = LiveView(out, clock)
    view.begin("Kafka")
    with pytest.raises(ValueError, match="no"), view:
        raise ValueError("no")
    assert "✗" in written(out)
