"""Internal topics that workers may not create: Kafka Connect 4.4.0 and penstock say the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.reference import reference_worker

SETTING: Final = "internal.topics.automatic.creation.enable"
SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_S: Final = 300.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["reference", "penstock"])
def test_a_worker_that_may_not_create_its_topics_ends_and_names_a_missing_one(
    broker: Broker, topics: Topics, unique: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    cluster = unique("by-hand")
    settings = {**worker_settings(broker.bootstrap, cluster), SETTING: "false"}
    for purpose in ("offset", "status"):
        topics.create(settings[f"{purpose}.storage.topic"], cleanup_policy="compact")
    missing = settings["config.storage.topic"]
    worker: WorkerProcess = (
        reference_worker(tmp_path, settings, options=SMALL, runtime="connect-4.4")
        if kind == "reference"
        else WorkerProcess(tmp_path, settings)
    )
    with worker:
        wait_until(lambda: worker.exit_code is not None, START_S, "the end of the worker")
    log = tmp_path / "reference.log4j.log"
    said = worker.log_text() + (log.read_text() if log.exists() else "")
    assert (
        f"Topic '{missing}' specified via the 'config.storage.topic' property is missing. The "
        f"config '{SETTING}' is set to 'false', so automatic creation of internal topics is "
        "disabled. Either enable automatic creation or create the topics manually."
    ) in said.replace("\n", " ")
    assert missing not in topics.names()
