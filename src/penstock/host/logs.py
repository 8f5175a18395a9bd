"""The format of log lines, and their connector or task.

Every line about a connector or a task names it, as in Kafka Connect (KIP-449):

    [2026-11-21 10:00:00,123] INFO [orders|task-0] starting … (penstock.runtime.tasks)

`about` sets the connector or task of a thread; lines of plugins and libraries get the mark too.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import orjson

from penstock.config.redaction import redacted
from penstock.errors import StartupFailed
from penstock.ids import TaskId

LEVELS: Final = {
    "OFF": 100,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
"""Java's names of levels, from OFF to ALL."""

FORMATS: Final = ("text", "json")
FORMAT_VARIABLE: Final = "PENSTOCK_LOG_FORMAT"
LEVEL_VARIABLE: Final = "PENSTOCK_LOG_LEVEL"
ROOT_VARIABLE: Final = "CONNECT_LOG4J_ROOT_LOGLEVEL"
LOGGERS_VARIABLE: Final = "CONNECT_LOG4J_LOGGERS"

_OURS: Final = {"org.apache.kafka.connect": "penstock"}
_TALKATIVE: Final = ("py4j", "kafka", "httpx", "httpcore", "asyncio", "uvicorn")
_ALARMIST: Final = ("kafka.net.selector",)  # warns when the machine is busy

_about: ContextVar[str | TaskId | None] = ContextVar("about", default=None)


@contextmanager
def about(item: str | TaskId) -> Iterator[None]:
    """Marks the log lines of this thread with a connector (its name) or a task. Also wraps a
    function: `about(task)(function)`."""
    token = _about.set(item)
    try:
        yield
    finally:
        _about.reset(token)


def concern(item: str | TaskId) -> None:
    """Like `about`, but until the thread ends; for a thread of a Spark Python worker."""
    _about.set(item)


def level_name(number: int) -> str:
    """Java's name of a level, or of the next one that includes it."""
    return next(name for name, floor in LEVELS.items() if number >= floor or floor == 1)


def ours(namespace: str) -> str:
    """penstock's logger for a logger of Kafka Connect; others as given."""
    return _OURS.get(namespace, namespace)


class TextLines(logging.Formatter):
    """The format of Kafka Connect's default configuration; a trace follows its line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        time_text = self.formatTime(record)
        level = level_name(record.levelno)
        return f"[{time_text}] {level} {_mark()}{record.message} ({record.name})"

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class JsonLines(logging.Formatter):
    """An object per line: `timestamp` (UTC), `level`, `logger`, `thread`, `message`; `connector`
    and `task` if it is about one, `exception` if there is a trace."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "timestamp": f"{seconds}.{int(record.msecs):03d}Z",
            "level": level_name(record.levelno),
            "logger": record.name,
            "thread": record.threadName,
            "message": redacted(record.getMessage()),
        }
        match _about.get():
            case TaskId(connector, number):
                line |= {"connector": connector, "task": number}
            case str(connector):
                line |= {"connector": connector}
            case None:
                pass
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = redacted(record.exc_text)
        return orjson.dumps(line).decode()


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a process logs: its format, the root's level, and levels of single loggers."""

    format: str = "text"
    root: str = "INFO"
    loggers: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls, environ: Mapping[str, str], format: str | None = None, debug: bool = False
    ) -> LogSettings:
        """The settings in variables, those of the container images and penstock's; the two options
        take precedence. Raises StartupFailed for an unknown level or format."""
        chosen = format or environ.get(FORMAT_VARIABLE) or "text"
        if chosen not in FORMATS:
            raise StartupFailed(
                f"{FORMAT_VARIABLE} is '{chosen}'; it must be {' or '.join(FORMATS)}."
            )
        variable = LEVEL_VARIABLE if environ.get(LEVEL_VARIABLE) else ROOT_VARIABLE
        root = "DEBUG" if debug else environ.get(variable) or "INFO"
        loggers = {}
        for row in filter(None, map(str.strip, environ.get(LOGGERS_VARIABLE, "").split(","))):
            name, equals, level = row.partition("=")
            if not equals or not name.strip():
                raise StartupFailed(
                    f"{LOGGERS_VARIABLE} contains '{row}'; it must be LOGGER=LEVEL, separated by "
                    "commas."
                )
            loggers[name.strip()] = _level(LOGGERS_VARIABLE, level)
        return cls(chosen, _level(variable, root), loggers)


def log_to_stderr(settings: LogSettings) -> None:
    """Applies the settings to this process and the Python processes that Spark starts for it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    logging.basicConfig(level=LEVELS[settings.root], handlers=[handler], force=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, LEVELS[settings.root]))
    for name in _ALARMIST:
        logging.getLogger(name).setLevel(max(logging.ERROR, LEVELS[settings.root]))
    for name, level in (settings.loggers or {}).items():
        logging.getLogger(ours(name)).setLevel(LEVELS[level])
    os.environ |= {FORMAT_VARIABLE: settings.format, LEVEL_VARIABLE: settings.root}


def _level(variable: str, text: str) -> str:
    level = text.strip().upper()
    if level not in LEVELS:
        raise StartupFailed(
            f"{variable} sets the unknown level '{text.strip()}'; the levels are "
            f"{', '.join(LEVELS)}."
        )
    return level


def _mark() -> str:
    match _about.get():
        case TaskId(connector, number):
            return f"[{connector}|task-{number}] "
        case str(connector):
            return f"[{connector}|worker] "
        case None:
            return ""
