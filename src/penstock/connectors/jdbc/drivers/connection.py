"""Connections to databases, for reading and writing."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.errors import DatabaseAway, DatabaseRefused
from penstock.connectors.jdbc.drivers.url import Url

Row = tuple[Any, ...]
Parameters = Sequence[object]

BLOCK_ROWS: Final = 8192
"""Rows of a query that are fetched at a time."""


class Connection(ABC):
    """A connection, in no transaction unless `transaction` begins one. `placeholder` marks a
    parameter in a statement; `raw` is the driver's own connection, for use within `errors`."""

    placeholder: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()  # that it imports from the extra `jdbc`

    def __init__(self, url: Url, raw: Any) -> None:
        self.url = url
        self.kind = url.kind
        self.raw = raw

    @classmethod
    @abstractmethod
    def open(cls, url: Url) -> Self:
        """A new connection; raises the driver's own errors."""

    @staticmethod
    @abstractmethod
    def error_of(error: Exception) -> PenstockError:
        """Translates a driver's error into one of ours, with the database's own message."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """False once the connection is closed or known to be lost."""

    @contextlib.contextmanager
    def errors(self, doing: str = "") -> Iterator[None]:
        """Translates the driver's errors raised inside into ours (`drivers.errors`). `doing`
        starts their messages with the operation (`writing to table "t"`)."""
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            translated = self.error_of(error)
            # The last message of a server that shuts down reports what it lost first (a parallel
            # worker: SQLSTATE 55000).
            gone = isinstance(translated, DatabaseRefused) and not self.is_open
            kind = DatabaseAway if gone else type(translated)
            raise kind(f"{doing}: {translated}" if doing else str(translated)) from error

    @abstractmethod
    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Runs a statement; returns the number of rows it changed, or -1 if that is undefined."""

    @abstractmethod
    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of a query."""

    @abstractmethod
    def stream(
        self, sql: str, parameters: Parameters = (), size: int = BLOCK_ROWS
    ) -> Iterator[list[Row]]:
        """The rows of a query, at most `size` at a time and never all at once in memory. On
        PostgreSQL inside a transaction only; on MySQL no other statement can run until the last
        row is read or the iterator is closed."""

    @abstractmethod
    def many(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Runs a statement for every row of parameters."""

    @abstractmethod
    def transaction(
        self, *, isolation: str = "", writing: bool = True
    ) -> contextlib.AbstractContextManager[None]:
        """Commits at the end, or rolls back on any exception. `isolation` is a level in SQL's words
        (`REPEATABLE READ`); with `writing`, SQLite takes its lock first."""

    def transaction_id(self) -> str | None:
        """Identifies the current transaction for `was_committed`; None: the database cannot."""
        return None

    def was_committed(self, transaction_id: str) -> bool:
        """Whether a transaction of another connection was committed, after the connection was lost
        during its COMMIT. Raises DatabaseBusy while it is in progress."""
        raise NotImplementedError

    @abstractmethod
    def savepoint(self) -> contextlib.AbstractContextManager[None]:
        """Within a transaction: rolls back to here when the database refuses a row."""

    @abstractmethod
    def isolate(self, level: str) -> None:
        """Sets the isolation level of further transactions, in SQL's words."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection; safe to call twice, and on a lost one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_quotes(name: str, quotes: tuple[str, str]) -> str:
    """A name for use in statements, between the opening and the closing quote; two empty texts
    for a database without quotes.

    >>> in_quotes("a]b", ("[", "]"))
    '[a]]b]'
    """
    opening, closing = quotes
    return f"{opening}{name.replace(closing, closing * 2)}{closing}" if closing else name
