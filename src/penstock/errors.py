"""The error tree: every error has an HTTP status, an exit code, and whether a retry may
help. Raise where the fact is known; catch once, at the edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class PenstockError(Exception):
    """An error for the user. `str(error)` is the whole message."""

    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False
    java_name: ClassVar[str] = "org.apache.kafka.connect.errors.ConnectException"
    """Kafka Connect's exception class for it, as written to dead letter headers."""


def is_transient(error: BaseException) -> bool:
    """Whether a retry may help."""
    return getattr(error, "retriable", False) is True


class ConfigInvalid(PenstockError):
    """An invalid configuration, with every problem found."""

    status = 400
    exit_code = 2
    java_name = "org.apache.kafka.common.config.ConfigException"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class NotInstalled(ConfigInvalid):
    """A configuration needs packages that are not installed here; the message has the command that
    installs them."""


class NotFound(PenstockError):
    """An unknown connector, task or plugin."""

    status = 404


class AlreadyExists(PenstockError):
    """A connector of that name exists already."""

    status = 409


class BadRequest(PenstockError):
    """An invalid request."""

    status = 400


class Unavailable(PenstockError):
    """A required server is unavailable; a later retry may help."""

    status = 503
    exit_code = 6  # also of `penstock` when no worker answers
    retriable = True
    java_name = "org.apache.kafka.connect.errors.RetriableException"


class StartupFailed(PenstockError):
    """The worker cannot start in this environment (Java, port, disk, broker, topics)."""

    exit_code = 2


class DataError(PenstockError):
    """A record's bytes or values do not fit its schema (Kafka Connect's DataException)."""

    java_name = "org.apache.kafka.connect.errors.DataException"


class Unsupported(PenstockError):
    """A request that penstock does not support; the message gives the reason and an alternative."""

    status = 400
