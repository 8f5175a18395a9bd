"""What tests of the command share."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import httpx
import pytest

from penstock.cli.app import run
from penstock.cli.session import CommandSession

from .workers import FakeClock, FakeWorkers, Penstock, Result


@pytest.fixture
def workers() -> FakeWorkers:
    return FakeWorkers()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment that the command sees: an empty home."""
    return {"XDG_CONFIG_HOME": str(tmp_path / "home")}


@pytest.fixture
def penstock(
    workers: FakeWorkers,
    clock: FakeClock,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Penstock:
    """Runs the command line; words are its arguments, `stdin` what it reads."""

    def command(*args: str, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        session = CommandSession(
            environ=environ, clock=clock, pause=clock.wait, transport=httpx.MockTransport(workers)
        )
        code = run(args, session)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return command
