"""The exit codes, and the errors that only the command line knows."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.errors import PenstockError


class Exit(IntEnum):
    """The exit codes. `docs/cli.md` has the same table; a test compares them."""

    DONE = 0
    DIFFERENT = 1
    USAGE = 2
    INVALID = 3
    FAILED = 4
    NOT_FOUND = 5
    NO_ANSWER = 6
    TIMED_OUT = 7
    REFUSED = 8
    INTERRUPTED = 130


MEANING: Final = {
    Exit.DONE: "success; nothing has failed, nothing differs",
    Exit.DIFFERENT: "`diff`, `apply --dry-run`: something would change; otherwise any other error",
    Exit.USAGE: "invalid command, file or setting; a worker could not start",
    Exit.INVALID: "the connector's configuration is invalid",
    Exit.FAILED: "a connector or task is `FAILED`, a worker is unhealthy",
    Exit.NOT_FOUND: "unknown connector, plugin, task, logger or topic",
    Exit.NO_ANSWER: "no worker, or no Kafka broker, answers",
    Exit.TIMED_OUT: "a wait timed out",
    Exit.REFUSED: "the worker rejected the request, or failed to serve it",
    Exit.INTERRUPTED: "Ctrl-C",
}


class CommandError(PenstockError):
    """An error with a second line of advice, which may be empty."""

    def __init__(self, message: str, advice: str = "") -> None:
        self.advice = advice
        super().__init__(message)


class Unusable(CommandError):
    """An invalid file, setting or address."""

    exit_code = Exit.USAGE


class NotThere(CommandError):
    """An unknown name."""

    exit_code = Exit.NOT_FOUND


class NotValid(CommandError):
    """A configuration that is found to be invalid without a worker."""

    exit_code = Exit.INVALID


class NoAnswer(CommandError):
    """No worker answers, or the connection broke."""

    exit_code = Exit.NO_ANSWER
    retriable = True


class HasFailed(CommandError):
    """A connector or task failed during a wait."""

    exit_code = Exit.FAILED


class TimedOut(CommandError):
    """The wait for a state timed out."""

    exit_code = Exit.TIMED_OUT
    retriable = True
