"""Invalid settings are refused with one clear message that names the setting, without a trace."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker, free_port
from penstock.testing.processes import worker_settings
from penstock.testing.topics import Topics

TIMEOUT_S = 90


@pytest.fixture
def settings(broker: Broker, unique: Callable[[str], str]) -> dict[str, str]:
    """Valid settings of a worker."""
    return worker_settings(broker.bootstrap, unique("bad"))


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@dataclass(frozen=True)
class Patient:
    """A worker that retries for a while before it gives up, because a setting has this value."""

    value: str
    process: subprocess.Popen[str]

    def ended(self) -> subprocess.CompletedProcess[str]:
        said, errors = self.process.communicate(timeout=TIMEOUT_S)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, said, errors)


@pytest.fixture(scope="module", autouse=True)
def patient(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Patient]]:
    """The workers by their invalid setting; they retry while the other tests run."""
    values = {
        "bootstrap.servers": f"127.0.0.1:{free_port()}",
        "status.storage.replication.factor": "3",
    }
    started: dict[str, Patient] = {}
    for name, value in values.items():
        file = tmp_path_factory.mktemp("patient") / "worker.properties"
        settings = {**worker_settings(broker.bootstrap, file.parent.name), name: value}
        file.write_bytes(render_properties(settings))
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "distributed", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started[name] = Patient(value, process)
    yield started
    for each in started.values():
        each.process.kill()
        each.process.communicate()


def penstock(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **environment},
        check=False,
    )


def refused(folder: Path, settings: dict[str, str], *words: str, **environment: str) -> str:
    """The message with which a worker with these settings fails; it must contain all of `words`."""
    file = folder / "worker.properties"
    file.write_bytes(render_properties(settings))
    return message_of(penstock("distributed", file, **environment), *words)


def message_of(ended: subprocess.CompletedProcess[str], *words: str) -> str:
    said = ended.stderr
    assert ended.returncode > 0, said
    assert "Traceback" not in said
    at = said.find("penstock: ")
    assert at >= 0, said
    message = said[at:]
    for word in words:
        assert word in message, said
    return message


MISSING = [
    "bootstrap.servers",
    "group.id",
    "key.converter",
    "value.converter",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
]


def test_every_missing_required_setting_is_named_at_once(
    settings: dict[str, str], tmp_path: Path
) -> None:
    left = {name: text for name, text in settings.items() if name not in MISSING}
    needed = [name for name in MISSING if name != "bootstrap.servers"]  # that one has a default
    message = refused(tmp_path, left, *needed)
    for name in needed:
        assert f'Missing required configuration "{name}" which has no default value.' in message


def test_an_unknown_converter_class_is_named(settings: dict[str, str], tmp_path: Path) -> None:
    settings["value.converter"] = "org.example.Nonsense"
    refused(
        tmp_path,
        settings,
        "value.converter",
        "org.example.Nonsense",
        "org.apache.kafka.connect.json.JsonConverter",  # the message lists the available ones
    )


def test_a_port_in_use_is_named(settings: dict[str, str], tmp_path: Path, taken_port: int) -> None:
    settings["listeners"] = f"http://127.0.0.1:{taken_port}"
    refused(tmp_path, settings, "listeners", f"Port {taken_port} is in use")


@pytest.mark.parametrize("store", ["config", "offset", "status"])
def test_a_topic_that_is_not_compacted_is_named(
    settings: dict[str, str], tmp_path: Path, topics: Topics, store: str
) -> None:
    key = f"{store}.storage.topic"
    topics.create(settings[key], cleanup_policy="delete")
    refused(
        tmp_path,
        settings,
        f"Topic '{settings[key]}' supplied via the '{key}' property is required to have "
        "'cleanup.policy=compact'",
    )


def test_a_missing_java_is_named(settings: dict[str, str], tmp_path: Path) -> None:
    refused(tmp_path, settings, "Java", "JAVA_HOME", JAVA_HOME=str(tmp_path))


def test_an_old_java_is_named(settings: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    program.chmod(0o755)
    refused(tmp_path, settings, "Java 11 is too old", "17", JAVA_HOME=str(tmp_path))


def test_a_missing_worker_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "nowhere.properties"
    message_of(penstock("distributed", file), str(file), "No such file or directory")


def test_a_worker_file_that_is_a_folder_is_named(tmp_path: Path) -> None:
    message_of(penstock("distributed", tmp_path), str(tmp_path), "Is a directory")


def test_a_brokers_port_in_use_is_named(tmp_path: Path, taken_port: int) -> None:
    ended = penstock("broker", "--port", taken_port, "--data", tmp_path)
    message_of(ended, f"Port {taken_port} is in use", "--port")


def test_a_trace_is_shown_when_asked_for(settings: dict[str, str], tmp_path: Path) -> None:
    settings["value.converter"] = "org.example.Nonsense"
    file = tmp_path / "worker.properties"
    file.write_bytes(render_properties(settings))
    ended = penstock("distributed", file, "--debug")
    assert ended.returncode > 0
    assert "Traceback (most recent call last)" in ended.stderr
    assert "org.example.Nonsense" in ended.stderr


def test_a_missing_broker_is_named(patient: dict[str, Patient]) -> None:
    nobody = patient["bootstrap.servers"]
    message_of(nobody.ended(), "bootstrap.servers", nobody.value)


def test_a_replication_factor_the_cluster_cannot_keep_is_named(patient: dict[str, Patient]) -> None:
    ended = patient["status.storage.replication.factor"].ended()
    message_of(ended, "status.storage.replication.factor", "fewer brokers")
