"""The scripts that replace Kafka's, with a `penstock` that only prints its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.testing.waiting import wait_until
from tests.places import ROOT

BIN = ROOT / "bin"
FAKE = '#!/bin/sh\necho "$PENSTOCK_HOME" "$@"\nexit 7\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A separate installation; its path contains a space."""
    home = tmp_path / "an installation"
    shutil.copytree(BIN, home / "bin")
    penstock = home / ".venv" / "bin" / "penstock"
    penstock.parent.mkdir(parents=True)
    penstock.write_text(FAKE)
    penstock.chmod(0o755)
    return home


def run(script: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")}
    kept.pop("PENSTOCK_HOME", None)
    return subprocess.run(
        [str(script), *args],
        env={**kept, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "args", "given"),
    [
        ("connect-distributed", ["w.properties"], "distributed w.properties"),
        ("connect-distributed", ["w.properties", "ignored"], "distributed w.properties"),
        ("connect-distributed", ["-name", "x", "-loggc", "w"], "distributed w"),
        ("connect-standalone", ["w.properties"], "standalone w.properties"),
        ("connect-standalone", ["w", "a.json", "b.properties"], "standalone w a.json b.properties"),
    ],
)
def test_arguments_reach_the_command_and_its_exit_code_comes_back(
    home: Path, script: str, args: list[str], given: str
) -> None:
    done = run(home / "bin" / script, *args)
    assert (done.returncode, done.stdout) == (7, f"{home}/.penstock {given}\n")
    assert done.stderr == ""


@pytest.mark.parametrize("script", ["connect-distributed", "connect-standalone"])
@pytest.mark.parametrize(
    "args", [[], ["--help"], ["w", "--help"], ["-daemon"], ["-h"], ["-x", "w"]]
)
def test_without_a_file_the_usage_is_reported(home: Path, script: str, args: list[str]) -> None:
    # kafka-connect.md §12.1: no argument or --help is exit code 1.
    done = run(home / "bin" / script, *args)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"USAGE: {home}/bin/{script} [-daemon] {script}.properties")


def test_a_link_to_a_script_finds_its_installation(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "connect-distributed.sh"
    link.symlink_to(home / "bin" / "connect-distributed")
    assert run(link, "w").stdout == f"{home}/.penstock distributed w\n"


@pytest.mark.parametrize(
    ("args", "env", "log"),
    [
        (["-daemon", "w"], {}, "logs/connectDistributed.out"),
        (["-daemon", "-name", "x", "w"], {}, "logs/x.out"),
        (["w"], {"EXTRA_ARGS": "-name y -daemon"}, "logs/y.out"),
        (["-daemon", "w"], {"LOG_DIR": "elsewhere"}, "elsewhere/connectDistributed.out"),
    ],
)
def test_a_daemon_writes_to_a_log_and_the_script_returns(
    home: Path, args: list[str], env: dict[str, str], log: str
) -> None:
    env = {name: str(home / text) if name == "LOG_DIR" else text for name, text in env.items()}
    done = run(home / "bin" / "connect-distributed", *args, **env)
    assert (done.returncode, done.stdout) == (0, "")
    file = home / log
    wait_until(lambda: file.exists() and file.read_text(), 10, f"words in {log}")
    assert file.read_text() == f"{home}/.penstock distributed w\n"


def test_a_variable_without_effect_is_reported(home: Path) -> None:
    done = run(home / "bin" / "connect-distributed", "w", KAFKA_HEAP_OPTS="-Xmx1g")
    assert done.returncode == 7
    assert "KAFKA_HEAP_OPTS has no effect here; the JVM of Spark" in done.stderr


def test_a_home_that_is_set_is_kept(home: Path) -> None:
    done = run(home / "bin" / "connect-standalone", "w", PENSTOCK_HOME="/h")
    assert done.stdout == "/h standalone w\n"


def test_without_an_installation_it_says_what_to_do(home: Path) -> None:
    shutil.rmtree(home / ".venv")
    done = run(home / "bin" / "connect-distributed", "w", PATH="/usr/bin:/bin")
    assert done.returncode == 2
    assert "make setup" in done.stderr
