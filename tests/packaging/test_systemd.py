"""systemd accepts the unit, and its command is ours."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from penstock.cli.app import cli
from tests.places import ROOT

FOLDER: Final = ROOT / "packaging" / "systemd"
UNIT: Final = FOLDER / "penstock.service"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser


def test_its_command_is_ours() -> None:
    _, command, *arguments = unit()["Service"]["ExecStart"].split()
    cli.commands[command].make_context(command, arguments)


def test_only_the_worker_is_signalled_and_its_processes_may_run_out_of_memory() -> None:
    service = unit()["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert (service["KillMode"], service["OOMPolicy"]) == ("mixed", "continue")


@pytest.fixture
def analyze() -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    return program


def said(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_systemd_takes_it(analyze: str, tmp_path: Path) -> None:
    # It looks for the program, which is installed elsewhere.
    text = re.sub(r"/opt/penstock/bin/penstock", "/bin/true", UNIT.read_text())
    copy = tmp_path / UNIT.name
    copy.write_text(text)
    done = said(analyze, "verify", "--man=no", "--recursive-errors=no", str(copy))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_is_locked_in(analyze: str) -> None:
    done = said(analyze, "security", "--offline=true", "--no-pager", "--threshold=25", str(UNIT))
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at a file: it is older than systemd 250")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
