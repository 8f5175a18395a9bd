"""The wheel, installed outside the repository: its commands run a worker and a pipeline."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

import penstock
from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker
from penstock.testing.processes import STOP_S, worker_settings
from penstock.testing.waiting import wait_until
from tests.places import ROOT

pytestmark = pytest.mark.slow(60)

REPOSITORY: Final = ROOT
SITE: Final = Path(psutil.__file__).parents[1]  # the folder of the packages that penstock requires
COMMIT_TIME: Final = "1767225600"
LINES: Final = [f"line {number}" for number in range(1000)]


def ended(*command: object, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Returns what a command prints; it must exit with 0."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path) -> Path:
    """The wheel of this repository, built without an index and without dependencies."""
    ended(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, REPOSITORY),
        cwd=folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": COMMIT_TIME},
    )
    [wheel] = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and, through a path file, its required packages."""

    folder: Path
    wheel: Path

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "penstock"

    def environ(self, home: Path, **more: str) -> dict[str, str]:
        """The variables of a user who has nothing else installed."""
        dropped = ("PYTHON", "PENSTOCK_", "CONNECT_", "KAFKA_", "VIRTUAL_ENV")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
        return {**kept, "HOME": str(home), "PENSTOCK_CONFIG": os.devnull, **more}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = built(folder)
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    ended(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"),
        *("--disable-pip-version-check", "--no-deps", wheel),
        cwd=folder,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTHON")},
    )
    [site] = (folder / "env").glob("lib/python*/site-packages")
    (site / "required.pth").write_text(f"{SITE}\n")
    return Installed(folder / "env", wheel)


def test_two_builds_of_one_commit_are_equal(installed: Installed, tmp_path: Path) -> None:
    again = built(tmp_path)
    assert again.name == installed.wheel.name == f"penstock-{penstock.VERSION}-py3-none-any.whl"
    digests = {hashlib.sha256(each.read_bytes()).digest() for each in (again, installed.wheel)}
    assert len(digests) == 1


def test_the_command_is_the_wheels(installed: Installed, tmp_path: Path) -> None:
    env = installed.environ(tmp_path)
    python = installed.folder / "bin" / "python"
    where = ended(python, "-c", "import penstock; print(penstock.__file__)", cwd=tmp_path, env=env)
    assert Path(where.strip()).is_relative_to(installed.folder)
    assert penstock.VERSION in ended(installed.program, "--version", cwd=tmp_path, env=env)
    plugins = ended(installed.program, "plugins", "doctor", "--all", cwd=tmp_path, env=env)
    assert "org.apache.kafka.connect.file.FileStreamSinkConnector" in plugins


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0penstock-wheel-{os.getpid()}")
        listening.settimeout(100)
        yield listening


@pytest.fixture
def worker(
    installed: Installed, broker: Broker, tmp_path: Path, manager: socket.socket
) -> Iterator[tuple[psutil.Popen, dict[str, str]]]:
    """A worker of the wheel, without a penstock home: its jars are in a separate folder. It
    notifies the service manager's socket `manager`."""
    given = {"PENSTOCK_HOME": os.environ["PENSTOCK_HOME"]}
    env = installed.environ(tmp_path, **given)
    ended(installed.program, "jars", "spark", "--to", tmp_path / "jars", cwd=tmp_path, env=env)
    settings = worker_settings(broker.bootstrap, "wheel")
    (tmp_path / "worker.properties").write_bytes(render_properties(settings))
    env = installed.environ(
        tmp_path,
        PENSTOCK_JARS=str(tmp_path / "jars"),
        PENSTOCK_URL=settings["listeners"],
        NOTIFY_SOCKET=f"@penstock-wheel-{os.getpid()}",
    )
    with (tmp_path / "worker.log").open("wb") as log:
        process = psutil.Popen(
            [str(installed.program), "distributed", "worker.properties"],
            cwd=tmp_path,
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        yield process, env
    finally:
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = process.children(recursive=True)
            process.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(STOP_S)
        for each in [process, *family]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def test_a_worker_and_a_pipeline_run_from_another_folder(
    installed: Installed,
    worker: tuple[psutil.Popen, dict[str, str]],
    manager: socket.socket,
    tmp_path: Path,
) -> None:
    process, env = worker
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    out = tmp_path / "out.txt"
    connectors = tmp_path / "connectors"
    connectors.mkdir()
    text = "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
    (connectors / "in.properties").write_text(
        f"name=in\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic=wheel\n{text}"
    )
    (connectors / "out.properties").write_text(
        f"name=out\nconnector.class=FileStreamSink\nfile={out}\ntopics=wheel\n{text}"
    )
    try:
        ended(installed.program, "health", "--wait", "--timeout", "100", cwd=tmp_path, env=env)
        assert manager.recv(200).startswith(b"STATUS=starting")
        assert manager.recv(200).startswith(b"READY=1\nSTATUS=running; REST listens on http://")
        ended(installed.program, "apply", "-f", connectors, "--wait", cwd=tmp_path, env=env)
        wait_until(lambda: out.is_file() and out.read_text().splitlines() == LINES, 60, "all lines")
    except (AssertionError, TimeoutError) as error:
        error.add_note((tmp_path / "worker.log").read_text()[-4000:])
        raise
    process.terminate()
    assert process.wait(STOP_S) == 0
    assert manager.recv(200) == b"STOPPING=1"
    assert not (tmp_path / ".penstock").exists()
