"""What the exceptions of JDBC drivers mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
    other_error,
)

_AWAY: Final = ("08", "53", "57", "58", "90067", "90098", "90121", "90135")
"""Connection, resources, an operator's intervention, the system; what H2 says of a connection that
broke and of a database that is closed."""
_BUSY: Final = ("40", "HYT00", "HYT01", "55P03", "57014", "57033")
"""Conflicts and deadlocks, locks that were not given in time, statements that took too long."""
_ROW: Final = ("22", "23", "44")
_REFUSED: Final = ("28", "3D", "90146", "90149")
"""A login, and a database that there is not (the numbers are H2's)."""
_BY_CLASS: Final = (
    ("SQLNonTransientConnectionException", DatabaseAway),
    ("SQLTransientConnectionException", DatabaseAway),
    ("SQLRecoverableException", DatabaseAway),
    ("SQLTransactionRollbackException", DatabaseBusy),
    ("SQLTimeoutException", DatabaseBusy),
    ("SQLTransientException", DatabaseBusy),
    ("SQLDataException", RowRefused),
    ("SQLIntegrityConstraintViolationException", RowRefused),
)
"""The classes of JDBC 4 that say it, for states that do not."""


def error_of(error: Exception) -> PenstockError:
    """The error of ours that says what a driver's exception means: by its SQLState, or else by its
    class."""
    import jpype

    if not isinstance(error, jpype.JException):
        if isinstance(error, pa.ArrowException):
            return RowRefused(str(error))  # cells that are of several kinds, or of none
        return other_error(error)
    if not isinstance(error, jpype.JClass("java.sql.SQLException")):
        return DatabaseRefused(f"{error.getClass().getName()}: {error.getMessage()}")
    failed: Any = error
    following = failed.getNextException()
    if isinstance(error, jpype.JClass("java.sql.BatchUpdateException")) and following is not None:
        failed = following  # what happened; the outer one says only that something did
    state = str(failed.getSQLState() or "")
    text = " ".join(str(failed.getMessage()).split())
    text = f"{text} (SQLSTATE {state})" if state else text
    return meaning(state, [each.getName() for each in _classes(jpype, failed)])(text)


def _classes(jpype: Any, error: Any) -> Iterator[Any]:
    kind = error.getClass()
    while kind is not None:
        yield kind
        kind = kind.getSuperclass()


def meaning(state: str, classes: Iterable[object]) -> type[PenstockError]:
    """What an SQLState means, or else the class of an exception, whose ancestors follow it.

    >>> meaning("23505", ()).__name__
    'RowRefused'
    """
    for states, found in (
        (_REFUSED, DatabaseRefused),
        (_BUSY, DatabaseBusy),  # two of its states are of a class of the next
        (_AWAY, DatabaseAway),
        (_ROW, RowRefused),
    ):
        if state.startswith(states):
            return found
    names = {str(each).rpartition(".")[2] for each in classes}
    return next((found for name, found in _BY_CLASS if name in names), DatabaseRefused)
