"""What goes wrong with requests to a cluster."""

from __future__ import annotations

from penstock.api import PenstockError, Unavailable


class Unreachable(Unavailable):
    """No answer, or one that says to try again later (`is_busy`)."""

    code = "search.unavailable"

    def __init__(self, text: str, *, is_busy: bool = False) -> None:
        self.is_busy = is_busy
        super().__init__(text)


class Answered(PenstockError):
    """The cluster has refused a request."""

    code = "search.refused"

    def __init__(self, http_status: int, type: str, reason: str) -> None:
        self.http_status = http_status
        self.type = type
        super().__init__(f"{type}: {reason} (status {http_status})")


class Refused(PenstockError):
    """The cluster has refused one record."""

    code = "search.record_refused"


class WriteFailed(PenstockError):
    """The cluster has refused a record for a reason that is none of the record."""

    code = "search.write_failed"
