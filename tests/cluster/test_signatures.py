"""Requests between two workers, signed by an algorithm other than the default."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

ALGORITHM: Final = "HmacMD5"  # the others: tests/config/unit/test_macs.py


def test_the_leader_accepts_what_a_follower_forwards(
    broker: Broker,
    unique: Callable[[str], str],
    topics: Topics,
    tmp_path: Path,
) -> None:
    cluster = unique("signed")
    own = {
        "inter.worker.signature.algorithm": ALGORITHM,
        "inter.worker.key.generation.algorithm": ALGORITHM,
        "inter.worker.verification.algorithms": f"HmacSHA256,{ALGORITHM}",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    with contextlib.ExitStack() as running:
        pair = [
            running.enter_context(
                WorkerProcess(
                    tmp_path, {**worker_settings(broker.bootstrap, cluster), **own}, name=name
                )
            )
            for name in ("one", "other")
        ]
        for worker in pair:
            worker.await_rest()
        check(pair, unique, topics, tmp_path)


def check(
    pair: list[WorkerProcess], unique: Callable[[str], str], topics: Topics, folder: Path
) -> None:
    # Each worker runs connectors, so the follower sends the task configurations of some.
    names = [unique("source") for _ in range(4)]
    for number, name in enumerate(names):
        file, topic = folder / name, topics.create(name)
        file.write_text(f"{name}\n")
        config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
        pair[number % 2].create(name, config)
    for name in names:
        pair[0].await_states(name, ["RUNNING", "RUNNING"])
        wait_until(lambda name=name: topics.count(name) == 1, 30, f"the line of {name}")
    owners = {pair[0].status(name)["connector"]["worker_id"] for name in names}
    assert owners == {worker.id for worker in pair}
