"""A worker of the previous version and one of this version in one group; each leads once."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

from penstock.host.processes import worker_command
from penstock.kafka.broker import Broker
from penstock.testing.cluster import WorkerCluster
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from tests.places import ROOT

from .flowing import ITEMS, PARTITIONS, Stream

BEFORE: Final = "30fbb54f5183134e03db9f13aace2e14ab1bcc4e"
"""The commit of the previous version; every release updates it."""

START_S: Final = 120.0
LEADER: Final = re.compile("leaderUrl='http://([^/]+)/'")

SETTINGS: Final = {
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.storage.partitions": "2",
    "spark.driver.memory": "600m",
}

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow(60)]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source folder of the previous version."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", BEFORE, "src"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if archive.returncode != 0:
        pytest.skip(f"commit {BEFORE[:7]} is missing in this clone: git fetch --unshallow")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def test_versions_share_a_group(
    before: Path, broker: Broker, topics: Topics, cluster: str, tmp_path: Path
) -> None:
    def old_command(file: Path) -> list[str]:
        return ["env", f"PYTHONPATH={before}", *worker_command(file)]

    def made(name: str, *, old: bool) -> WorkerProcess:
        props = {**worker_settings(broker.bootstrap, cluster), **SETTINGS}
        command = old_command if old else worker_command
        return WorkerProcess(tmp_path, props, name=name, command=command)

    first, new, again = made("first", old=True), made("new", old=False), made("again", old=True)
    topic = topics.create(f"{cluster}-rows", PARTITIONS)
    with first, Stream(topics, cluster, topic, tmp_path / "rows.out") as stream:
        first.await_rest(START_S, "/health")
        stream.create(first)
        WorkerCluster([first]).await_shared(ITEMS, [first], START_S)
        stream.arriving()
        with new:
            new.await_rest(START_S, "/health")
            WorkerCluster([first, new]).await_shared(ITEMS, [first, new], START_S)
            assert _leader(new) == first.id
            assert str(before) in _environment(first)
            assert str(before) not in _environment(new)
            stream.arriving()

            assert first.stop() == 0, first.log_text()[-2000:]
            WorkerCluster([new]).await_shared(ITEMS, [new], START_S)
            assert _leader(new) == new.id
            stream.arriving()

            with again:
                again.await_rest(START_S, "/health")
                WorkerCluster([new, again]).await_shared(ITEMS, [new, again], START_S)
                assert _leader(again) == new.id
                stream.arriving()

                assert new.stop() == 0, new.log_text()[-2000:]
                WorkerCluster([again]).await_shared(ITEMS, [again], START_S)
                assert _leader(again) == again.id
                stream.arriving()
                stream.stop(again)
                assert again.stop() == 0, again.log_text()[-2000:]


def _leader(worker: WorkerProcess) -> str:
    """The leader of the last generation that this worker joined."""
    found: list[str] = LEADER.findall(worker.log_text())
    return found[-1]


def _environment(worker: WorkerProcess) -> str:
    return Path(f"/proc/{worker.pid}/environ").read_text()
