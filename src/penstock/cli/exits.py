"""The exit codes, and the errors that only the command line knows."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.errors import PenstockError


class Exit(IntEnum):
    """What the command ends with. `docs/cli.md` holds the same table; a test compares them."""

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
    Exit.DONE: "done; nothing has failed, nothing differs",
    Exit.DIFFERENT: "`diff`: something would change; else an error without a number of its own",
    Exit.USAGE: "the command, a file or a setting cannot be used; a worker could not start",
    Exit.INVALID: "the connector's configuration is not valid",
    Exit.FAILED: "a connector or task is `FAILED`, a worker is not healthy",
    Exit.NOT_FOUND: "the connector, plugin, task or logger is not known",
    Exit.NO_ANSWER: "no worker answers",
    Exit.TIMED_OUT: "waited in vain",
    Exit.REFUSED: "the worker refused the request, or failed at it",
    Exit.INTERRUPTED: "Ctrl-C",
}


class CommandError(PenstockError):
    """An error with a second line: what to do about it. Empty when nothing is known."""

    code = "cli.error"

    def __init__(self, message: str, advice: str = "") -> None:
        self.advice = advice
        super().__init__(message)


class Unusable(CommandError):
    """A file, setting or address cannot be used as it stands."""

    code = "cli.unusable"
    exit_code = Exit.USAGE


class NotThere(CommandError):
    """What was named is not known."""

    code = "cli.not_found"
    exit_code = Exit.NOT_FOUND


class NotValid(CommandError):
    """The configuration was found not to be valid without asking a worker."""

    code = "cli.not_valid"
    exit_code = Exit.INVALID


class NoAnswer(CommandError):
    """No worker answers, or the connection broke."""

    code = "cli.no_answer"
    exit_code = Exit.NO_ANSWER
    retriable = True


class HasFailed(CommandError):
    """Something is FAILED that was waited for to run."""

    code = "cli.failed"
    exit_code = Exit.FAILED


class TimedOut(CommandError):
    """The state waited for was not reached in time."""

    code = "cli.timed_out"
    exit_code = Exit.TIMED_OUT
    retriable = True
