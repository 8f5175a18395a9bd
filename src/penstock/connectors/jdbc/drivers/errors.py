"""What databases' errors mean.

Whatever a driver raises comes out as one of four errors, so that nobody else need know a database's
codes:

    DatabaseAway     not reached, gone, out of room: try again     (retriable)
    DatabaseBusy     a deadlock, a lock, a conflict: try again     (retriable)
    RowRefused       a value that does not fit, a constraint       (the record's own fault)
    DatabaseRefused  everything else: password, privilege, SQL     (the task's fault)
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.api import DataError, PenstockError, Unavailable


class DatabaseAway(Unavailable):
    """The database cannot be reached, has closed the connection, or has no room."""

    code = "jdbc.away"


class DatabaseBusy(Unavailable):
    """Others were in the way: a deadlock, a lock that was not given, a conflicting transaction."""

    code = "jdbc.busy"


class RowRefused(DataError):
    """The database refuses a row for what is in it; others of the batch may be good."""

    code = "jdbc.row"


class DatabaseRefused(PenstockError):
    """The database refuses what was asked; trying again would not help."""

    code = "jdbc.refused"


def other_error(error: Exception) -> PenstockError:
    """What an error means that is none of a driver's own; raises what is a mistake of ours."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, OverflowError | UnicodeError):
        return RowRefused(str(error))  # a value that the driver cannot even send
    if isinstance(error, OSError):
        return DatabaseAway(str(error))
    raise error


def with_advice(text: str, advice: Mapping[str, str]) -> str:
    """A database's words, with the advice for words that it has among them."""
    return next((f"{text}; {more}" for words, more in advice.items() if words in text), text)
