"""The meaning of databases' errors.

Every error of a driver becomes one of four, so that no other module needs a database's codes:

    DatabaseAway     unreachable, lost, out of resources: retry    (retriable)
    DatabaseBusy     a deadlock, a lock, a conflict: retry         (retriable)
    RowRefused       a value that does not fit, a constraint       (the record's own fault)
    DatabaseRefused  everything else: password, privilege, SQL     (the task's fault)
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.api import DataError, PenstockError, Unavailable


class DatabaseAway(Unavailable):
    """The database is unreachable, has disconnected, or is out of resources."""


class DatabaseBusy(Unavailable):
    """Another transaction interfered: a deadlock, a lock wait that timed out, a conflict."""


class RowRefused(DataError):
    """The database refuses a row because of its values; other rows of the batch may be good."""


class DatabaseRefused(PenstockError):
    """The database refuses a request; a retry would not help."""


def other_error(error: Exception) -> PenstockError:
    """Translates an error that is not the driver's own; raises it again if it is a bug of ours."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, OverflowError | UnicodeError):
        return RowRefused(str(error))  # a value that the driver cannot even send
    if isinstance(error, OSError):
        return DatabaseAway(str(error))
    raise error


def with_advice(text: str, advice: Mapping[str, str]) -> str:
    """A database's message, with the first advice whose key the message contains."""
    return next((f"{text}; {hint}" for words, hint in advice.items() if words in text), text)
