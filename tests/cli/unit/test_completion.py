"""Shell completion of commands, options, clusters and existing connectors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.shell_completion import ShellComplete

from penstock.cli.app import cli
from penstock.cli.session import CommandSession

from .workers import FakeWorkers, Penstock


def completed(session: CommandSession, args: list[str], incomplete: str) -> list[str]:
    shell = ShellComplete(cli, {"obj": session}, "penstock", "_PENSTOCK_COMPLETE")
    return [item.value for item in shell.get_completions(args, incomplete)]


@pytest.fixture
def session(workers: FakeWorkers, environ: dict[str, str]) -> CommandSession:
    return CommandSession(environ=environ, transport=httpx.MockTransport(workers))


def test_commands_and_options_are_completed(session: CommandSession) -> None:
    assert completed(session, [], "sta") == ["standalone", "status"]
    assert completed(session, ["list"], "p") == ["plugins", "predefined"]
    assert completed(session, ["wait", "c"], "--ig") == ["--ignore-failed"]
    [state] = completed(session, ["wait", "c", "--state"], "pa")
    assert state.upper() == "PAUSED"


@pytest.mark.parametrize("command", [["status"], ["stop", "orders"], ["offsets", "get"]])
def test_connectors_are_completed_by_asking_the_cluster(
    session: CommandSession, workers: FakeWorkers, command: list[str]
) -> None:
    workers.on("GET", "/connectors", (200, ["orders", "other", "x"]))
    assert completed(session, ["--url", "w9:9", *command], "o") == ["orders", "other"]
    assert [request.url.host for request in workers.requests] == ["w9"]


def test_without_an_answer_nothing_is_completed_and_nothing_said(
    session: CommandSession, workers: FakeWorkers, capfd: pytest.CaptureFixture[str]
) -> None:
    workers.down["localhost"] = httpx.ConnectError("refused")
    assert completed(session, ["status"], "o") == []
    workers.down.clear()
    workers.on("GET", "/connectors", (500, {"error_code": 500, "message": "no"}))
    assert completed(session, ["status"], "o") == []
    workers.on("GET", "/connectors", (200, b"<html>"))
    assert completed(session, ["status"], "o") == []
    assert capfd.readouterr() == ("", "")


def test_clusters_are_completed_from_the_file(
    session: CommandSession, environ: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[clusters.prod]\nurl = "x"\n[clusters.dev]\nurl = "y"')
    environ["PENSTOCK_CONFIG"] = str(file)
    assert completed(session, ["status", "--cluster"], "p") == ["prod"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_command_and_the_variable(penstock: Penstock, shell: str) -> None:
    result = penstock("completion", shell)
    assert result.code == 0
    assert f"_PENSTOCK_COMPLETE={shell}_complete" in result.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to complete in")
def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    command = tmp_path / "penstock"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@"\n')
    command.chmod(0o755)
    script = """
        source <(penstock completion bash)
        COMP_WORDS=(penstock heal) COMP_CWORD=1
        _penstock_completion penstock
        echo "${COMPREPLY[@]}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "health\n", done.stderr
