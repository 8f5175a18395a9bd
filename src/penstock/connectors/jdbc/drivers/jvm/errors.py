"""The meaning of JDBC drivers' exceptions."""

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
"""Connection, resources, an operator's intervention, the system; H2's states for a broken
connection and a closed database."""
_BUSY: Final = ("40", "HYT00", "HYT01", "55P03", "57014", "57033")
"""Conflicts and deadlocks, lock waits that timed out, statements that took too long."""
_ROW: Final = ("22", "23", "44")
_REFUSED: Final = ("28", "3D", "90146", "90149")
"""A wrong login, a database that does not exist (the numbers are H2's)."""
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
"""JDBC 4's classes of exceptions, for states without a meaning here."""


def error_of(error: Exception) -> PenstockError:
    """Translates a driver's exception into one of our errors, by its SQLState or else by its
    class."""
    import jpype

    if not isinstance(error, jpype.JException):
        if isinstance(error, pa.ArrowException):
            return RowRefused(str(error))  # cells of mixed types, or of one not in Arrow
        return other_error(error)
    if not isinstance(error, jpype.JClass("java.sql.SQLException")):
        return DatabaseRefused(f"{error.getClass().getName()}: {error.getMessage()}")
    failed: Any = error
    following = failed.getNextException()
    if isinstance(error, jpype.JClass("java.sql.BatchUpdateException")) and following is not None:
        failed = following  # the actual error; the outer one only says "failed"
    state = str(failed.getSQLState() or "")
    text = " ".join(str(failed.getMessage()).split())
    text = f"{text} (SQLSTATE {state})" if state else text
    return meaning(state, [java_class.getName() for java_class in _classes(failed)])(text)


def _classes(error: Any) -> Iterator[Any]:
    java_class = error.getClass()
    while java_class is not None:
        yield java_class
        java_class = java_class.getSuperclass()


def meaning(state: str, classes: Iterable[object]) -> type[PenstockError]:
    """The error for an SQLState, or else for an exception's class, whose ancestors follow it.

    >>> meaning("23505", ()).__name__
    'RowRefused'
    """
    for states, error in (
        (_REFUSED, DatabaseRefused),
        (_BUSY, DatabaseBusy),  # before _AWAY, whose 57 would match two of its states
        (_AWAY, DatabaseAway),
        (_ROW, RowRefused),
    ):
        if state.startswith(states):
            return error
    names = {str(name).rpartition(".")[2] for name in classes}
    return next((error for name, error in _BY_CLASS if name in names), DatabaseRefused)
