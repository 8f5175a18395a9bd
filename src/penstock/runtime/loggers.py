"""Log levels as users see and set them over REST (kafka-connect.md §1.6, §14; KIP-495, KIP-976).

Loggers are Python's. Kafka Connect's namespace includes ours: setting `org.apache.kafka.connect` to
DEBUG also sets `penstock` to DEBUG.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from penstock.clock import Clock
from penstock.errors import NotFound
from penstock.host.logs import LEVELS, level_name, ours

ROOT: Final = "root"


class Loggers:
    """The loggers of this process, and when their levels were changed here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """Loggers with an explicit level, and `root`, by name."""
        loggers = {
            name: logger
            for name, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
        }
        loggers[ROOT] = logging.root
        return {name: self._shown(name, logger) for name, logger in sorted(loggers.items())}

    def get(self, name: str) -> dict[str, Any]:
        """One logger with its effective level; raises NotFound."""
        logger = logging.root if name == ROOT else logging.root.manager.loggerDict.get(name)
        if not isinstance(logger, logging.Logger):
            raise NotFound(f"Logger {name} not found.")
        return self._shown(name, logger)

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Sets the level of a logger and of all below it, and returns their names. Raises NotFound
        for an unknown level."""
        number = LEVELS.get(level.upper())
        if number is None:
            raise NotFound(f"invalid log level '{level}'.")
        with self._lock:
            names = self._below(namespace) | self._below(ours(namespace))
            now = self._clock.now()
            for name in names:
                logger = logging.root if name == ROOT else logging.getLogger(name)
                if logger.getEffectiveLevel() != number or logger.level == logging.NOTSET:
                    logger.setLevel(number)
                    self._modified[name] = now
        return sorted(names)

    def _below(self, namespace: str) -> set[str]:
        names = [
            name
            for name, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger)
        ]
        if namespace == ROOT:
            return {ROOT, *names}
        return {namespace} | {name for name in names if name.startswith(f"{namespace}.")}

    def _shown(self, name: str, logger: logging.Logger) -> dict[str, Any]:
        return {
            "level": level_name(logger.getEffectiveLevel()),
            "last_modified": self._modified.get(name),
        }
