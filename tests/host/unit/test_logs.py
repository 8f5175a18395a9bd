"""The format of log lines, and which origin they name."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from penstock.errors import StartupFailed
from penstock.host import logs
from penstock.host.logs import LogSettings, about, log_to_stderr
from penstock.ids import TaskId

TASK = TaskId("orders|eu", 3)


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """A separate logger; restores the root's handlers and level, and the environment."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    # Stages of other tests in this process have named the owner of this thread.
    monkeypatch.setattr(logs, "_about", ContextVar("about", default=None))
    root, named = logging.getLogger(), logging.getLogger("penstock.test")
    mine = [root, named, logging.getLogger("penstock")]
    levels, handlers = [each.level for each in mine], root.handlers[:]
    for each in mine[1:]:
        each.setLevel(logging.NOTSET)
    root.handlers[:] = []
    yield named
    root.handlers[:] = handlers
    for each, level in zip(mine, levels, strict=True):
        each.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_line_has_its_time_level_and_logger_and_says_whose_it_is(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(LogSettings())
    logger.warning("for %s", "all")
    with about("orders"):
        logger.info("planned")
        with about(TASK):
            logger.error("failed")
        logger.debug("not shown")
    logger.critical("over")
    found = lines(capsys)
    assert all(re.match(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] ", line) for line in found)
    assert [line.split("] ", 1)[1] for line in found] == [
        "WARN for all (penstock.test)",
        "INFO [orders|worker] planned (penstock.test)",
        "ERROR [orders|eu|task-3] failed (penstock.test)",
        "FATAL over (penstock.test)",
    ]


def test_a_trace_follows_its_line(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(LogSettings())
    logger.error("boom", exc_info=ValueError("why"))
    assert lines(capsys)[-1] == "ValueError: why"


def test_json_has_an_object_per_line_whatever_is_in_it(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(LogSettings(format="json"))
    logger.info("plain")
    with about(TASK):
        logger.error('a "quoted"\nline', exc_info=ValueError("why"))
    with about("orders"):
        logger.info("planned")
    plain, failed, planned = map(json.loads, lines(capsys))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", plain.pop("timestamp"))
    assert plain == {
        "level": "INFO",
        "logger": "penstock.test",
        "thread": threading.current_thread().name,
        "message": "plain",
    }
    assert (failed["connector"], failed["task"]) == ("orders|eu", 3)
    assert failed["message"] == 'a "quoted"\nline'
    assert failed["exception"].endswith("ValueError: why")
    assert planned["connector"] == "orders"
    assert "task" not in planned


def test_log_lines_of_a_pool_name_the_task_they_are_about(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(LogSettings())
    with ThreadPoolExecutor(1) as pool:
        for task in (TASK, TaskId("other", 0)):
            pool.submit(about(task)(logger.info), "%s", task).result()
        pool.submit(logger.info, "nobody's").result()
    marks = [line.split("INFO ")[1].split("(")[0] for line in lines(capsys)]
    assert marks == ["[orders|eu|task-3] orders|eu-3 ", "[other|task-0] other-0 ", "nobody's "]


def test_the_variables_of_the_container_images_set_levels(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {
        "CONNECT_LOG4J_ROOT_LOGLEVEL": "warn",
        "CONNECT_LOG4J_LOGGERS": "org.apache.kafka.connect=DEBUG, org.reflections=ERROR",
    }
    log_to_stderr(LogSettings.of(variables))
    logger.debug("ours")
    logging.getLogger("somebody").info("else's")
    assert [line.split("] ", 1)[1] for line in lines(capsys)] == ["DEBUG ours (penstock.test)"]
    assert logging.getLogger("org.reflections").level == logging.ERROR


def test_child_processes_find_the_log_settings_in_their_environment(
    logger: logging.Logger,
) -> None:
    log_to_stderr(LogSettings.of({"PENSTOCK_LOG_FORMAT": "text"}, "json", debug=True))
    assert LogSettings.of(os.environ) == LogSettings("json", "DEBUG", {})


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"PENSTOCK_LOG_FORMAT": "xml"}, "PENSTOCK_LOG_FORMAT is 'xml'; it must be text or json."),
        ({"PENSTOCK_LOG_LEVEL": "loud"}, "PENSTOCK_LOG_LEVEL sets the unknown level 'loud'"),
        (
            {"CONNECT_LOG4J_ROOT_LOGLEVEL": "5"},
            "CONNECT_LOG4J_ROOT_LOGLEVEL sets the unknown level",
        ),
        (
            {"CONNECT_LOG4J_LOGGERS": "a"},
            "CONNECT_LOG4J_LOGGERS contains 'a'; it must be LOGGER=LEVEL",
        ),
        ({"CONNECT_LOG4J_LOGGERS": "=INFO"}, "CONNECT_LOG4J_LOGGERS contains '=INFO'"),
        ({"CONNECT_LOG4J_LOGGERS": "a=b"}, "CONNECT_LOG4J_LOGGERS sets the unknown level 'b'"),
    ],
)
def test_an_unknown_level_or_format_is_named(variables: dict[str, str], text: str) -> None:
    with pytest.raises(StartupFailed) as refused:
        LogSettings.of(variables)
    assert text in str(refused.value)
