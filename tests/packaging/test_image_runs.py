"""The image, built from its Dockerfile in an empty root, and the worker that it runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil
import pytest

from penstock.kafka.broker import Broker, free_port
from penstock.plugins.registry import installed
from penstock.testing.processes import STOP_S
from penstock.testing.waiting import wait_until
from tests.places import ROOT
from tests.servers import image as images
from tests.servers.image import Image

from .test_container import LINES, confluent

MISSING: Final = images.missing()
pytestmark = [
    pytest.mark.slow(170),
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.timeout(1200),
]

MOST_BYTES: Final = 1_200_000_000
ID: Final = 1001
VOLUME: Final = "/var/lib/penstock"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    yield images.build(ROOT / "Dockerfile", folder)
    shutil.rmtree(folder)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The volume, which belongs to the image's user."""
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, ID, ID)
    return folder


def run(
    image: Image, data: Path, given: Mapping[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    command, env = image.start_args(data, given, *words)
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_it_is_as_large_as_was_promised(image: Image) -> None:
    assert 500_000_000 < image.size_bytes < MOST_BYTES


def test_the_packages_of_all_extras_are_inside(image: Image, data: Path) -> None:
    extras = [found.plugin.extra for place in installed() for found in place.found]
    modules = sorted({name for extra in extras if extra is not None for name in extra.modules})
    assert len(modules) > 10
    script = "import importlib, sys; [importlib.import_module(each) for each in sys.argv[1:]]"
    done = run(image, data, {}, "python", "-c", script, *modules)
    assert (done.returncode, done.stderr) == (0, "")


def test_its_user_may_write_to_the_volume_and_to_tmp_alone(image: Image, data: Path) -> None:
    script = f"id -u; touch {VOLUME}/a /tmp/b; touch /opt/penstock/c /etc/d"
    done = run(image, data, {}, "sh", "-c", script)
    assert done.stdout == f"{ID}\n"
    assert done.stderr.count("Read-only file system") == 2
    assert [each.name for each in data.iterdir()] == ["a"]


def test_without_variables_it_says_which_are_required(image: Image, data: Path) -> None:
    done = run(image, data, {}, *image.entrypoint, *image.command)
    assert done.returncode == 2
    assert "CONNECT_BOOTSTRAP_SERVERS is required.\n" in done.stderr


def test_a_worker_runs_with_connectors(
    image: Image, data: Path, broker: Broker, tmp_path: Path
) -> None:
    (data / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    (data / "connectors").mkdir()
    source = {
        "connector.class": "FileStreamSource",
        "file": f"{VOLUME}/in.txt",
        "topic": "imaged",
    }
    sink = {
        "connector.class": "FileStreamSink",
        "file": f"{VOLUME}/out.txt",
        "topics": "imaged",
    }
    for name, config in (("imaged-in", source), ("imaged-out", sink)):
        file = data / "connectors" / f"{name}.json"
        file.write_text(json.dumps({"name": name, "config": config}))
    given = confluent(broker.bootstrap, "imaged", free_port())
    given["PENSTOCK_CONNECTORS"] = f"{VOLUME}/connectors"
    log, out = tmp_path / "log", data / "out.txt"
    command, env = image.start_args(data, given, *image.entrypoint, *image.command)
    with log.open("ab") as said:
        process = psutil.Popen(command, env=env, stdout=said, stderr=said)
    try:
        wait_until(
            lambda: run(image, data, given, *image.health).returncode == 0, 120, "health", poll_s=2
        )
        wait_until(lambda: out.is_file() and out.read_text().splitlines() == LINES, 60, "all lines")
        family = process.children(recursive=True)
        assert {each.uids().real for each in family} == {ID}
        assert {"tini", "java"} <= {each.name() for each in family}
        family[0].send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
        assert not any(each.is_running() for each in family)
    except BaseException as error:
        error.add_note(log.read_text()[-6000:])
        raise
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()  # which ends all processes in the container
        process.wait(STOP_S)
