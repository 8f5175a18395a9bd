"""Log levels, as they are read and set over REST."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock.errors import NotFound
from penstock.host.logs import LEVELS, level_name
from penstock.runtime.loggers import Loggers


class Clock:
    """Stands still."""

    def now(self) -> int:
        return 1_700_000_000_000


@pytest.fixture
def loggers() -> Iterator[Loggers]:
    """Loggers whose levels are restored afterwards."""
    for name in ("a.b", "a.b.c", "a.bc", "penstock.x"):
        logging.getLogger(name)
    known = [logging.root, *map(logging.getLogger, logging.root.manager.loggerDict)]
    before = [logger.level for logger in known]
    yield Loggers(Clock())
    for logger, level in zip(known, before, strict=True):
        logger.setLevel(level)


def test_a_level_counts_for_everything_below(loggers: Loggers) -> None:
    assert loggers.set_level("a.b", "debug") == ["a.b", "a.b.c"]
    assert loggers.get("a.b.c") == {"level": "DEBUG", "last_modified": 1_700_000_000_000}
    assert loggers.all()["a.b"]["level"] == "DEBUG"
    assert "a.bc" not in loggers.all()


def test_unchanged_loggers_have_no_time(loggers: Loggers) -> None:
    assert loggers.get("a.bc")["last_modified"] is None
    assert loggers.get("root")["level"] == level_name(logging.root.level)


def test_root_is_everything(loggers: Loggers) -> None:
    assert {"root", "a.b", "a.b.c"} <= set(loggers.set_level("root", "ERROR"))
    assert loggers.get("a.b")["level"] == "ERROR"


def test_kafka_connects_namespace_is_ours(loggers: Loggers) -> None:
    names = loggers.set_level("org.apache.kafka.connect", "TRACE")
    assert {"org.apache.kafka.connect", "penstock.x"} <= set(names)
    assert loggers.get("penstock.x")["level"] == "TRACE"


def test_a_logger_or_level_that_does_not_exist_is_not_found(loggers: Loggers) -> None:
    with pytest.raises(NotFound, match=r"Logger no\.such not found\."):
        loggers.get("no.such")
    with pytest.raises(NotFound, match="invalid log level 'LOUD'"):
        loggers.set_level("a.b", "LOUD")


@pytest.mark.parametrize("name", LEVELS)
def test_every_level_is_shown_under_its_name(loggers: Loggers, name: str) -> None:
    loggers.set_level("a.b", name)
    assert loggers.get("a.b")["level"] == name
