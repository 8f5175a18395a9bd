"""What tests with real parts share: a broker, database servers, and names nobody else uses."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.kafka.broker import Broker
from penstock.testing.databases import DatabaseServer, MariaDbServer, PostgresServer
from penstock.testing.topics import Topics

os.environ.setdefault("PENSTOCK_HOME", str(Path(__file__).parents[1] / ".penstock"))

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker, one for all tests that need one."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


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
