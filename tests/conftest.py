"""What tests with real parts share: a broker, database servers, and names nobody else uses."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import hypothesis
import pytest

from penstock.errors import StartupFailed
from penstock.kafka.broker import BRIEF, Broker, disk_free_mb
from penstock.testing.databases import DatabaseServer, MariaDbServer, PostgresServer
from penstock.testing.topics import Topics

# How long an example takes says more about what else the machine does than about the code.
hypothesis.settings.register_profile(
    "penstock",
    deadline=None,
    max_examples=int(os.environ.get("PENSTOCK_EXAMPLES", "40")),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("penstock")
os.environ.setdefault("PENSTOCK_HOME", str(Path(__file__).parents[1] / ".penstock"))

ROOM_MB: Final = 6_000  # what all tests together write, and some
TESTS: Final = Path(__file__).parent
LONGEST: Final = (
    "parity/test_take_over.py",
    "e2e/test_faults_workers.py",
    "e2e/test_file_sources.py",
    "e2e/test_spark_cluster.py",
    "e2e/test_faults_connectors.py",
    "e2e/test_tutorial.py",
    "e2e/test_exactly_once.py",
    "parity/test_exactly_once.py",
    "e2e/test_plugins.py",
    "e2e/test_jdbc_faults.py",
    "e2e/test_container.py",
    "e2e/test_files.py",
    "e2e/test_ftp.py",
    "e2e/test_rolling_restart.py",
    "e2e/test_image.py",
    "e2e/test_standalone.py",
    "e2e/test_openapi.py",
    "parity/test_parity.py",
    "e2e/test_cli.py",
    "parity/test_mongodb.py",
    "integration/test_mongodb_sink.py",
    "integration/test_mongodb_source.py",
    "integration/test_cassandra_sink.py",
    "integration/test_search_sink.py",
    "integration/test_search_source.py",
    "e2e/test_search.py",
    "integration/test_hdfs_sink.py",
    "integration/test_ftp_source.py",
    "integration/test_s3_source.py",
    "integration/test_s3_sink.py",
    "integration/test_gcs_azure_sink.py",
    "integration/test_gcs_azure_source.py",
    "e2e/test_files_kills.py",
    "e2e/test_mongodb.py",
    "e2e/test_cassandra.py",
    "e2e/test_mqtt.py",
    "e2e/test_redis.py",
    "e2e/test_sink_chaos.py",
    "e2e/test_worker_that_dies.py",
    "e2e/test_interceptors.py",
    "parity/test_standalone.py",
    "spark/test_data_plane.py",
    "e2e/test_upgrade.py",
)
"""The modules that take about a minute or longer, the longest first."""

_numbers = itertools.count(1)
_shared: list[Broker] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long is begun first, so that processes which share the modules end together."""
    rank = {TESTS / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker, one for all tests that need one."""
    folder = tmp_path_factory.mktemp("broker")
    if (room_mb := disk_free_mb(folder)) < ROOM_MB:
        pytest.fail(
            f"Tests with a broker need {ROOM_MB} MB for what they write; {room_mb} MB are free in "
            f"{folder.parents[1]}. Make room there, or name another place with TMPDIR.",
            pytrace=False,
        )
    with Broker(folder, java_options=[BRIEF]) as running:
        _shared.append(running)
        yield running


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nothing can be learned from a test whose broker has ended, but from the broker's words."""
    if "broker" in getattr(item, "fixturenames", ()):
        for each in _shared:
            try:
                each.check()
            except StartupFailed as problem:
                pytest.fail(str(problem), pytrace=False)


@pytest.fixture(scope="session")
def topics(broker: Broker) -> Topics:
    """The broker's topics and groups, seen by an outsider."""
    return Topics(broker.bootstrap)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[DatabaseServer]:
    """A PostgreSQL server, one for all tests that need one and do not stop it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[DatabaseServer]:
    """The same with MariaDB."""
    with MariaDbServer() as server:
        yield server


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that no other test uses, for topics and groups."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")

    def name(what: str) -> str:
        return f"{what}-{next(_numbers)}-{words}"

    return name
