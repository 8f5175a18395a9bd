"""Errors of requests to a cluster."""

from __future__ import annotations

from penstock.api import PenstockError, Unavailable


class Unreachable(Unavailable):
    """No answer, or one that asks to retry later."""


class Answered(PenstockError):
    """The cluster refused a request."""

    def __init__(self, http_status: int, type: str, reason: str) -> None:
        self.http_status = http_status
        self.type = type
        super().__init__(f"{type}: {reason} (status {http_status})")


class Refused(PenstockError):
    """The cluster refused one record."""


class WriteFailed(PenstockError):
    """The cluster refused a record for a reason that the record did not cause."""
