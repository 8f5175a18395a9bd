"""The image's entry point as a process, with the variables that the usual images accept."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil
import pytest

from penstock.kafka.broker import Broker, free_port
from penstock.testing.processes import STOP_S
from penstock.testing.waiting import wait_until

pytestmark = pytest.mark.slow(190)

COMMAND: Final = (sys.executable, "-m", "penstock", "container")
LINES: Final = [f"line {number}" for number in range(100)]

# A root file system as with `--read-only -v …:DATA`: only DATA is writable.
READ_ONLY: Final = """\
set -e
mount --make-rprivate /
mount --bind "$DATA" "$DATA"
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /dev/shm -o size=1m
exec "$@"
"""


def environ(**given: str) -> dict[str, str]:
    """The environment of a container: `given`, without this process's settings."""
    dropped = ("CONNECT_", "KAFKA_", "PENSTOCK_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "PENSTOCK_HOME": os.environ["PENSTOCK_HOME"], **given}


def confluent(broker: str, name: str, port: int) -> dict[str, str]:
    """The variables of a compose file for cp-kafka-connect."""
    text = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "CONNECT_BOOTSTRAP_SERVERS": broker,
        "CONNECT_REST_ADVERTISED_HOST_NAME": "127.0.0.1",
        "CONNECT_LISTENERS": f"http://127.0.0.1:{port}",
        "CONNECT_GROUP_ID": name,
        "CONNECT_CONFIG_STORAGE_TOPIC": f"{name}-config",
        "CONNECT_OFFSET_STORAGE_TOPIC": f"{name}-offset",
        "CONNECT_STATUS_STORAGE_TOPIC": f"{name}-status",
        "CONNECT_CONFIG_STORAGE_REPLICATION_FACTOR": "1",
        "CONNECT_OFFSET_STORAGE_REPLICATION_FACTOR": "1",
        "CONNECT_STATUS_STORAGE_REPLICATION_FACTOR": "1",
        "CONNECT_KEY_CONVERTER": text,
        "CONNECT_VALUE_CONVERTER": text,
        "CONNECT_OFFSET_FLUSH_INTERVAL_MS": "500",
        "KAFKA_HEAP_OPTS": "-Xms256M -Xmx480M",
        "KAFKA_JMX_PORT": "9101",
    }


def run(given: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environ(**given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


Start = Callable[..., psutil.Popen]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the entry point; its output goes to `log`. All processes end with the test."""
    made: list[psutil.Popen] = []

    def begin(given: Mapping[str, str], *before: str) -> psutil.Popen:
        with (tmp_path / "log").open("ab") as log:
            process = psutil.Popen(
                [*before, *COMMAND],
                env=environ(**given),
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            )
        made.append(process)
        return process

    yield begin
    for process in made:
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = process.children(recursive=True)
            process.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(STOP_S)
        for each in [process, *family]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def test_without_variables_it_says_which_are_required() -> None:
    done = run({})
    assert done.returncode == 2
    assert "CONNECT_BOOTSTRAP_SERVERS is required.\nCONNECT_GROUP_ID is required.\n" in done.stderr


def test_a_setting_that_is_wrong_is_reported_before_kafka_is_waited_for() -> None:
    given = confluent(f"127.0.0.1:{free_port()}", "wrong", free_port())
    done = run({**given, "CONNECT_OFFSET_FLUSH_INTERVAL_MS": "soon"})
    assert (done.returncode, "offset.flush.interval.ms" in done.stderr) == (2, True)


def test_a_kafka_that_does_not_come_ends_it() -> None:
    given = confluent(f"127.0.0.1:{free_port()}", "alone", free_port())
    done = run({**given, "CONNECT_CUB_KAFKA_TIMEOUT": "1"})
    assert done.returncode == 6
    assert "Kafka did not answer within 1 s" in done.stderr


def test_it_ends_while_it_waits_for_kafka(start: Start, tmp_path: Path) -> None:
    process = start(confluent(f"127.0.0.1:{free_port()}", "waits", free_port()))
    log = tmp_path / "log"
    wait_until(lambda: b"waiting up to 60 s for Kafka" in log.read_bytes(), 30, "the wait")
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM


def wrapped(tmp_path: Path) -> list[str]:
    """A command prefix that makes the root read-only, if this machine allows it."""
    unshare = shutil.which("unshare")
    probe = [str(unshare), "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", "true"]
    env = {**os.environ, "DATA": str(tmp_path)}
    if unshare and subprocess.run(probe, env=env, capture_output=True, check=False).returncode == 0:
        return probe[:-1]
    return []


def test_a_worker_runs_with_connectors_in_a_read_only_root(
    start: Start, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    connectors = tmp_path / "connectors"
    connectors.mkdir()
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "tmp").mkdir()
    out = tmp_path / "out.txt"
    source = {"connector.class": "FileStreamSource", "file": f"{tmp_path}/in.txt", "topic": "boxed"}
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": "boxed"}
    (connectors / "in.json").write_text(json.dumps({"name": "boxed-in", "config": source}))
    (connectors / "out.json").write_text(json.dumps({"name": "boxed-out", "config": sink}))
    (tmp_path / "group").write_text("boxed\n")

    given = confluent(broker.bootstrap, "boxed", free_port())
    del given["CONNECT_GROUP_ID"]
    given |= {
        "CONNECT_GROUP_ID_FILE": str(tmp_path / "group"),
        "PENSTOCK_CONNECTORS": str(connectors),
        "PENSTOCK_DATA": str(tmp_path),
        "PENSTOCK_HOME": os.environ["PENSTOCK_HOME"],
        "TMPDIR": str(tmp_path / "tmp"),
        "DATA": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    before = wrapped(tmp_path)
    process = start(given, *before)
    log = tmp_path / "log"
    try:
        wait_until(lambda: run(given, "health").returncode == 0, 100, "health", poll_s=2)
        wait_until(lambda: out.is_file() and out.read_text().splitlines() == LINES, 60, "all lines")
    except TimeoutError as error:
        error.add_note(log.read_text()[-6000:])
        raise
    said = log.read_text()
    assert "KAFKA_JMX_PORT has no effect" in said
    assert "heap of Spark's JVM: 480m" in said
    assert "created boxed-in" in said
    assert ("/dev/shm has less than 64 MB" in said) == bool(before)
    java = next(each for each in process.children(recursive=True) if each.name() == "java")
    assert "-Xmx480m" in java.cmdline()
    process.terminate()
    assert process.wait(STOP_S) == 0
    if not before:
        pytest.skip("without a read-only root: this machine allows no mounts (unshare --map-root)")
