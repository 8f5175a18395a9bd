"""The error tree: every error knows its code, its HTTP status, its exit code, and whether trying
again may help. Raise where the fact is known; catch once, at the edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class PenstockError(Exception):
    """Something went wrong that a user can read about. `str(error)` is the whole message."""

    code: ClassVar[str] = "penstock.error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False
    java_name: ClassVar[str] = "org.apache.kafka.connect.errors.ConnectException"
    """What Kafka Connect throws in its place; dead letter headers name it."""


class ConfigInvalid(PenstockError):
    """A configuration cannot be used; holds every problem found, not just the first."""

    code = "config.invalid"
    status = 400
    exit_code = 2
    java_name = "org.apache.kafka.common.config.ConfigException"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class NotFound(PenstockError):
    """The named connector, task or plugin is not known."""

    code = "not_found"
    status = 404


class AlreadyExists(PenstockError):
    """A connector of that name is configured already."""

    code = "already_exists"
    status = 409


class BadRequest(PenstockError):
    """The request cannot be served as it stands."""

    code = "bad_request"
    status = 400


class Unavailable(PenstockError):
    """A server that is needed does not answer; trying again later may help."""

    code = "unavailable"
    status = 503
    exit_code = 6  # as `penstock` ends when no worker answers
    retriable = True
    java_name = "org.apache.kafka.connect.errors.RetriableException"


class StartupFailed(PenstockError):
    """The worker cannot start in this environment (Java, port, disk, broker, topics)."""

    code = "startup"
    exit_code = 2


class DataError(PenstockError):
    """A record's bytes or values do not fit its schema (Kafka Connect's DataException)."""

    code = "data"
    java_name = "org.apache.kafka.connect.errors.DataException"


class Unsupported(PenstockError):
    """What is asked for cannot be done here; the message says why and what can be done."""

    code = "unsupported"
    status = 400
