"""What commands that run a worker pass to it, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import running, start
from penstock.errors import StartupFailed

from .workers import Penstock

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The arguments for workers; none starts, and this process continues."""
    made: Calls = []

    def recorded(*args: Any) -> None:
        made.append(args)

    monkeypatch.setattr(start, "distributed", lambda props, started: recorded(props))
    monkeypatch.setattr(start, "standalone", recorded)
    monkeypatch.setattr(running, "_end", lambda: None)
    monkeypatch.setattr(running, "_log_to_stderr", lambda *_: None)
    monkeypatch.delenv("CONNECT_GROUP_ID", raising=False)
    return made


def test_a_worker_has_the_settings_of_its_file(
    penstock: Penstock, calls: Calls, tmp_path: Path
) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("group.id=g\na=b\n")
    assert penstock("distributed", str(file)).code == 0
    assert calls == [({"group.id": "g", "a": "b"},)]


def test_variables_count_before_the_file_and_can_do_without_one(
    penstock: Penstock, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("group.id=g\na=b\n")
    monkeypatch.setenv("CONNECT_GROUP_ID", "h")
    assert penstock("distributed", str(file)).code == 0
    assert penstock("distributed").code == 0
    assert penstock("standalone").code == 0
    assert calls == [({"group.id": "h", "a": "b"},), ({"group.id": "h"},), (None, ())]


def test_a_lone_worker_has_the_connectors_of_its_files(penstock: Penstock, calls: Calls) -> None:
    assert penstock("standalone", "w", "a.json", "b.properties").code == 0
    assert calls == [(Path("w"), (Path("a.json"), Path("b.properties")))]


@pytest.mark.parametrize("command", ["distributed", "standalone"])
def test_a_worker_without_any_settings_is_refused(
    penstock: Penstock, calls: Calls, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = penstock(command)
    assert (result.code, calls) == (2, [])
    assert "Missing argument 'FILE'" in result.err


def test_a_file_that_cannot_be_read_is_a_failed_start(penstock: Penstock, calls: Calls) -> None:
    result = penstock("distributed", "/no/such/file")
    assert (result.code, calls) == (StartupFailed.exit_code, [])
    assert "/no/such/file" in result.err


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (lambda: StartupFailed("no port"), 2, "penstock: no port\n"),
        (lambda: OSError(28, "No space left on device", "/f"), 1, "(/f)\n"),
        (KeyboardInterrupt, 130, ""),
    ],
)
def test_the_error_that_ends_a_worker_becomes_a_message_and_an_exit_code(
    penstock: Penstock,
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    raised: Callable[[], BaseException],
    code: int,
    said: str,
) -> None:
    def ends(*_: Any) -> None:
        raise raised()

    monkeypatch.setattr(start, "standalone", ends)
    result = penstock("standalone", "w")
    assert result.code == code
    assert result.err.strip().endswith(said.strip())
